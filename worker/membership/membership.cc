#include "worker/membership/membership.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/address_list.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "identity/certificate.h"
#include "worker/base/addresses.h"
#include "worker/membership/enroll_in_turn.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int64_t kFirstPauseMs = 5'000;
constexpr int64_t kLongestPauseMs = 5 * 60'000;
// The wall clock may be set, and machines sleep, so the time is checked at least this often.
constexpr int64_t kLongestWaitMs = 60'000;

int64_t WallMs() { return common::SystemClock().Read().wall_ms; }

// The certificate's life without the time by which it is backdated. Credentials that were loaded or
// issued always have a readable certificate.
Validity ValidityOf(const identity::Credentials& credentials) {
  const auto facts = identity::FactsOfPem(credentials.certificate_pem);
  if (!facts.ok()) return {};
  return {.from_ms = facts->not_before_ms + identity::Authority::kBackdatedMs,
          .until_ms = facts->not_after_ms};
}

}  // namespace

int64_t RenewAtMs(const Validity& validity, double share) {
  const int64_t life_ms = std::max<int64_t>(0, validity.until_ms - validity.from_ms);
  return validity.from_ms + life_ms * 2 / 3 -
         static_cast<int64_t>(static_cast<double>(life_ms) / 20 * share);
}

int64_t RenewalPauseMs(int failures) {
  return std::min(kLongestPauseMs, kFirstPauseMs << std::min(failures, 10));
}

Membership::Membership(std::string path, identity::Credentials credentials, uint64_t seed)
    : path_(std::move(path)),
      jitter_(seed),
      validity_(ValidityOf(credentials)),
      credentials_(std::make_shared<const identity::Credentials>(std::move(credentials))) {
  renew_at_ms_ = RenewAtMs(validity_, std::uniform_real_distribution<>(0, 1)(jitter_));
}

absl::StatusOr<std::unique_ptr<Membership>> Membership::Open(const std::string& path,
                                                             uint64_t seed) {
  ASSIGN_OR_RETURN(identity::Credentials credentials, identity::LoadCredentials(path));
  return std::unique_ptr<Membership>(new Membership(path, std::move(credentials), seed));
}

std::shared_ptr<const identity::Credentials> Membership::Now() const {
  std::lock_guard lock(mutex_);
  return credentials_;
}

void Membership::Begin(std::function<void()> renewed) {
  renewed_ = std::move(renewed);
  thread_ = std::thread([this] { Run(); });
}

void Membership::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Membership::Run() {
  while (true) {
    const int64_t pause_ms = std::min(kLongestWaitMs, MaybeRenew());
    std::unique_lock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(pause_ms);
    if (changed_.wait_until(lock, until, [this] { return is_stopping_; })) return;
  }
}

void Membership::Learned(const std::vector<std::string>& https) {
  std::vector<std::string> usable;
  for (const std::string& each : https) {
    if (IsHostPort(each)) usable.push_back(each);
  }
  std::lock_guard lock(mutex_);
  https_ = MergeHeads(usable, {});
}

int64_t Membership::MaybeRenew() {
  const int64_t now_ms = WallMs();
  if (now_ms < renew_at_ms_) return renew_at_ms_ - now_ms;
  const absl::Status done = Renew();
  Say(done);
  if (!done.ok()) {
    renew_at_ms_ = WallMs() + RenewalPauseMs(failures_++);
  } else {
    failures_ = 0;
    renew_at_ms_ = RenewAtMs(validity_, std::uniform_real_distribution<>(0, 1)(jitter_));
    renewed_();
  }
  return std::max<int64_t>(1'000, renew_at_ms_ - WallMs());
}

absl::Status Membership::Renew() {
  identity::Credentials old = *Now();
  {
    std::lock_guard lock(mutex_);
    old.http = common::JoinAddresses(MergeHeads(https_, SplitAddresses(old.http)));
  }
  ASSIGN_OR_RETURN(identity::Credentials renewed, RenewInTurn(old, WallMs()));
  RETURN_IF_ERROR(identity::SaveCredentials(path_, renewed));
  validity_ = ValidityOf(renewed);
  std::lock_guard lock(mutex_);
  credentials_ = std::make_shared<const identity::Credentials>(std::move(renewed));
  return absl::OkStatus();
}

// Logs a reason once, until it changes.
void Membership::Say(const absl::Status& why) {
  if (why.ok()) {
    said_.clear();
    common::LogInfo(StrCat("renewed the certificate, which now lives ",
                           common::HumanDuration(validity_.until_ms - WallMs())));
    return;
  }
  const std::string reason = common::Readable(common::ProblemOf(why));
  if (reason == said_) return;
  said_ = reason;
  const int64_t left_ms = validity_.until_ms - WallMs();
  common::LogWarning(StrCat(
      "the certificate cannot be renewed and ",
      left_ms > 0 ? StrCat("lives ", common::HumanDuration(left_ms)) : std::string("has expired"),
      "; trying again: ", reason));
}

}  // namespace muster::worker
