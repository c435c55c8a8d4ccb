#include "worker/join_command.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/terminal_secret.h"
#include "common/text/strings.h"
#include "common/text/units.h"
#include "identity/certificate.h"
#include "identity/credential_files.h"
#include "identity/enroll.h"
#include "identity/names.h"
#include "worker/base/paths.h"
#include "worker/config.h"
#include "worker/confinement/isolation.h"
#include "worker/membership/enroll_in_turn.h"
#include "worker/membership/identity.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int kRefusedExit = 1;
constexpr size_t kTokenFileMax = 4 * 1024;
constexpr int kTries = 10;
constexpr int kPauseMs = 1'000;

absl::StatusOr<std::string> ReadToken(const JoinOptions& options) {
  if (!options.token.empty() && options.token != "-") {
    std::fputs(
        "muster-worker join: others on this machine can read --token TOKEN in the list of "
        "processes; without it, the token is asked for\n",
        stderr);
    return options.token;
  }
  return common::ReadOrAskHidden(options.token_file, "Token (of `jobctl token create worker`)",
                                 kTokenFileMax);
}

// When a cluster starts, more nodes may join at once than the coordinator answers. When the one that led has died,
// it takes a moment until another one leads.
absl::StatusOr<identity::Credentials> EnrollPatiently(const identity::Enrolling& enrolling) {
  for (int left = kTries;; --left) {
    absl::StatusOr<identity::Credentials> credentials = EnrollInTurn(enrolling);
    const std::string code = common::CodeOf(credentials.status());
    const bool is_for_now = code == "JC1356" || code == "JC1630";
    if (credentials.ok() || left == 0 || !is_for_now) return credentials;
    poll(nullptr, 0, kPauseMs);
  }
}

absl::StatusOr<common::UniqueFd> TakeStateDirectory(const Paths& paths, bool again) {
  RETURN_IF_ERROR(MakeStateDirectory(paths));
  absl::StatusOr<common::UniqueFd> lock = common::LockFile(paths.Lock());
  if (!lock.ok()) {
    return absl::FailedPreconditionError(
        StrCat(std::string(lock.status().message()),
               "; a worker is running with this state directory; fix: stop it first"));
  }
  if (!again && common::Exists(paths.Credentials())) {
    return common::MakeProblem(
        absl::StatusCode::kAlreadyExists,
        {.code = "JC1358", .what = StrCat(paths.StateDir(), " has a node's credentials already")});
  }
  return lock;
}

absl::Status Join(const JoinOptions& options) {
  const std::string name = options.name.empty() ? HostName() : options.name;
  RETURN_IF_ERROR(identity::CheckName("the node", name));
  std::error_code error;
  const Paths paths(std::filesystem::absolute(options.state_dir, error).lexically_normal().string(),
                    "");
  if (options.if_needed && common::Exists(paths.Credentials())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const common::UniqueFd lock, TakeStateDirectory(paths, options.again));
  ASSIGN_OR_RETURN(const std::string token, ReadToken(options));
  ASSIGN_OR_RETURN(const identity::Credentials credentials,
                   EnrollPatiently({.address = options.address, .token = token, .node = name}));
  RETURN_IF_ERROR(identity::SaveCredentials(paths.Credentials(), credentials));
  ASSIGN_OR_RETURN(const identity::CertificateFacts facts,
                   identity::FactsOfPem(credentials.certificate_pem));
  const int64_t lives_ms =
      facts.not_after_ms - facts.not_before_ms - identity::Authority::kBackdatedMs;
  std::printf(
      "%s has joined cluster %s; its certificate lives %s and is renewed while the worker runs\n"
      "start it: muster-worker --state-dir %s\n",
      credentials.name.c_str(), credentials.cluster.c_str(),
      common::HumanDuration(lives_ms).c_str(), paths.StateDir().c_str());
  return absl::OkStatus();
}

}  // namespace

std::optional<int> RunJoinCommand(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "join") return std::nullopt;
  const ParsedJoin parsed = ParseJoinFlags(argc - 1, argv + 1);
  if (parsed.stop) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const absl::Status joined = Join(parsed.options);
  if (joined.ok()) return 0;
  std::fprintf(stderr, "muster-worker join: %s\n", std::string(joined.message()).c_str());
  return kRefusedExit;
}

}  // namespace muster::worker
