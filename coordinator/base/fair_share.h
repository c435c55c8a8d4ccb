// Decides how much of a shared resource each caller may have. The code that uses this decides what a caller is:
// a principal, an owner, or NetworkOf an address. There are two ways, and each leaves something for the next
// caller, whatever the others do:
//   For resources that cannot be taken back (calls in progress, bytes): Ask. No caller takes more than its
//   limit, nor more than it would leave free, so any number of greedy callers leaves as much as each of
//   them has.
//   For resources that can be taken back (streams, connections, places in a queue): one caller may have all of
//   them; when none is left, WhoYields names the caller that gives one up for a caller that has less.
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
    kOverShare,  // the caller has its share; there may still be room for others
    kFull,       // the caller has nothing, and there is no room for it either
  };
  Verdict Ask(std::string_view caller, size_t amount = 1) const;
  // Takes the amount regardless of Ask: if something turns out larger than requested, the excess is charged to
  // the caller, and the part above its limit takes nothing from the others.
  void Take(std::string_view caller, size_t amount = 1);
  // Releases at most what the caller has.
  void Release(std::string_view caller, size_t amount = 1);

  const Limits& limits() const { return limits_; }
  size_t Of(std::string_view caller) const;
  // The sum over all callers, without the parts above their limits.
  size_t taken() const { return taken_; }
  // nullopt: no caller has anything.
  std::optional<std::string> WhoHasMost() const;
  // The caller that has most, if it would still have at least as much as `caller` after giving one
  // to it.
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
