#include "rendezvous/outbox.h"

#include <utility>

#include "rendezvous/notes.h"

namespace muster::rendezvous {

std::string* Outbox::To(LinkId id) {
  Link* link = link_of_(id);
  if (link == nullptr) {
    nowhere_.clear();
    return &nowhere_;
  }
  if (!IsWaiting()) return &link->Out();
  return &held_.emplace_back(Held{.link = id, .client = 0, .bytes = {}}).bytes;
}

void Outbox::Answer(ClientId client, std::string_view answer) {
  if (!IsWaiting()) return clients_.Answer(client, answer);
  held_.push_back({.link = 0, .client = client, .bytes = std::string(answer)});
}

void Outbox::Forget(ClientId client) {
  if (held_.empty()) return;
  std::erase_if(held_,
                [client](const Held& each) { return each.link == 0 && each.client == client; });
}

bool Outbox::MayHold(LinkId link) const { return !IsWaiting() && !owed_.contains(link); }

void Outbox::Outdate(LinkId id, std::string_view key) {
  Link* link = link_of_(id);
  if (link == nullptr) return;
  FrameWriter(&link->Out(), Frame::kOutdated).Text(key);
  Owed& owed = owed_[id];
  // One that is late once is not waited for again before it has caught up.
  if (owed.late > 0) {
    ++owed.late;
    return;
  }
  ++waits_for_;
  ++owed.awaited;
}

void Outbox::Dropped(LinkId id) {
  const auto found = owed_.find(id);
  if (found == owed_.end()) return;
  Owed& owed = found->second;
  const bool is_late = owed.late > 0;
  --(is_late ? owed.late : owed.awaited);
  if (owed.late + owed.awaited == 0) owed_.erase(found);
  if (is_late) return;
  quiet_since_ms_ = 0;
  if (--waits_for_ == 0) Send();
}

void Outbox::Forget(LinkId id) {
  const auto found = owed_.find(id);
  if (found == owed_.end()) return;
  const size_t awaited = found->second.awaited;
  owed_.erase(found);
  waits_for_ -= awaited;
  if (awaited > 0 && !IsWaiting()) Send();
}

void Outbox::Tick(int64_t now_ms) {
  if (!IsWaiting() || quiet_since_ms_ == 0) {
    quiet_since_ms_ = now_ms;
    return;
  }
  if (now_ms - quiet_since_ms_ < kWaitsMs) return;
  Note("a node has not dropped in time a value that has changed", "others continue without it");
  for (auto& [id, owed] : owed_) owed.late += std::exchange(owed.awaited, 0);
  waits_for_ = 0;
  Send();
}

void Outbox::Send() {
  for (const Held& each : std::exchange(held_, {})) {
    if (each.link == 0) {
      clients_.Answer(each.client, each.bytes);
    } else if (Link* link = link_of_(each.link)) {
      link->Out().append(each.bytes);
    }
  }
}

}  // namespace muster::rendezvous
