// Which of a cluster's coordinators the worker dials, and when. They are asked in rounds: each one once, the next at
// once after the last, then a pause with jitter. Pure.
//
// With several addresses the pause stays so short that a coordinator which begins to lead is found within two seconds;
// asking one that stands by costs it little, because the link keeps the connection to it.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace muster::worker {

// The longest pause before the next dial after so many failures in a row: doubles, up to 5 s.
int64_t DialPauseMaxMs(int failures);
// The longest pause between two rounds of a worker that knows several coordinators.
inline constexpr int64_t kRoundPauseMaxMs = 1'000;

class HeadRounds {
 public:
  // How a stream ended.
  enum class End {
    kFailed,     // it does not answer, or the connection broke
    kStandsBy,   // it answers, and does not lead
    kRefused,    // it leads, but does not take this worker: asking soon again changes nothing
    kAbandoned,  // this worker closed it, because nothing came or what came is not to be trusted
    kRenewed,    // this worker redials the same coordinator with other credentials
  };

  explicit HeadRounds(uint64_t jitter_seed) : jitter_(jitter_seed) {}

  // The one to dial now; `heads` is not empty.
  const std::string& Next(const std::vector<std::string>& heads, int64_t now_ms);
  // The one that was dialed last has registered this worker.
  void Leads();
  // The stream to it is over. Returns when to dial the next.
  int64_t Ended(End end, int64_t now_ms);

 private:
  void BeginRound(const std::vector<std::string>& heads, int64_t now_ms);
  int64_t NextRoundMs(int64_t now_ms);

  std::mt19937_64 jitter_;
  std::string asked_;              // last
  std::string leader_;             // the last one that registered this worker; empty: none yet
  bool is_registered_ = false;     // with asked_
  std::deque<std::string> left_;   // of this round
  bool has_several_ = false;       // in this round
  bool was_refused_ = false;       // in this round
  std::set<std::string> unheard_;  // did not answer when they were asked last
  int64_t began_ms_ = 0;           // the round
  int failures_ = 0;               // rounds in a row
};

}  // namespace muster::worker
