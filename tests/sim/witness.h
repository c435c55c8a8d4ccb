// An independent witness: what really ran, as seen from outside the product, checked against the
// promises. The letters are those of docs/reliability.md: J1 … J13.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/event_queue.h"

namespace muster::sim {

// The first broken promise ends a run.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A machine, and what may be asked of it. One that stands still, as a frozen container or a paused
// virtual machine does, cannot stop its ranks; they do nothing meanwhile either.
struct Host {
  double rate = 1;  // how fast its clocks run
  bool still = false;
  // Since it resumed: until then a rank may live beside its successor …
  int64_t excused_until_ms = 0;
  int64_t unaware_until_ms = 0;  // … and one may even start, as its clocks stood still, too
  int64_t behind_ms = 0;         // its monotonic clock stood still for so long …
  int64_t wall_behind_ms = 0;    // … and its wall clock, if nothing has set it since
};

class Witness {
 public:
  explicit Witness(const EventQueue& queue) : queue_(queue) {}

  struct World {
    uint32_t size;
    std::string master;
    bool operator==(const World&) const = default;
  };

  // main() of a rank starts. J3: at most once; J4: no other live rank of this job and number that
  // could have been stopped, and no newer one that has started; J5: the same world for all.
  void RankStarts(uint64_t job, uint32_t attempt, uint32_t rank, const World& world,
                  const Host& host) {
    Require(started_.insert({job, attempt, rank}).second, "J3", "started twice", job, attempt,
            rank);
    uint32_t& newest = newest_[job];
    if (attempt < newest) {
      // It had the order in its socket when its clocks stopped.
      Require(IsUnaware(host), "J4", "starts after a newer one", job, attempt, rank);
      ++overtaken_total_;
      overtaken_[{job, attempt, rank}] = &host;
    } else {
      newest = attempt;
      if (const auto before = alive_.find({job, rank}); before != alive_.end()) {
        Require(IsExcused(*before->second.host), "J4", "runs twice at once", job, attempt, rank);
        Overtake(before);
      }
      alive_[{job, rank}] = {attempt, &host};
    }
    const auto [known, fresh] = worlds_.insert({{job, attempt}, world});
    Require(fresh || known->second == world, "J5", "sees another world", job, attempt, rank);
    Require(rank < world.size, "J5", "is outside of its world", job, attempt, rank);
    ++starts_;
  }
  void RankEnds(uint64_t job, uint32_t attempt, uint32_t rank) {
    const auto old = overtaken_.find({job, attempt, rank});
    if (old != overtaken_.end()) {
      Require(IsExcused(*old->second), "J4", "lived on beside a newer one", job, attempt, rank);
      overtaken_.erase(old);
      return;
    }
    const auto found = alive_.find({job, rank});
    if (found != alive_.end() && found->second.attempt == attempt) alive_.erase(found);
  }
  // The job is over. J6: none of its ranks is alive that could have been stopped.
  bool AnyAlive(uint64_t job) {
    for (auto life = alive_.lower_bound({job, 0});
         life != alive_.end() && life->first.first == job;) {
      if (!IsExcused(*life->second.host)) return true;
      life = Overtake(life);
    }
    return false;
  }
  void CheckEnd() const {
    for (const auto& [at, host] : overtaken_) {
      const auto& [job, attempt, rank] = at;
      Require(IsExcused(*host), "J4", "was never stopped", job, attempt, rank);
    }
  }
  uint64_t overtaken() const { return overtaken_total_; }

  // A submit was acknowledged. J2: one key, one job.
  void SubmitAcknowledged(const std::string& key, uint64_t job) {
    const auto [known, fresh] = jobs_of_keys_.insert({key, job});
    if (!fresh && known->second != job) {
      throw Broken(
          absl::StrCat("J2: key ", key, " answered job ", known->second, " and job ", job));
    }
  }
  const std::map<std::string, uint64_t>& acknowledged() const { return jobs_of_keys_; }
  uint64_t starts() const { return starts_; }

 private:
  struct Life {
    uint32_t attempt = 0;
    const Host* host = nullptr;
  };
  using Lives = std::map<std::pair<uint64_t, uint32_t>, Life>;

  bool IsUnaware(const Host& host) const { return queue_.now_ms() <= host.unaware_until_ms; }
  bool IsExcused(const Host& host) const {
    return host.still || IsUnaware(host) || queue_.now_ms() <= host.excused_until_ms;
  }
  Lives::iterator Overtake(Lives::iterator life) {
    ++overtaken_total_;
    overtaken_[{life->first.first, life->second.attempt, life->first.second}] = life->second.host;
    return alive_.erase(life);
  }
  static void Require(bool holds, const char* promise, const char* what, uint64_t job,
                      uint32_t attempt, uint32_t rank) {
    if (holds) return;
    throw Broken(
        absl::StrCat(promise, ": rank ", rank, " of job ", job, " attempt ", attempt, " ", what));
  }

  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> started_;
  Lives alive_;  // by (job, rank)
  std::map<std::tuple<uint64_t, uint32_t, uint32_t>, const Host*> overtaken_;
  uint64_t overtaken_total_ = 0;
  std::map<uint64_t, uint32_t> newest_;  // by job: the newest attempt that started a rank
  std::map<std::pair<uint64_t, uint32_t>, World> worlds_;
  std::map<std::string, uint64_t> jobs_of_keys_;
  uint64_t starts_ = 0;
  const EventQueue& queue_;
};

}  // namespace muster::sim
