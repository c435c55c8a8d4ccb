// look_schedule: questions by attempt.
#include "worker/inspection/look_schedule.h"

#include <algorithm>
#include <utility>

namespace muster::worker {
namespace {

// The time that the SDK needs for its answer; jobctl waits 10 s.
constexpr int64_t kAnswerTimeoutMs = 2'000;
constexpr size_t kQuestionsMax = 16;  // of one attempt; older ones are forgotten

}  // namespace

void LookSchedule::RankStarted(const AttemptKey& key, uint32_t rank, pid_t pid,
                               uint64_t start_time) {
  if (start_time == 0) return;
  watched_[key].ranks[rank] = {.rank = rank, .pid = pid, .start_time = start_time, .reason = ""};
}

void LookSchedule::Ask(const AttemptKey& key, uint64_t number, const std::string& reason,
                       const std::set<uint32_t>& speakers, int64_t now_ms) {
  const auto found = watched_.find(key);
  if (number == 0 || found == watched_.end()) return;  // 0: for the ranks' own files
  Watch& watch = found->second;
  if (watch.questions.size() >= kQuestionsMax) watch.questions.erase(watch.questions.begin());
  watch.questions.push_back({.number = number,
                             .reason = reason,
                             .waiting = speakers,
                             .due_ms = now_ms + kAnswerTimeoutMs});
  for (const auto& [rank, target] : watch.ranks) {
    if (!speakers.contains(rank)) Look(key, watch, rank, watch.questions.back());
  }
}

// One inspection at a time per rank: a question that arrives meanwhile gets the same result.
void LookSchedule::Look(const AttemptKey& key, Watch& watch, uint32_t rank,
                        const Question& question) {
  const auto target = watch.ranks.find(rank);
  if (target == watch.ranks.end()) return;
  const auto [running, is_new] = watch.running.try_emplace(rank);
  if (running->second.size() >= kQuestionsMax) return;
  running->second.push_back(question.number);
  if (!is_new) return;
  LookTarget asked = target->second;
  asked.reason = question.reason;
  start_(key, asked);
}

void LookSchedule::Answered(const AttemptKey& key, uint32_t rank, uint64_t number) {
  const auto found = watched_.find(key);
  if (found == watched_.end()) return;
  for (Question& question : found->second.questions) {
    if (question.number == number) question.waiting.erase(rank);
  }
}

std::vector<uint64_t> LookSchedule::Finished(const AttemptKey& key, uint32_t rank) {
  const auto found = watched_.find(key);
  if (found == watched_.end()) return {};
  const auto running = found->second.running.extract(rank);
  return running.empty() ? std::vector<uint64_t>() : running.mapped();
}

std::optional<int64_t> LookSchedule::NextMs() const {
  std::optional<int64_t> next;
  for (const auto& [key, watch] : watched_) {
    for (const Question& question : watch.questions) {
      if (question.waiting.empty()) continue;
      next = std::min(next.value_or(question.due_ms), question.due_ms);
    }
  }
  return next;
}

void LookSchedule::OnTime(int64_t now_ms) {
  for (auto& [key, watch] : watched_) {
    for (Question& question : watch.questions) {
      if (question.due_ms > now_ms) continue;
      for (const uint32_t rank : std::exchange(question.waiting, {})) {
        Look(key, watch, rank, question);
      }
    }
    std::erase_if(watch.questions, [](const Question& asked) { return asked.waiting.empty(); });
  }
}

void LookSchedule::Remove(const AttemptKey& key) { watched_.erase(key); }

}  // namespace muster::worker
