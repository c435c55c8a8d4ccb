// Which ranks to inspect from outside for a question, and when: ranks that have never used the trainer
// protocol at once, the others when they have not answered for a while. I/O thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker/core/state.h"
#include "worker/inspection/outside_look.h"

namespace muster::worker {

class LookSchedule {
 public:
  // Starts an inspection; call Finished when it ends.
  using Start = std::function<void(const AttemptKey&, const LookTarget&)>;
  explicit LookSchedule(Start start) : start_(std::move(start)) {}

  // `start_time` 0: unknown, never looked at.
  void RankStarted(const AttemptKey& key, uint32_t rank, pid_t pid, uint64_t start_time);
  // `speakers`: the ranks with a connection to the trainer socket.
  void Ask(const AttemptKey& key, uint64_t number, const std::string& reason,
           const std::set<uint32_t>& speakers, int64_t now_ms);
  // The rank has answered itself.
  void Answered(const AttemptKey& key, uint32_t rank, uint64_t number);
  // Call it when a look has ended. Returns the questions that it answers.
  std::vector<uint64_t> Finished(const AttemptKey& key, uint32_t rank);
  std::optional<int64_t> NextMs() const;
  void OnTime(int64_t now_ms);
  void Remove(const AttemptKey& key);

 private:
  struct Question {
    uint64_t number = 0;
    std::string reason;
    std::set<uint32_t> waiting;  // for these, until due
    int64_t due_ms = 0;
  };
  struct Watch {
    std::map<uint32_t, LookTarget> ranks;
    std::vector<Question> questions;
    std::map<uint32_t, std::vector<uint64_t>> running;  // by rank: the questions of its look
  };
  void Look(const AttemptKey& key, Watch& watch, uint32_t rank, const Question& question);

  const Start start_;
  std::map<AttemptKey, Watch> watched_;
};

}  // namespace muster::worker
