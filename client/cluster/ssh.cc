#include "client/cluster/ssh.h"

#include <sys/wait.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/machine/child_output.h"
#include "client/session/spec_environment.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client::cluster {
namespace {

using common::StrCat;

constexpr int kSshFailed = 255;  // ssh(1): "or with 255 if an error occurred"
constexpr size_t kReasonBytesMax = 600;
constexpr std::chrono::seconds kConfigWithin{10};

// The end of stderr, as one line.
std::string ReasonIn(const std::string& errors) {
  std::string reason;
  for (const absl::string_view line : absl::StrSplit(errors, absl::ByAnyChar("\r\n"))) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    // ssh also reports each host key that it has just learned: not a reason.
    if (text.empty() || absl::StartsWith(text, "Warning: Permanently added")) continue;
    common::StrAppend(&reason, reason.empty() ? "" : "; ", text);
  }
  if (reason.size() > kReasonBytesMax)
    reason = "…" + reason.substr(reason.size() - kReasonBytesMax);
  return common::Printable(reason);
}

std::string FixFor(const SshNode& node, const std::string& reason) {
  const std::string target = StrCat(node.user, node.user.empty() ? "" : "@", node.host);
  const std::string port = node.port > 0 ? StrCat(" -p ", node.port) : "";
  if (reason.find("Host key verification failed") != std::string::npos) {
    return StrCat("ssh", port, " ", target,
                  " once to confirm its key, or --ssh-option StrictHostKeyChecking=accept-new");
  }
  if (reason.find("Permission denied") != std::string::npos) {
    return StrCat("give it your key: ssh-copy-id", port, " ", target, "; `ssh -o BatchMode=yes",
                  port, " ", target, " true` must succeed");
  }
  return StrCat("`ssh -o BatchMode=yes", port, " ", target, " true` must succeed");
}

absl::Status NotReached(const SshNode& node, std::string why) {
  if (why.empty()) why = "ssh ended with 255 and wrote nothing";
  const std::string fix = FixFor(node, why);
  return common::MakeProblem(absl::StatusCode::kUnavailable,
                             {.code = "JC1804",
                              .what = StrCat("node ", node.name, " cannot be reached by ssh"),
                              .why = std::move(why),
                              .fix = fix});
}

absl::Status Failed(const SshNode& node, std::string why) {
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1805",
                              .what = StrCat("node ", node.name, " cannot be used"),
                              .why = std::move(why)});
}

}  // namespace

absl::StatusOr<SshSettings> FindSsh(std::string config, std::vector<std::string> options) {
  SshSettings settings{.program = FindInDirectories("ssh", Variable("PATH")),
                       .config = std::move(config),
                       .options = std::move(options)};
  if (!settings.program.empty()) return settings;
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1804",
                              .what = "this machine has no ssh on its PATH",
                              .fix = "install it: apt-get install openssh-client"});
}

std::vector<std::string> SshWords(const SshSettings& settings, const SshNode& node) {
  // ssh takes the first value of an option: the user cannot override these two, but can the last ones.
  std::vector<std::string> words = {settings.program, "-T", "-o", "BatchMode=yes"};
  if (!settings.config.empty()) words.insert(words.end(), {"-F", settings.config});
  for (const std::string& option : settings.options) words.insert(words.end(), {"-o", option});
  words.insert(words.end(), {"-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15"});
  if (node.port > 0) words.insert(words.end(), {"-p", StrCat(node.port)});
  if (!node.user.empty()) words.insert(words.end(), {"-l", node.user});
  words.insert(words.end(), {"--", node.host});
  return words;
}

SshHost::SshHost(SshSettings settings, SshNode node)
    : settings_(std::move(settings)), node_(std::move(node)) {}

std::vector<std::string> SshHost::Words() const { return SshWords(settings_, node_); }

std::string SshHost::HostName() const {
  std::vector<std::string> words = Words();
  words.insert(words.begin() + 1, "-G");
  const absl::StatusOr<ChildOutput> output =
      OutputOfChild({.argv = words, .environment = OwnEnvironment(), .limit = kConfigWithin});
  if (!output.ok() || !output->whole || output->status != 0) return node_.host;
  for (absl::string_view line : absl::StrSplit(output->text, '\n')) {
    if (absl::ConsumePrefix(&line, "hostname ")) return std::string(line);
  }
  return node_.host;
}

absl::StatusOr<std::string> SshHost::Run(std::string_view script,
                                         std::chrono::seconds within) const {
  return Feed("exec /bin/sh -s", script, within);
}

absl::StatusOr<std::string> SshHost::Feed(const std::string& line, std::string_view input,
                                          std::chrono::seconds within) const {
  std::vector<std::string> words = Words();
  words.push_back(line);
  const absl::StatusOr<ChildOutput> output = OutputOfChild(
      {.argv = words, .environment = OwnEnvironment(), .limit = within, .input = input});
  if (!output.ok()) return NotReached(node_, StrCat("ssh ", output.status().message()));
  if (!output->whole) return Failed(node_, "it printed more than jobctl's commands do");
  if (WIFSIGNALED(output->status))
    return NotReached(node_, StrCat("ssh was killed by signal ", WTERMSIG(output->status)));
  const int code = WEXITSTATUS(output->status);
  std::string why = ReasonIn(output->errors);
  if (code == kSshFailed) return NotReached(node_, std::move(why));
  if (code != 0) return Failed(node_, why.empty() ? StrCat("a command ended with ", code) : why);
  return output->text;
}

}  // namespace muster::client::cluster
