// The message for a webhook or a command, and when to retry it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/client.h"
#include "coordinator/notify/delivery.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// Whether `notify` asks for a message about a job that ended like this.
bool Wants(const v1::Notify& notify, v1::JobState state);

// The facts of a live or finished job for its messages, without those that can be large.
v1::JobRecord FactsToTell(const v1::JobRecord& job);

// `name` (NameOf) is the same for every try, so that a receiver can recognize a repetition
// (X-Muster-Delivery). Signed with the job's variable `secret_env`, in GitHub's format
// (X-Hub-Signature-256). The caller decides which addresses it may call. INVALID_ARGUMENT: the URL is
// invalid. NOT_FOUND: the job has no such finding.
absl::StatusOr<common::HttpCall> MakePost(const v1::JobRecord& job, const Delivery& delivery,
                                          const std::string& name);
// "sha256=" and HMAC-SHA256 in hexadecimal digits.
std::string SignatureOf(std::string_view body, std::string_view secret);
// The same for a command. NOT_FOUND as above.
absl::StatusOr<v1::RunNotify> MakeRun(const v1::JobRecord& job, const Delivery& delivery,
                                      const std::string& name);
// Where a command may run: the nodes of the newest attempt, that of rank 0 first.
std::vector<std::string> NodesToRunOn(const v1::JobRecord& job);

// The pause before try number `tries` + 1: doubles from `first_ms` up to 5 minutes.
int64_t PauseMs(int tries, int64_t first_ms);
// Answers after which it is never retried: delivered, or refused for good.
bool IsDelivered(int http_status);
bool IsRefused(int http_status);
// A command that could not run anywhere is given up.
// limit: notify: until a command that no node took is given up; an event reports it
inline constexpr int64_t kCommandGivenUpAfterMs = 15 * 60'000;
inline constexpr int kCommandTriesMin = 8;  // also after a long pause of the coordinator
bool IsCommandGivenUp(int64_t waited_ms, int tries);

}  // namespace muster::coordinator
