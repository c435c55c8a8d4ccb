// A coordinator that is one of several, until it leads: follows the log, answers who leads, and waits for its turn.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/config/config.h"
#include "coordinator/etcd/client.h"
#include "coordinator/stores/leading.h"

namespace muster::coordinator {

class StandingBy {
 public:
  struct Callbacks {
    // Any thread; must only enqueue.
    std::function<void()> leads;                      // then call Lead
    std::function<void(const absl::Status&)> failed;  // it cannot continue
    // Any thread; does not return: this process may do nothing any more.
    std::function<void(const absl::Status&)> step_down;
  };
  static absl::StatusOr<std::unique_ptr<StandingBy>> Start(const Config& config,
                                                           Callbacks callbacks);
  ~StandingBy();
  // Frees the addresses and the data directory for the coordinator that leads. Lives as long as this.
  Leading Lead();
  // Another one may lead at once. Nothing may be committed any more.
  void Resign();

 private:
  struct Parts;
  explicit StandingBy(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// Why the state cannot be used, for a person; what says that already is passed on.
absl::Status UnusableState(const std::string& state, const absl::Status& why);
// etcd as the flags name it, which were checked.
etcd::Access AccessOf(const HeadFlags& flags);

// Starts over as the same process: all threads, connections and locks end at once.
[[noreturn]] void StartOver(char** argv, const absl::Status& why);

}  // namespace muster::coordinator
