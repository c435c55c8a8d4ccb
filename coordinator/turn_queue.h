// What waits, by owner: the owners take turns, however much each has waiting, and what has no owner
// (the daemon's own) has every other turn. Of one owner, in the order of pushing. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace muster::coordinator {

template <typename Item>
class TurnQueue {
 public:
  void Push(const std::string& owner, Item item) {
    std::deque<Item>& line = lines_[owner];
    if (line.empty()) turns_.push_back(owner);
    line.push_back(std::move(item));
    ++size_;
  }

  struct Taken {
    std::string owner;
    Item item;
  };
  // Of the owner whose turn it is among those that may have one now; `may` is not asked for the
  // daemon's own. Empty: nothing waits that may.
  template <typename May>
  std::optional<Taken> Take(May may) {
    const auto turn = Next(may);
    if (turn == turns_.end()) return std::nullopt;
    Taken taken{std::move(*turn), {}};
    turns_.erase(turn);
    was_own_ = taken.owner.empty();
    const auto line = lines_.find(taken.owner);
    taken.item = std::move(line->second.front());
    line->second.pop_front();
    --size_;
    if (!line->second.empty()) {
      turns_.push_back(taken.owner);
    } else if (!was_own_) {
      lines_.erase(line);
    }
    return taken;
  }
  std::optional<Taken> Take() {
    return Take([](const std::string&) { return true; });
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

 private:
  template <typename May>
  std::deque<std::string>::iterator Next(May may) {
    const auto own = std::find(turns_.begin(), turns_.end(), std::string());
    if (own != turns_.end() && !was_own_) return own;
    const auto other = std::find_if(turns_.begin(), turns_.end(), [&](const std::string& owner) {
      return !owner.empty() && may(owner);
    });
    return other != turns_.end() ? other : own;
  }

  std::map<std::string, std::deque<Item>> lines_;
  std::deque<std::string> turns_;  // owners with something, in the order of their turns
  size_t size_ = 0;
  bool was_own_ = false;  // the daemon's own had the last turn
};

}  // namespace muster::coordinator
