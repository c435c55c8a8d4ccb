// What every rank of a job is doing: forwards the question to the nodes and their answers to the
// client. Changes nothing in the cluster.
#include "coordinator/rpc/diagnosis.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/core/views.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr uint32_t kWaitMs = 10'000;
constexpr uint32_t kWaitMsMost = 600'000;
constexpr size_t kQueuedBytesMax = 64 << 20;
constexpr std::chrono::milliseconds kExpireEvery{100};

v1::DiagnosedAttempt Describe(const v1::JobRecord& job, const v1::Attempt& attempt) {
  v1::DiagnosedAttempt described;
  described.set_job(job.id());
  described.set_name(job.name());
  described.set_attempt(attempt.number());
  described.set_world_size(attempt.world_size());
  *described.mutable_parts() = attempt.parts();
  for (v1::NodePart& part : *described.mutable_parts()) {
    part.clear_exits();
    part.clear_device_indexes();
  }
  return described;
}

v1::CoordinatorMessage QuestionFor(const v1::DiagnosedAttempt& attempt, uint64_t number,
                                   const std::string& principal) {
  v1::CoordinatorMessage message;
  v1::DiagnoseAttempt* diagnose = message.mutable_diagnose();
  diagnose->set_job(attempt.job());
  diagnose->set_attempt(attempt.attempt());
  diagnose->set_number(number);
  diagnose->set_reason(StrCat("asked by ", principal));
  return message;
}

bool RunsOn(const v1::DiagnosedAttempt& attempt, const std::string& node, uint32_t rank) {
  return std::any_of(attempt.parts().begin(), attempt.parts().end(), [&](const v1::NodePart& part) {
    return part.node() == node && rank >= part.first_rank() &&
           rank - part.first_rank() < part.local_world_size();
  });
}

absl::Status TooManyStreams(size_t open, const std::string& whose) {
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1308",
       .what = StrCat(open, " requests for the records of ranks", whose, " are being answered"),
       .why = "what their clients have not read yet is kept in memory",
       .fix = "end one of them (jobctl stack, jobctl diagnose), or ask again in a moment"});
}

// One timer for all: a client that comes and leaves leaves none behind.
void ExpireSoon(Daemon& daemon) {
  daemon.pool.PostAfter(kExpireEvery, [&daemon] {
    if (daemon.diagnoses.Expire(std::chrono::steady_clock::now())) ExpireSoon(daemon);
  });
}

}  // namespace

absl::StatusOr<uint64_t> Diagnoses::Open(v1::DiagnosedAttempt attempt, const std::string& principal,
                                         Time until, std::shared_ptr<Stream> stream) {
  v1::DiagnoseJobUpdate first;
  *first.mutable_attempt() = attempt;
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(TakeSeat(principal));
    number = ++last_number_;
    requests_[number] = {std::move(attempt), until, stream, {}};
  }
  stream->Observe({}, [this, number, principal] { Leave(number, principal); });
  stream->Write(std::move(first));
  return number;
}

// With the lock.
absl::Status Diagnoses::TakeSeat(const std::string& principal) {
  if (streams_in_all_ >= kStreamsMax) return TooManyStreams(streams_in_all_, "");
  const auto own = streams_.find(principal);
  if (own != streams_.end() && own->second >= kStreamsOfOneMax)
    return TooManyStreams(own->second, StrCat(" of ", principal));
  ++streams_[principal];
  ++streams_in_all_;
  return absl::OkStatus();
}

void Diagnoses::Leave(uint64_t number, const std::string& principal) {
  {
    std::lock_guard lock(mutex_);
    --streams_in_all_;
    if (--streams_[principal] == 0) streams_.erase(principal);
  }
  Close(number, absl::CancelledError("the client left"));
}

bool Diagnoses::Take(const std::string& node, v1::RankDiagnosis diagnosis) {
  std::shared_ptr<Stream> stream;
  bool all = false;
  const uint64_t number = diagnosis.number();
  {
    std::lock_guard lock(mutex_);
    const auto found = requests_.find(number);
    if (found == requests_.end()) return true;
    Request& request = found->second;
    // A late answer to a request of the coordinator's earlier life.
    if (request.attempt.job() != diagnosis.job() ||
        request.attempt.attempt() != diagnosis.attempt()) {
      return true;
    }
    if (!RunsOn(request.attempt, node, diagnosis.rank())) return false;
    if (!request.answered.insert(diagnosis.rank()).second) return true;
    all = request.answered.size() == request.attempt.world_size();
    stream = request.stream;
  }
  v1::DiagnoseJobUpdate update;
  diagnosis.set_node(node);
  *update.mutable_diagnosis() = std::move(diagnosis);
  stream->Write(std::move(update));
  if (all) {
    Close(number, absl::OkStatus());
  } else if (stream->QueuedBytes() > kQueuedBytesMax) {
    Close(number,
          absl::ResourceExhaustedError("the client reads the records too slowly; ask again"));
  }
  return true;
}

void Diagnoses::Close(uint64_t number, const absl::Status& status) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(mutex_);
    const auto found = requests_.find(number);
    if (found == requests_.end()) return;
    stream = std::move(found->second.stream);
    requests_.erase(found);
  }
  stream->Close(status);
}

bool Diagnoses::BeginExpiring() {
  std::lock_guard lock(mutex_);
  return !requests_.empty() && !std::exchange(is_expiring_, true);
}

bool Diagnoses::Expire(Time now) {
  std::vector<std::shared_ptr<Stream>> expired;
  bool is_left = false;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(requests_, [&](auto& item) {
      if (now < item.second.until) return false;
      expired.push_back(std::move(item.second.stream));
      return true;
    });
    is_left = is_expiring_ = !requests_.empty();
  }
  for (const auto& stream : expired) stream->Close(absl::OkStatus());
  return is_left;
}

void DiagnoseJob(Daemon& daemon, const Caller& caller, const v1::DiagnoseJobRequest& request,
                 std::shared_ptr<Sink<v1::DiagnoseJobUpdate>> sink) {
  const std::chrono::milliseconds wait(
      std::min(request.wait_ms() > 0 ? request.wait_ms() : kWaitMs, kWaitMsMost));
  FindJob(daemon, caller, request.job(), [&daemon, caller, wait, sink](auto found) {
    if (!found.ok()) return sink->Close(found.status());
    const uint64_t id = found->record->id();
    daemon.loop.Ask([&daemon, caller, wait, sink, id,
                     record = found->record](const LoopView& view) -> std::function<void()> {
      const auto job = view.state.jobs.find(id);
      const v1::Attempt* attempt =
          job == view.state.jobs.end() ? nullptr : LiveAttempt(job->second);
      if (attempt == nullptr || attempt->running_ms() == 0) {
        sink->Close(
            common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                                {.code = "JC1208",
                                 .what = StrCat("no rank of job ", record->name(), " is running"),
                                 .fix = StrCat("jobctl why ", record->name())}));
        return nullptr;
      }
      const v1::DiagnosedAttempt asked = Describe(job->second, *attempt);
      const absl::StatusOr<uint64_t> number = daemon.diagnoses.Open(
          asked, caller.principal, std::chrono::steady_clock::now() + wait, sink);
      if (!number.ok()) {
        sink->Close(number.status());
        return nullptr;
      }
      for (const v1::NodePart& part : asked.parts()) {
        view.send(part.node(), QuestionFor(asked, *number, caller.principal));
      }
      if (daemon.diagnoses.BeginExpiring()) ExpireSoon(daemon);
      return nullptr;
    });
  });
}

}  // namespace muster::coordinator
