// Everything that can happen to the coordinator, as values. Services and links create them; Decide
// consumes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/v1/error.pb.h"
#include "muster/v1/event.pb.h"
#include "muster/v1/identity.pb.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// The requester: "user:alice" or "worker:node1" by certificate, "uid:1000" over the unix socket,
// "peer:10.0.0.7" over plain TCP.
struct Caller {
  std::string principal;
  v1::Role role = v1::ROLE_UNSPECIFIED;
  std::string from;          // "unix", "10.0.0.7:41180"
  std::string serial;        // of the certificate; empty: none
  int64_t until_ms = 0;      // when the certificate ends; 0: there is none
  std::string user_id = {};  // User.id: differs from that of an earlier person of this name
};

// Hashes that distinguish specs with one idempotency key (spec_hash.h): with the cluster's key; without it, as
// for jobs that were submitted before the cluster had one; and as 0.2.0 computed it.
struct SentSpec {
  uint64_t keyed = 0;
  uint64_t plain = 0;
  uint64_t as_020 = 0;
};

struct SubmitInput {
  Caller caller;
  v1::SubmitRequest request;
  bool attached = false;
  std::string account = {};  // the caller's, if an administrator has named one
  // rerun: the checkpoint of another job that the first attempt resumes from. Its blobs then belong
  // to this job too.
  std::optional<v1::Checkpoint> resume_from;
  // The hashes of the spec as the client sent it, if its environment was sealed since and there is
  // an idempotency key.
  std::optional<SentSpec> sent = {};
};

// Several jobs in one request. Names are already resolved to numbers.
struct CancelInput {
  Caller caller;
  std::vector<uint64_t> jobs;
  bool has_grace = false;
  uint32_t grace_ms = 0;
  v1::StopCause cause = v1::STOP_CAUSE_CANCELLED;
  std::string reason;  // empty: "cancelled by <caller>"
};

struct SignalInput {
  Caller caller;
  uint64_t job = 0;
  int32_t signal = 0;
};

// Live jobs are refused. Finished jobs are not in the state, so the shell supplies the keys to
// forget; it removes their rows, logs, metrics and blobs once the turn is durable
// (Turn::removed_jobs).
struct RemoveInput {
  struct Job {
    uint64_t id = 0;
    std::string name;
    std::string owner;
    std::string idempotency_key;
    std::string owner_id = {};
  };
  Caller caller;
  std::vector<Job> jobs;
};

struct StopInput {
  Caller caller;
  std::vector<uint64_t> jobs;
  std::optional<uint32_t> notice_ms;  // absent: Settings.notice_ms
};

struct ReleaseInput {
  Caller caller;
  std::vector<uint64_t> jobs;
  bool from_scratch = false;  // without a checkpoint that another coordinator has
};

// What is absent stays as it is.
struct SetInput {
  Caller caller;
  std::vector<uint64_t> jobs;
  std::optional<int32_t> priority;
  std::optional<uint64_t> estimate_ms;
  std::optional<bool> urgent;
  std::optional<std::string> project = {};  // the caller is a member of it
};

struct RemoveCheckpointInput {
  Caller caller;
  uint64_t job = 0;
  int64_t step = 0;      // common::kOutputsStep: the outputs of …
  uint32_t attempt = 0;  // … this attempt
};

// Verification found damaged files.
struct FlagCheckpointInput {
  uint64_t job = 0;
  int64_t step = 0;
  uint32_t attempt = 0;  // that saved it
  std::string why;
};

struct DrainInput {
  Caller caller;
  std::string node;
  bool drain = true;
  std::string reason;
  bool evict = false;  // jobs that run there save and leave it
  std::optional<uint32_t> notice_ms = {};
};

struct DeclareDeadInput {
  Caller caller;
  std::string node;
  std::string reason;
};

// Forgets a node that is not connected and on which nothing is alive.
struct RemoveNodeInput {
  Caller caller;
  std::string node;
  std::string reason;
};

// Messages of a control stream. `session` is assigned by the service, increases, and fences the
// node's older streams.
struct WorkerRegisteredInput {
  uint64_t session = 0;
  v1::Register message;
  // For each checkpoint part of the message, in order, why it cannot count; an empty or missing
  // text: it may.
  std::vector<std::string> part_problems = {};
};

struct WorkerSaidInput {
  uint64_t session = 0;
  std::string node;
  v1::WorkerMessage message;      // heartbeat, attempt_status or checkpoint_part
  std::string part_problem = {};  // why a checkpoint_part cannot count: its bytes are not here
};

struct WorkerGoneInput {
  uint64_t session = 0;
  std::string node;
};

// An assessment found something in a live job that tells of findings (JobSpec.notify).
struct FindingInput {
  uint64_t job = 0;
  v1::Finding finding;
};

// An assessment knows how much longer a running attempt trains.
struct ProgressInput {
  uint64_t job = 0;
  uint32_t attempt = 0;
  int64_t left_ms = 0;
};

// The shares of all projects, as the directory of identities has them.
struct ProjectsInput {
  v1::ProjectsSet projects;
};

// A delivery of JobSpec.notify has ended. The job may be over.
struct NotifiedInput {
  uint64_t job = 0;
  uint32_t attempt = 0;
  v1::Notified notified;
};

// The disk of the data directory has become almost full, or has space again.
struct DiskSpaceInput {
  v1::DiskSpace space;
};

// A file of the job's output or metrics cannot be written.
struct StreamFailedInput {
  uint64_t job = 0;
  uint32_t attempt = 0;
  v1::ErrorDetail error;
};

// Time has passed. The loop sends one when NextDeadlineMonoMs is due.
struct TickInput {};

using Input =
    std::variant<TickInput, SubmitInput, CancelInput, SignalInput, ReleaseInput, RemoveInput,
                 RemoveCheckpointInput, FlagCheckpointInput, DrainInput, DeclareDeadInput,
                 RemoveNodeInput, WorkerRegisteredInput, WorkerSaidInput, WorkerGoneInput,
                 FindingInput, SetInput, StopInput, ProgressInput, ProjectsInput, NotifiedInput,
                 DiskSpaceInput, StreamFailedInput>;

}  // namespace muster::coordinator
