// An independent witness: what really ran, as seen from outside the product, checked against the
// promises. The letters are those of docs/reliability.md: J1 … J12.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace muster::sim {

// The first broken promise ends a run.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Witness {
 public:
  struct World {
    uint32_t size;
    std::string master;
    bool operator==(const World&) const = default;
  };

  // main() of a rank starts. J3: at most once; J4: no other live rank of this job and number; J5:
  // the same world for all.
  void RankStarts(uint64_t job, uint32_t attempt, uint32_t rank, const World& world) {
    Require(started_.insert({job, attempt, rank}).second, "J3", "started twice", job, attempt,
            rank);
    Require(alive_.insert({job, rank}).second, "J4", "runs twice at once", job, attempt, rank);
    const auto [known, fresh] = worlds_.insert({{job, attempt}, world});
    Require(fresh || known->second == world, "J5", "sees another world", job, attempt, rank);
    Require(rank < world.size, "J5", "is outside of its world", job, attempt, rank);
    ++starts_;
  }
  void RankEnds(uint64_t job, uint32_t rank) { alive_.erase({job, rank}); }
  bool AnyAlive(uint64_t job) const {
    const auto first = alive_.lower_bound({job, 0});
    return first != alive_.end() && first->first == job;
  }

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
  static void Require(bool holds, const char* promise, const char* what, uint64_t job,
                      uint32_t attempt, uint32_t rank) {
    if (holds) return;
    throw Broken(
        absl::StrCat(promise, ": rank ", rank, " of job ", job, " attempt ", attempt, " ", what));
  }

  std::set<std::tuple<uint64_t, uint32_t, uint32_t>> started_;
  std::set<std::pair<uint64_t, uint32_t>> alive_;
  std::map<std::pair<uint64_t, uint32_t>, World> worlds_;
  std::map<std::string, uint64_t> jobs_of_keys_;
  uint64_t starts_ = 0;
};

}  // namespace muster::sim
