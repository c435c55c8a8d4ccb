// rank_report_queue: a queue per attempt; its head is released when ready.
#include "worker/attempts/rank_report_queue.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace muster::worker {
namespace {

// limit: jobs: reading a rank's report; the job is told
constexpr int64_t kReadMs = 5'000;

// The attempt whose reports must precede this input.
const AttemptKey* KeyBehind(const Input& input) {
  const auto* ended = std::get_if<AttemptEndedInput>(&input);
  return ended == nullptr ? nullptr : &ended->key;
}

}  // namespace

RankReportQueue::RankReportQueue(Paths paths, JobThreads* threads, Callbacks callbacks)
    : paths_(std::move(paths)), threads_(threads), callbacks_(std::move(callbacks)) {}

void RankReportQueue::Add(const v1::LaunchAttempt& launch, const common::ShimLaunch& shim_launch,
                          const RankExited& exit) {
  const AttemptKey key{launch.job(), launch.attempt()};
  const v1::NodePart& part = launch.part();
  const bool known = part.local_world_size() > 0;  // otherwise the launch file was lost
  if (known && exit.rank - part.first_rank() >= part.local_world_size()) return;
  v1::RankExit report = ReportFacts(launch, shim_launch, exit);
  const bool failed = IsFailure(report);
  Waiting waiting{RankExitedInput{key, report}, ++last_number_, !failed, 0};
  waiting.deadline_ms = common::MonotonicMs() + kReadMs;
  waiting_[key].push_back(std::move(waiting));
  if (!failed) return Flush(key);
  const size_t secrets = std::max<size_t>(static_cast<size_t>(launch.spec().secrets_size()),
                                          shim_launch.secrets_dir.empty() ? 0 : 1);
  threads_->Post(key, Work::kReport,
                 [this, key, secrets, number = last_number_, report = std::move(report)]() mutable {
                   AddWords(paths_, key, secrets, &report);
                   callbacks_.in_loop([this, key, number, report = std::move(report)] {
                     OnRead(key, number, report);
                   });
                 });
}

void RankReportQueue::Pass(Input input) {
  const AttemptKey* key = KeyBehind(input);
  const auto waiting = key == nullptr ? waiting_.end() : waiting_.find(*key);
  if (waiting == waiting_.end()) return callbacks_.input(std::move(input));
  waiting->second.push_back({std::move(input), ++last_number_, true, 0});
}

void RankReportQueue::OnRead(const AttemptKey& key, uint64_t number, const v1::RankExit& report) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  for (Waiting& waiting : found->second) {
    if (waiting.number != number) continue;
    waiting.input = RankExitedInput{key, report};
    waiting.ready = true;
  }
  Flush(key);
}

void RankReportQueue::Flush(const AttemptKey& key) {
  while (true) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end() || !found->second.front().ready) return;
    Input input = std::move(found->second.front().input);
    found->second.pop_front();
    if (found->second.empty()) waiting_.erase(found);
    callbacks_.input(std::move(input));
  }
}

std::optional<int64_t> RankReportQueue::NextDeadlineMs() const {
  std::optional<int64_t> next;
  for (const auto& [key, line] : waiting_) {
    for (const Waiting& waiting : line) {
      if (waiting.ready) continue;
      if (!next || waiting.deadline_ms < *next) next = waiting.deadline_ms;
      break;  // later ones are newer
    }
  }
  return next;
}

void RankReportQueue::OnTime(int64_t now_ms) {
  std::vector<AttemptKey> late;
  for (auto& [key, line] : waiting_) {
    for (Waiting& waiting : line) {
      if (waiting.ready || waiting.deadline_ms > now_ms) continue;
      waiting.ready = true;
      v1::RankExit& report = std::get<RankExitedInput>(waiting.input).exit;
      report.set_error_message(
          "(its error file and its last lines could not be read within 5 s; fix: check the file "
          "system of that node's --state-dir)");
      late.push_back(key);
    }
  }
  for (const AttemptKey& key : late) Flush(key);
}

}  // namespace muster::worker
