#include "coordinator/contexts/diagnoses.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kQueuedBytesMax = 64 << 20;

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

absl::Status NotKept(const std::string& job) {
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1308",
       .what = StrCat("the ranks of job ", job, " were looked at less than a second ago"),
       .why = "their records are too large to be kept for others",
       .fix = "ask again in a moment"});
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> Diagnoses::Open(v1::DiagnosedAttempt attempt, Asked asked) {
  v1::DiagnoseJobUpdate first;
  *first.mutable_attempt() = attempt;
  uint64_t number = 0;
  uint64_t slot = 0;
  bool is_new = false;
  {
    std::lock_guard lock(mutex_);
    number = FindShared(attempt, asked.now);
    is_new = number == 0;
    if (!is_new && !looks_[number].is_kept) return NotKept(attempt.name());
    RETURN_IF_ERROR(TakeSeat(asked.principal));
    slot = ++last_number_;
    if (is_new) {
      number = ++last_number_;
      looks_[number].attempt = std::move(attempt);
      looks_[number].began = asked.now;
    }
  }
  asked.stream->Observe({}, [this, slot, principal = asked.principal] { Leave(slot, principal); });
  asked.stream->Write(std::move(first));
  CatchUp(number, slot, {asked.until, asked.stream});
  return is_new ? std::optional(number) : std::nullopt;
}

// Writes without holding the lock: a stream has its own lock.
void Diagnoses::CatchUp(uint64_t number, uint64_t slot, const Asker& asker) {
  absl::Status why_not;
  for (size_t written = 0;;) {
    std::vector<Update> missing;
    bool is_whole = false;
    {
      std::lock_guard lock(mutex_);
      const auto found = looks_.find(number);
      if (found == looks_.end()) break;  // it expired just now
      Look& look = found->second;
      if (!look.is_kept && written < look.answered.size()) {
        why_not = NotKept(look.attempt.name());
        break;
      }
      for (size_t i = written; i < look.answers.size(); ++i) missing.push_back(look.answers[i]);
      is_whole = IsWhole(look);
      if (missing.empty() && !is_whole) {
        look.askers.emplace(slot, asker);
        return;
      }
    }
    for (const Update& update : missing) asker.stream->Write(*update);
    written += missing.size();
    if (missing.empty()) break;
  }
  asker.stream->Close(why_not);
}

absl::Status Diagnoses::TakeSeat(const std::string& principal) {
  if (streams_in_all_ >= kStreamsMax) return TooManyStreams(streams_in_all_, "");
  const auto own = streams_.find(principal);
  if (own != streams_.end() && own->second >= kStreamsOfOneMax)
    return TooManyStreams(own->second, StrCat(" of ", principal));
  ++streams_[principal];
  ++streams_in_all_;
  return absl::OkStatus();
}

uint64_t Diagnoses::FindShared(const v1::DiagnosedAttempt& attempt, Time now) const {
  for (const auto& [number, look] : looks_) {
    if (look.attempt.job() == attempt.job() && look.attempt.attempt() == attempt.attempt() &&
        now < look.began + kShared) {
      return number;
    }
  }
  return 0;
}

bool Diagnoses::IsWhole(const Look& look) {
  return look.answered.size() == look.attempt.world_size();
}

void Diagnoses::Keep(Look& look, const Update& answer) {
  const size_t bytes = answer->ByteSizeLong();
  if (look.is_kept && kept_bytes_ + bytes <= kKeptBytesMax) {
    look.answers.push_back(answer);
    look.kept_bytes += bytes;
    kept_bytes_ += bytes;
    return;
  }
  Forget(look);
  look.is_kept = false;
}

void Diagnoses::Forget(Look& look) {
  kept_bytes_ -= look.kept_bytes;
  look.kept_bytes = 0;
  look.answers.clear();
}

void Diagnoses::Leave(uint64_t slot, const std::string& principal) {
  std::lock_guard lock(mutex_);
  --streams_in_all_;
  if (--streams_[principal] == 0) streams_.erase(principal);
  for (auto& [number, look] : looks_) look.askers.erase(slot);
}

bool Diagnoses::Take(const std::string& node, v1::RankDiagnosis diagnosis) {
  std::vector<std::shared_ptr<Stream>> streams;
  bool is_whole = false;
  Update update;
  {
    std::lock_guard lock(mutex_);
    const auto found = looks_.find(diagnosis.number());
    if (found == looks_.end()) return true;
    Look& look = found->second;
    // A late answer to a question from an earlier run of the coordinator.
    if (look.attempt.job() != diagnosis.job() || look.attempt.attempt() != diagnosis.attempt())
      return true;
    if (!RunsOn(look.attempt, node, diagnosis.rank())) return false;
    if (!look.answered.insert(diagnosis.rank()).second) return true;
    auto answer = std::make_shared<v1::DiagnoseJobUpdate>();
    diagnosis.set_node(node);
    *answer->mutable_diagnosis() = std::move(diagnosis);
    update = std::move(answer);
    Keep(look, update);
    is_whole = IsWhole(look);
    for (const auto& [slot, asker] : look.askers) streams.push_back(asker.stream);
    if (is_whole) look.askers.clear();
  }
  for (const std::shared_ptr<Stream>& stream : streams) {
    stream->Write(*update);
    if (is_whole) {
      stream->Close(absl::OkStatus());
    } else if (stream->QueuedBytes() > kQueuedBytesMax) {
      stream->Close(
          absl::ResourceExhaustedError("the client reads the records too slowly; ask again"));
    }
  }
  return true;
}

bool Diagnoses::IsToRecord(const std::string& principal, uint64_t job, Time now) {
  std::lock_guard lock(mutex_);
  const std::pair key(principal, job);
  const Time* at = recorded_.Find(key);
  if (at != nullptr && now < *at + kRecordedEvery) return false;
  recorded_.Put(key, now);
  return true;
}

bool Diagnoses::BeginExpiring() {
  std::lock_guard lock(mutex_);
  return !looks_.empty() && !std::exchange(is_expiring_, true);
}

bool Diagnoses::Expire(Time now) {
  std::vector<std::shared_ptr<Stream>> expired;
  bool is_left = false;
  {
    std::lock_guard lock(mutex_);
    for (auto at = looks_.begin(); at != looks_.end();) {
      Look& look = at->second;
      std::erase_if(look.askers, [&](const auto& each) {
        if (now < each.second.until) return false;
        expired.push_back(each.second.stream);
        return true;
      });
      const bool is_shared = now < look.began + kShared;
      if (!is_shared) {
        Forget(look);
        look.is_kept = false;
      }
      at = is_shared || !look.askers.empty() ? std::next(at) : looks_.erase(at);
    }
    is_left = is_expiring_ = !looks_.empty();
  }
  for (const auto& stream : expired) stream->Close(absl::OkStatus());
  return is_left;
}

}  // namespace muster::coordinator
