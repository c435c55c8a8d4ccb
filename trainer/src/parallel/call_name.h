// Names the public call that this thread's collectives belong to ("reduce(mean; 1 tensor: …)"), for
// the error when the ranks call different ones.
#pragma once

#include <string_view>

namespace muster {

// Sets the name while it lives. The outermost one wins: it is what the user called. `name` must
// outlive it.
class CallName {
 public:
  explicit CallName(std::string_view name) : is_outermost_(current_.empty()) {
    if (is_outermost_) current_ = name;
  }
  ~CallName() {
    if (is_outermost_) current_ = {};
  }
  CallName(const CallName&) = delete;
  CallName& operator=(const CallName&) = delete;

  static std::string_view current() { return current_; }

 private:
  inline static thread_local std::string_view current_;
  const bool is_outermost_;
};

}  // namespace muster
