// One turn at a time per name: attempts that want the same tree or the same setup wait for the one that
// makes it, and report its progress as their own. Threads that may block.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "worker/preparation/progress.h"

namespace muster::worker {

class Turns {
  struct State {
    std::mutex mutex;  // guards what follows
    std::condition_variable left;
    std::map<std::string, std::string> doing;  // of those that have a turn, by name
  };

 public:
  class Turn {
   public:
    Turn(std::shared_ptr<State> state, std::string name)
        : state_(std::move(state)), name_(std::move(name)) {}
    Turn(Turn&&) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();
    // Like the given one, but also reports to the attempts that wait for this turn.
    Progress Shared(const Progress& progress) const;

   private:
    std::shared_ptr<State> state_;  // null: moved from
    std::string name_;
  };

  // Waits until the turn is free. CANCELLED: the attempt was stopped meanwhile.
  absl::StatusOr<Turn> Take(const std::string& name, const Progress& progress);

 private:
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace muster::worker
