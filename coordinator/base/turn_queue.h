// A queue of items by owner: the owners take turns, no matter how many items each has, and items
// without an owner (the daemon's own) have every other turn. Items of one owner keep their order.
// One thread.
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
    ++size_;
    if (owner.empty()) return own_.push_back(std::move(item));
    std::deque<Item>& line = lines_[owner];
    if (line.empty()) turns_.push_back(owner);
    line.push_back(std::move(item));
  }

  struct Taken {
    std::string owner;
    Item item;
  };
  // The next item of the owner whose turn it is, among the owners for which `may` returns true; it
  // is not asked about the daemon's own items. nullopt: no item may go now.
  template <typename May>
  std::optional<Taken> Take(May may) {
    const bool own_first = !own_.empty() && !was_own_;
    const auto turn =
        own_first ? turns_.end() : std::find_if(turns_.begin(), turns_.end(), std::move(may));
    if (turn == turns_.end() && own_.empty()) return std::nullopt;
    --size_;
    was_own_ = turn == turns_.end();
    if (was_own_) return Taken{{}, First(own_)};
    const auto line = lines_.find(*turn);
    turns_.erase(turn);
    Taken taken{line->first, First(line->second)};
    if (line->second.empty()) {
      lines_.erase(line);
    } else {
      turns_.push_back(taken.owner);
    }
    return taken;
  }
  std::optional<Taken> Take() {
    return Take([](const std::string&) { return true; });
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

 private:
  static Item First(std::deque<Item>& line) {
    Item item = std::move(line.front());
    line.pop_front();
    return item;
  }

  std::deque<Item> own_;                           // the daemon's
  std::map<std::string, std::deque<Item>> lines_;  // of owners with items
  std::deque<std::string> turns_;                  // these owners, in the order of their turns
  size_t size_ = 0;
  bool was_own_ = false;  // the daemon's own items had the last turn
};

}  // namespace muster::coordinator
