// Names the public call that this thread's collectives belong to ("reduce(mean; 1 tensor: …)"), for
// the error when the ranks call different ones.
#pragma once

#include <string_view>
#include <utility>

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
  friend class CallSubject;
  inline static thread_local std::string_view current_;
  const bool is_outermost_;
};

// What a call is about, where ranks that agree on everything else may mean different things: compared
// like dtype and size. `name` takes the place of CallName's. Both must outlive it.
class CallSubject {
 public:
  CallSubject(std::string_view subject, std::string_view name)
      : subject_before_(std::exchange(current_, subject)),
        name_before_(std::exchange(CallName::current_, name)) {}
  ~CallSubject() {
    current_ = subject_before_;
    CallName::current_ = name_before_;
  }
  CallSubject(const CallSubject&) = delete;
  CallSubject& operator=(const CallSubject&) = delete;

  static std::string_view current() { return current_; }

 private:
  inline static thread_local std::string_view current_;
  const std::string_view subject_before_, name_before_;
};

}  // namespace muster
