// The coordinator's core with its clock, and nodes that do at once what they are told: programs run for their time, and save
// whenever they are asked to. Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/turn.h"
#include "replay/trace.h"

namespace muster::replay {

struct Rules {
  bool backfill = true;
  // How long a borrowed job runs at least; nullopt: none is asked to give way.
  std::optional<int64_t> min_run_ms = 30 * 60'000;
  std::map<std::string, uint32_t> quotas;  // devices by project
};

class Cluster {
 public:
  static constexpr int64_t kLongMs = 100LL * 365 * 86'400'000;

  // `nodes`: devices of each. `timed`: takes a turn of the core; for who measures it.
  Cluster(const std::vector<uint32_t>& nodes, const Rules& rules,
          std::function<void(const std::function<void()>& turn)> timed = nullptr);

  // Taken by the next Settle.
  void Submit(const TracedJob& job);
  // Until nothing is left to do at this moment.
  void Settle();
  // Goes to the earliest of an end, a timer of the core and `until_ms`; what ends then ends.
  void PassTime(int64_t until_ms);
  bool HasEnds() const { return !ends_.empty(); }
  // The next one ends now.
  void EndOne();

  int64_t now_ms() const { return now_.mono_ms; }
  const coordinator::ClusterState& state() const { return state_; }
  uint64_t events() const { return events_; }
  // Of jobs, numbered from 1 in the order of Submit.
  const std::map<uint64_t, int64_t>& ends_at_ms() const { return ends_at_ms_; }
  uint64_t gave_way() const { return gave_way_; }
  size_t jobs_that_gave_way() const { return left_.size(); }
  // The core has refused something; nothing that follows is of use.
  const absl::Status& status() const { return status_; }

 private:
  void Register(size_t node, uint32_t devices);
  void SetQuotas(const std::map<std::string, uint32_t>& quotas);
  v1::AttemptStatus& Say(const std::string& node, uint64_t job, uint32_t attempt,
                         v1::AttemptPhase phase);
  void End(uint64_t job, bool stopped = false);
  void GiveWay(uint64_t job);
  void Take(const std::vector<coordinator::Input>& taken);
  void Obey(const coordinator::Command& command);

  const std::function<void(const std::function<void()>&)> timed_;
  uint32_t whole_node_ = 1;
  coordinator::ClusterState state_;
  coordinator::Now now_;
  absl::Status status_;
  std::vector<coordinator::Input> inputs_;
  std::map<std::string, uint64_t> sessions_;
  std::vector<int64_t> left_ms_;  // of job 1, 2, …: how long they still run
  std::map<uint64_t, int64_t> began_ms_, ends_at_ms_;
  std::multimap<int64_t, uint64_t> ends_;
  uint64_t events_ = 0, gave_way_ = 0;
  std::set<uint64_t> left_;
};

}  // namespace muster::replay
