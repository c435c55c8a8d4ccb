#include "coordinator/audit/refusal_budget.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/text/strings.h"
#include "coordinator/net/peer_address.h"

namespace muster::coordinator {
namespace {

constexpr int64_t kCreditOfOne = 1'000;
constexpr size_t kPartyBytesMax = 128;
constexpr std::string_view kPeerOfRefused = "peer:";
constexpr std::string_view kMembers[] = {"user:", "worker:", "uid:", "coordinator:"};

// The principal of "10.0.0.7:41180" and "[2001:db8::1]:41180"; `from` may also be a principal already.
std::string PeerWithoutPort(std::string_view from) {
  if (from.starts_with(kPeerOfRefused)) from.remove_prefix(kPeerOfRefused.size());
  const size_t end = from.starts_with('[') ? from.find(']') : from.find(':');
  if (end != std::string_view::npos) from = from.substr(0, from[end] == ']' ? end + 1 : end);
  return common::StrCat(kPeerOfRefused, from);
}

}  // namespace

void RefusalBudget::Refill(Bucket& bucket, const Rate& rate, int64_t now_ms) {
  const int64_t full = rate.at_once * kCreditOfOne;
  // More time than a bucket takes to fill makes no difference.
  const int64_t passed_ms = std::clamp<int64_t>(now_ms - bucket.at_ms, 0, full);
  bucket.credit = std::min(full, bucket.credit + passed_ms * rate.per_second);
  bucket.at_ms = now_ms;
}

RefusalBudget::Bucket& RefusalBudget::BucketOf(const std::string& who, int64_t now_ms) {
  if (Bucket* known = known_.Find(who); known != nullptr) return *known;
  return known_.Put(who, {.credit = rates_.each.at_once * kCreditOfOne, .at_ms = now_ms});
}

std::optional<RefusalBudget::LeftOut> RefusalBudget::Take(const std::string& who, int64_t now_ms) {
  if (!all_) all_ = {.credit = rates_.all.at_once * kCreditOfOne, .at_ms = now_ms};
  Bucket& own = BucketOf(who, now_ms);
  Refill(own, rates_.each, now_ms);
  Refill(*all_, rates_.all, now_ms);
  // A party over its own share uses up nothing of the shared budget.
  if (own.credit < kCreditOfOne || all_->credit < kCreditOfOne) {
    ++own.left_out;
    ++left_out_;
    return std::nullopt;
  }
  own.credit -= kCreditOfOne;
  all_->credit -= kCreditOfOne;
  return TellLeftOut(own);
}

void RefusalBudget::LeaveOut(const std::string& who, int64_t now_ms) {
  ++BucketOf(who, now_ms).left_out;
  ++left_out_;
}

// Each is told once.
RefusalBudget::LeftOut RefusalBudget::TellLeftOut(const Bucket& own) {
  const uint64_t all = std::exchange(left_out_, 0);
  if (all == 0) return {};
  const LeftOut told{.own = own.left_out, .of_others = all - own.left_out};
  known_.ForEach([](const std::string&, Bucket& bucket) { bucket.left_out = 0; });
  return told;
}

RefusedParty RefusedPartyOf(const v1::AuditEntry& entry) {
  for (const std::string_view kind : kMembers) {
    if (std::string_view(entry.who()).starts_with(kind))
      return {.name = entry.who().substr(0, kPartyBytesMax)};
  }
  const std::string& from = entry.from().empty() ? entry.who() : entry.from();
  return {.name = NetworkOf(PeerWithoutPort(from)).substr(0, kPartyBytesMax), .is_stranger = true};
}

}  // namespace muster::coordinator
