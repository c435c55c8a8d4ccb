#include "client/session/sign_in.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "client/connection/addresses.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "identity/certificate.h"
#include "identity/enroll.h"
#include "identity/names.h"

namespace muster::client {
namespace {

using common::StrCat;
using Shared = std::shared_ptr<const identity::Credentials>;

constexpr std::chrono::milliseconds kRenewWithin{2'000};
constexpr int64_t kTryAgainMs = 5 * 60'000;
constexpr size_t kTriedMax = 64;
constexpr int64_t kKeptEveryMs = 60'000;

// The context that has this server, also if the server was given by its address, or by those of several
// coordinators of its cluster.
std::string ContextOf(const Settings& settings) {
  const std::string context = settings.Get("context");
  if (!context.empty()) return context;
  for (const auto& [name, server] : settings.file().contexts) {
    if (ShareAddress(server, settings.server()) &&
        common::Exists(CredentialsPath(settings.file(), name)))
      return name;
  }
  return "";
}

absl::Status SignedOut(const identity::Credentials& credentials, int64_t ago_ms) {
  return common::MakeProblem(
      absl::StatusCode::kUnauthenticated,
      {.code = "JC1357",
       .what = StrCat("you are signed out of ", credentials.cluster, ": the certificate of ",
                      credentials.name, " expired ", common::HumanDuration(ago_ms), " ago"),
       .fix = StrCat("jobctl login ", credentials.http, " with a new token, or --oidc")});
}

// When a renewal last failed; without this, every command would wait for another try.
bool WasTriedJustNow(const std::string& marker, int64_t now_ms) {
  const absl::StatusOr<std::string> text = common::ReadFile(marker, kTriedMax);
  int64_t tried_ms = 0;
  return text.ok() && absl::SimpleAtoi(*text, &tried_ms) && tried_ms <= now_ms &&
         now_ms - tried_ms < kTryAgainMs;
}

Shared Renewed(const std::string& path, Shared old, int64_t now_ms) {
  const std::string marker = path + ".tried";
  if (WasTriedJustNow(marker, now_ms)) return old;
  absl::StatusOr<identity::Credentials> renewed = identity::Renew(*old, now_ms, kRenewWithin);
  // The coordinator that renews names only itself.
  if (renewed.ok() && ShareAddress(old->endpoint, renewed->endpoint))
    renewed->endpoint = old->endpoint;
  if (!renewed.ok() || !identity::SaveCredentials(path, *renewed).ok()) {
    // The old credentials are good for hours; their end is reported.
    common::WriteFileDurably(marker, StrCat(now_ms)).IgnoreError();
    return old;
  }
  return std::make_shared<const identity::Credentials>(*std::move(renewed));
}

}  // namespace

std::string CredentialsPath(const ConfigFile& file, const std::string& context) {
  const std::filesystem::path parent = std::filesystem::path(file.path).parent_path();
  return StrCat(parent.empty() ? "." : parent.string(), "/credentials/", context);
}

absl::Status SelectContext(const std::string& context, const identity::Credentials& credentials) {
  // As it is now: other commands may have changed it meanwhile.
  ASSIGN_OR_RETURN(ConfigFile file, ConfigFile::Read());
  RETURN_IF_ERROR(identity::SaveCredentials(CredentialsPath(file, context), credentials));
  std::string& server = file.contexts[context];
  // A person who signs in again keeps the other coordinators of the cluster.
  if (!ShareAddress(server, credentials.endpoint)) server = credentials.endpoint;
  file.current = context;
  return file.Write();
}

SignInState StateOf(const SignInLife& life, int64_t now_ms) {
  if (now_ms >= life.until_ms) return SignInState::kExpired;
  return now_ms - life.from_ms > (life.until_ms - life.from_ms) / 2 ? SignInState::kRenew
                                                                    : SignInState::kFresh;
}

absl::StatusOr<Shared> CredentialsFor(const Settings& settings, int64_t now_ms) {
  if (settings.IsLocal()) return Shared();
  const std::string context = ContextOf(settings);
  // A context that `context add` made may have any name; those of `login` are fit for files.
  if (!identity::IsName(context)) return Shared();
  const std::string path = CredentialsPath(settings.file(), context);
  absl::StatusOr<identity::Credentials> loaded = identity::LoadCredentials(path);
  if (absl::IsNotFound(loaded.status())) return Shared();
  RETURN_IF_ERROR(loaded.status());
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::FactsOfPem(loaded->certificate_pem));
  auto credentials = std::make_shared<const identity::Credentials>(*std::move(loaded));
  const SignInLife life{.from_ms = facts.not_before_ms + identity::Authority::kBackdatedMs,
                        .until_ms = facts.not_after_ms};
  switch (StateOf(life, now_ms)) {
    case SignInState::kExpired:
      return SignedOut(*credentials, now_ms - life.until_ms);
    case SignInState::kRenew:
      return Renewed(path, std::move(credentials), now_ms);
    case SignInState::kFresh:
      break;
  }
  return credentials;
}

namespace {

// How often to check whether they are due: every minute, or more often if they are short-lived.
std::chrono::milliseconds PauseOf(const identity::Credentials& credentials) {
  const auto facts = identity::FactsOfPem(credentials.certificate_pem);
  const int64_t life_ms =
      facts.ok() ? facts->not_after_ms - facts->not_before_ms - identity::Authority::kBackdatedMs
                 : kKeptEveryMs;
  return std::chrono::milliseconds(std::clamp<int64_t>(life_ms / 8, 100, kKeptEveryMs));
}

}  // namespace

SignInRenewal::SignInRenewal(const Settings& settings, const identity::Credentials& credentials)
    : thread_([this, &settings, pause = PauseOf(credentials)] { Run(settings, pause); }) {}

SignInRenewal::~SignInRenewal() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SignInRenewal::Run(const Settings& settings, std::chrono::milliseconds pause) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this] { return is_over_; })) {
    lock.unlock();
    // A failure is retried, and reported when a command connects next.
    CredentialsFor(settings, common::SystemClock().Read().wall_ms).status().IgnoreError();
    lock.lock();
  }
}

}  // namespace muster::client
