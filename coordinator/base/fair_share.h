// Who may have how much of a resource that all callers share. The code that uses this decides what a
// caller is: a principal, an owner, or NetworkOf an address. There are two ways, and each leaves
// something for the next caller whatever the others do:
//   What cannot be taken back (calls in progress, bytes): Ask. No caller takes more than its limit, nor
//   more than it would leave free: any number of greedy callers leaves as much as each of them has.
//   What can be taken back (streams, connections, places in a queue): one caller may have all of it;
//   when it is full, WhoYields names the caller that gives one up for a caller that has less.
// Pure; one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster::coordinator {

class FairShare {
 public:
  struct Limits {
    size_t most = 0;    // of all together
    size_t of_one = 0;  // of one caller
  };
  explicit FairShare(const Limits& limits) : limits_(limits) {}

  enum class Verdict {
    kRoom,
    kOverShare,  // it has its share; others may still have room
    kFull,       // it has nothing, and there is no room for it either
  };
  Verdict Ask(std::string_view caller, size_t amount = 1) const;
  // Whatever Ask says: what turns out larger than was asked for is the caller's own, and what is beyond
  // its limit takes nothing from the others.
  void Take(std::string_view caller, size_t amount = 1);
  // At most what it has.
  void Release(std::string_view caller, size_t amount = 1);

  const Limits& limits() const { return limits_; }
  size_t Of(std::string_view caller) const;
  // Of all, without what is beyond their limits.
  size_t taken() const { return taken_; }
  // Nothing: no caller has anything.
  std::optional<std::string> WhoHasMost() const;
  // Who has most, if it would still have as much as this caller after one went over to it.
  std::optional<std::string> WhoYields(std::string_view caller) const;

 private:
  size_t Counted(size_t amount) const { return amount < limits_.of_one ? amount : limits_.of_one; }

  const Limits limits_;
  size_t taken_ = 0;
  std::map<std::string, size_t, std::less<>> callers_;
};

// Places that are given back on any thread.
class FairPlaces {
 public:
  explicit FairPlaces(const FairShare::Limits& limits);

  struct Answer {
    FairShare::Verdict verdict = FairShare::Verdict::kFull;
    std::shared_ptr<void> place;  // given back with its last copy; null without room
  };
  Answer Take(const std::string& caller);
  const FairShare::Limits& limits() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace muster::coordinator
