#include "coordinator/notify/post_turns.h"

#include <algorithm>

namespace muster::coordinator {
namespace {

template <typename Key>
size_t CountOf(const std::map<Key, size_t>& counts, const Key& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

template <typename Key>
void CountDown(std::map<Key, size_t>& counts, const Key& key) {
  const auto found = counts.find(key);
  if (found != counts.end() && --found->second == 0) counts.erase(found);
}

// The element of that name; adds one if there is none.
template <typename List, typename Member>
auto& NamedIn(List& list, Member member, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const auto& each) { return each.*member == name; });
  if (found != list.end()) return *found;
  auto& made = list.emplace_back();
  made.*member = name;
  return made;
}

}  // namespace

void PostTurns::Add(Post post) {
  Owner& owner = NamedIn(owners_, &Owner::name, post.owner);
  NamedIn(owner.lanes, &Lane::receiver, post.Receiver()).posts.push_back(std::move(post));
}

bool PostTurns::MayBegin(const std::string& owner, const std::string& receiver) const {
  return CountOf(to_receivers_, receiver) < kToReceiver &&
         CountOf(of_owners_to_receivers_, {owner, receiver}) < kOfOwnerToReceiver;
}

std::optional<PostTurns::Post> PostTurns::Next() {
  for (auto owner = owners_.begin(); owner != owners_.end(); ++owner) {
    if (of_owners_.Ask(owner->name) != FairShare::Verdict::kRoom) continue;
    const auto lane = std::find_if(owner->lanes.begin(), owner->lanes.end(), [&](const Lane& each) {
      return MayBegin(owner->name, each.receiver);
    });
    if (lane == owner->lanes.end()) continue;
    Post post = std::move(lane->posts.front());
    lane->posts.pop_front();
    of_owners_.Take(post.owner);
    ++to_receivers_[lane->receiver];
    ++of_owners_to_receivers_[{post.owner, lane->receiver}];
    // A lane that had its turn goes to the end of the line.
    owner->lanes.splice(owner->lanes.end(), owner->lanes, lane);
    if (lane->posts.empty()) owner->lanes.erase(lane);
    owners_.splice(owners_.end(), owners_, owner);
    if (owner->lanes.empty()) owners_.erase(owner);
    return post;
  }
  return std::nullopt;
}

void PostTurns::End(const std::string& owner, const std::string& receiver) {
  of_owners_.Release(owner);
  CountDown(to_receivers_, receiver);
  CountDown(of_owners_to_receivers_, {owner, receiver});
}

}  // namespace muster::coordinator
