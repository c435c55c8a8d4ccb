#include "client/session/device_login.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/command_line/errors.h"
#include "client/session/sign_in.h"
#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "identity/enroll.h"
#include "identity/https_client.h"
#include "identity/keys.h"
#include "identity/names.h"

namespace muster::client {
namespace {

using common::StrCat;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kHashName = "SHA256:";
// The coordinator asks the provider up to four times before it answers, up to 10 s each.
constexpr milliseconds kAnswerWithin{45'000};
// Failures in a row while the person may be confirming: a provider's restart does not end the sign-in.
constexpr int kFailuresMost = 3;
// The coordinator forgets a sign-in that is not polled.
constexpr milliseconds kPauseMost{60'000};

milliseconds TimeoutOf(const Session& session) {
  return std::max(kAnswerWithin, milliseconds(session.settings().timeout_ms()));
}

// From a context that signed in to this address before, even if its certificate has expired.
std::optional<std::string> KnownAuthority(const ConfigFile& file, const std::string& address) {
  for (const auto& [name, server] : file.contexts) {
    if (!identity::IsName(name)) continue;
    const absl::StatusOr<identity::Credentials> known =
        identity::LoadCredentials(CredentialsPath(file, name));
    if (known.ok() && known->http == address) return known->authority_pem;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> AskWhetherToTrust(const Session& session, bool may_ask,
                                              const std::string& address) {
  if (!may_ask || isatty(STDIN_FILENO) != 1 || !session.terminal().err_is_tty) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1367",
         .what = StrCat("jobctl does not know which cluster to expect at ", address),
         .why = "there is no terminal to ask on, and no context has signed in there",
         .fix = StrCat("jobctl login ", address,
                       " --oidc --authority SHA256:… with what "
                       "`muster-coordinator init` printed")});
  }
  ASSIGN_OR_RETURN(const identity::ShownAuthority shown,
                   identity::AskForAuthority(address, TimeoutOf(session)));
  std::cerr << Filtered(StrCat("The cluster at ", address, " has the authority ", kHashName,
                               shown.fingerprint, ".\nTrust it? [y/N] "))
            << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return shown.pem;
  return absl::CancelledError("no one was signed in");
}

absl::StatusOr<identity::Endpoint> EndpointOf(const Session& session, const Arguments& arguments,
                                              const std::string& address) {
  identity::Endpoint endpoint{
      .address = address, .authority_pem = "", .within = TimeoutOf(session)};
  if (arguments.Has("authority")) {
    ASSIGN_OR_RETURN(const std::string fingerprint, ReadFingerprint(arguments.Get("authority")));
    ASSIGN_OR_RETURN(endpoint.authority_pem, identity::FetchAuthority({.address = address,
                                                                       .fingerprint = fingerprint,
                                                                       .within = endpoint.within}));
    return endpoint;
  }
  if (auto known = KnownAuthority(session.settings().file(), address); known.has_value()) {
    endpoint.authority_pem = *std::move(known);
    return endpoint;
  }
  // Not Session::Confirm: --yes answers questions about deletions, not about whom to trust.
  ASSIGN_OR_RETURN(endpoint.authority_pem,
                   AskWhetherToTrust(session, !arguments.Has("no-input"), address));
  return endpoint;
}

void TellHowToConfirm(Session& session, const identity::DeviceSignIn& sign_in) {
  std::string text =
      StrCat("Open ", sign_in.verification_uri, "\nand enter the code ", sign_in.user_code, "\n");
  if (!sign_in.verification_uri_complete.empty())
    common::StrAppend(&text, "or open ", sign_in.verification_uri_complete, "\n");
  session.Print(text);
  // stdout may be a pipe, and the person has to act now.
  fflush(stdout);
  session.Note("Waiting until it is confirmed there; Ctrl-C gives up.");
}

absl::StatusOr<identity::Credentials> AwaitConfirmed(const identity::Endpoint& endpoint,
                                                     const identity::DeviceSignIn& sign_in) {
  const identity::PrivateKey key = identity::PrivateKey::Generate();
  const auto until = steady_clock::now() + sign_in.lives + sign_in.interval;
  milliseconds pause = sign_in.interval;
  int failures = 0;
  while (true) {
    std::this_thread::sleep_for(pause);
    absl::StatusOr<identity::Credentials> finished =
        identity::FinishSignIn(endpoint, sign_in.handle, key);
    // The coordinator reports the end; a local limit keeps this from waiting forever if clocks differ.
    if (finished.ok() || !absl::IsUnavailable(finished.status()) || steady_clock::now() > until)
      return finished;
    const bool is_waiting = common::CodeOf(finished.status()) == "JC1363";
    failures = is_waiting ? 0 : failures + 1;
    if (failures > kFailuresMost) return finished;
    pause = is_waiting ? milliseconds(sign_in.interval) : std::min(2 * pause, kPauseMost);
  }
}

}  // namespace

absl::StatusOr<std::string> ReadFingerprint(std::string_view text) {
  std::string_view rest = text;
  if (rest.size() > kHashName.size() &&
      absl::AsciiStrToUpper(common::ToAbsl(rest.substr(0, kHashName.size()))) == kHashName)
    rest.remove_prefix(kHashName.size());
  std::string digits = absl::AsciiStrToLower(common::ToAbsl(rest));
  std::erase(digits, ':');
  if (common::IsSha256Hex(digits)) return digits;
  return Usage("JC1004",
               StrCat("--authority \"", common::Printable(text), "\" is not a fingerprint"),
               "SHA256: and 64 hex digits, as `muster-coordinator init` printed them");
}

absl::StatusOr<identity::Credentials> LoginAtProvider(Session& session, const Arguments& arguments,
                                                      const std::string& address) {
  ASSIGN_OR_RETURN(const identity::Endpoint endpoint, EndpointOf(session, arguments, address));
  ASSIGN_OR_RETURN(const identity::DeviceSignIn sign_in, identity::BeginSignIn(endpoint));
  TellHowToConfirm(session, sign_in);
  return AwaitConfirmed(endpoint, sign_in);
}

}  // namespace muster::client
