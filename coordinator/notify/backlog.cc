#include "coordinator/notify/backlog.h"

#include <cstdint>
#include <utility>

namespace muster::coordinator {

Backlog::Backlog(size_t most) : most_(most), share_({.most = most, .of_one = SIZE_MAX}) {}

bool Backlog::Add(const Delivery& delivery, const std::string& owner, int64_t since_ms) {
  Pending pending;
  pending.since_ms = since_ms;
  pending.owner = owner;
  if (!all_.try_emplace(delivery, std::move(pending)).second) return false;
  share_.Take(owner);
  return true;
}

void Backlog::SetOwner(const Delivery& delivery, const std::string& owner) {
  Pending* pending = Find(delivery);
  if (pending == nullptr || pending->reported || pending->owner == owner) return;
  share_.Release(pending->owner);
  pending->owner = owner;
  share_.Take(owner);
}

Backlog::Pending* Backlog::Find(const Delivery& delivery) {
  const auto found = all_.find(delivery);
  return found == all_.end() ? nullptr : &found->second;
}

bool Backlog::MarkReported(const Delivery& delivery) {
  Pending* pending = Find(delivery);
  if (pending == nullptr || std::exchange(pending->reported, true)) return false;
  share_.Release(pending->owner);
  return true;
}

void Backlog::Erase(const Delivery& delivery) {
  MarkReported(delivery);
  all_.erase(delivery);
}

std::optional<Backlog::Excess> Backlog::FindExcess() const {
  if (share_.taken() <= most_) return std::nullopt;
  const std::string owner = share_.WhoHasMost().value_or("");
  const Excess excess{.delivery = {}, .owner = owner, .of_owner = share_.Of(owner)};
  std::optional<Excess> found;
  for (auto at = all_.rbegin(); at != all_.rend(); ++at) {
    const Pending& each = at->second;
    if (each.owner != owner || each.reported || each.is_posting) continue;
    // A command that a node may be running is given up last.
    if (found.has_value() && each.asked > 0) continue;
    found = excess;
    found->delivery = at->first;
    if (each.asked == 0) break;
  }
  return found;
}

}  // namespace muster::coordinator
