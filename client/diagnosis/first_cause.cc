// first_cause: a list of kinds, from the most certain to the least.
#include "client/diagnosis/first_cause.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/text/last_lines.h"
#include "client/text/record_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::Printable;
using common::StrCat;

constexpr int64_t kNoProgressMs = 60'000;
constexpr size_t kRanksTold = 3;
constexpr size_t kLinesThatTell = 8;

bool Failed(const v1::RankExit& exit) {
  return exit.exit_code() != 0 || exit.signal() != 0 || exit.launch_errno() != 0 ||
         exit.out_of_memory();
}

std::string RankName(const v1::RankExit& exit) {
  return StrCat("rank ", exit.rank(), " on ", Printable(exit.node()));
}

// All text that a rank reported when it died.
std::string Words(const v1::RankExit& exit) {
  return StrCat(exit.launch_error(), "\n", exit.error_message(), "\n", LinesToQuote(exit));
}

// The last lines: earlier ones are more likely warnings than the reason for the end.
std::string LastTold(const std::string& text) {
  size_t begin = text.size();
  for (size_t lines = 0; lines < kLinesThatTell && begin > 0; ++lines) {
    const size_t end = text.find_last_not_of(" \t\r\n", begin - 1);
    if (end == std::string::npos) break;
    begin = text.rfind('\n', end) + 1;  // npos + 1 is 0
  }
  return text.substr(begin);
}

// The last line that has one of these words.
std::string LineWith(const std::string& text, std::initializer_list<std::string_view> words) {
  std::string found;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    for (const std::string_view word : words) {
      if (absl::StrContains(line, absl::string_view(word.data(), word.size())))
        found = std::string(line);
    }
  }
  return Printable(found);
}

// The last line with a letter in it.
std::string LastLine(const std::string& text) {
  std::string found;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool says =
        std::any_of(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
    if (says) found = std::string(line);
  }
  return Printable(found);
}

// A node's name, quoted for a command: nodes choose their own names.
std::string NodeWord(const std::string& node) { return ShellQuote(Printable(node)); }

std::string SignalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? StrCat("signal ", signal) : StrCat("SIG", name);
}

std::string Rerun(const CaseFile& file) {
  const bool saved =
      std::any_of(file.job.checkpoints().begin(), file.job.checkpoints().end(),
                  [](const auto& one) { return one.state() == v1::CHECKPOINT_STATE_COMMITTED; });
  return StrCat("jobctl rerun ", file.job.name(), saved ? " --from last" : "");
}

std::string LogsOf(const CaseFile& file, uint32_t rank) {
  return StrCat("jobctl logs ", file.job.name(), " --rank ", rank, " --tail 50");
}

// One rank's death, which the kinds below judge in turn.
struct Death {
  const CaseFile& file;
  const v1::Attempt& attempt;
  const v1::RankExit& exit;
  std::string words;
};
using MaybeCause = std::optional<FirstCause>;

FirstCause CauseOf(const Death& death, std::string kind, std::string sentence) {
  FirstCause cause;
  cause.kind = std::move(kind);
  cause.sentence = std::move(sentence);
  cause.ranks = {death.exit.rank()};
  return cause;
}

// For a rank that reached the job's own limit, which is independent of the node's memory.
FirstCause AtMemoryLimit(const Death& death) {
  const std::string limit = common::ExactBytes(death.exit.memory_limit_bytes());
  FirstCause cause = CauseOf(death, "memory_limit",
                             StrCat(RankName(death.exit), " reached its memory limit of ", limit,
                                    " (--memory): the kernel killed it"));
  cause.evidence.push_back(
      "the kernel refused memory for its own cgroup and killed a process there");
  cause.fixes = {StrCat("submit it again with a larger --memory than ", limit,
                        ", a smaller batch, or fewer loader workers"),
                 StrCat(LogsOf(death.file, death.exit.rank()), "  # what it did before")};
  return cause;
}

MaybeCause OutOfMemory(const Death& death) {
  if (death.exit.memory_limit_bytes() > 0) return AtMemoryLimit(death);
  const std::string device =
      LineWith(death.words, {"CUDA out of memory", "OutOfMemoryError", "NPU out of memory"});
  const std::string host =
      LineWith(death.words, {"MemoryError", "bad_alloc", "Cannot allocate memory",
                             "DefaultCPUAllocator: can't allocate memory"});
  if (!death.exit.out_of_memory() && device.empty() && host.empty()) return std::nullopt;
  FirstCause cause = CauseOf(
      death, "out_of_memory",
      StrCat(RankName(death.exit), " ran out of ", device.empty() ? "memory" : "device memory",
             death.exit.out_of_memory() ? ": the kernel killed it" : ""));
  if (death.exit.out_of_memory()) {
    cause.evidence.push_back("the kernel's count of out-of-memory kills rose when it died");
  }
  for (const std::string& line : {device, host}) {
    if (!line.empty()) cause.evidence.push_back(StrCat("it reported: ", line));
  }
  for (const v1::NodeView& node : death.file.nodes) {
    if (node.record().facts().name() != death.exit.node() || !device.empty()) continue;
    cause.evidence.push_back(StrCat(Printable(death.exit.node()), " has ",
                                    node.record().facts().memory_bytes() >> 20, " MiB of memory"));
  }
  cause.fixes = {StrCat(Rerun(death.file),
                        "  # after making the batch smaller, or accumulating "
                        "gradients over more steps"),
                 StrCat(LogsOf(death.file, death.exit.rank()), "  # what it did before")};
  return cause;
}

// The path in "No such file or directory: 'x'", "cannot open x: No such file or directory".
std::string MissingPath(const std::string& line) {
  for (const char quote : {'\'', '"'}) {
    const size_t begin = line.find(quote);
    const size_t end = begin == std::string::npos ? begin : line.find(quote, begin + 1);
    if (end != std::string::npos && line.find('/', begin) < end) {
      return line.substr(begin + 1, end - begin - 1);
    }
  }
  const size_t slash = line.find('/');
  if (slash == std::string::npos) return "";
  return line.substr(slash, line.find_first_of(" :,;'\")", slash) - slash);
}

// Nodes of the attempt where no rank reported this path.
std::vector<std::string> NodesWithout(const v1::Attempt& attempt, const std::string& path) {
  std::vector<std::string> nodes;
  for (const v1::NodePart& part : attempt.parts()) {
    const bool said = std::any_of(part.exits().begin(), part.exits().end(), [&](const auto& exit) {
      return absl::StrContains(Words(exit), path) && Failed(exit);
    });
    if (!said && !absl::StrContains(part.failure(), path)) nodes.push_back(Printable(part.node()));
  }
  return nodes;
}

MaybeCause MissingFile(const Death& death) {
  std::string line = LineWith(death.words, {"No such file or directory", "FileNotFoundError",
                                            "does not exist", "not found in PATH"});
  if (line.empty() && death.exit.launch_errno() == ENOENT)
    line = Printable(death.exit.launch_error());
  if (line.empty() || death.exit.signal() != 0) return std::nullopt;
  const std::string path = MissingPath(line);
  FirstCause cause = CauseOf(
      death, "missing_file",
      StrCat(path.empty() ? "a file" : path, " is missing on ", Printable(death.exit.node()),
             ", where ",
             death.exit.launch_errno() != 0 ? "no rank could start"
                                            : StrCat("rank ", death.exit.rank(), " needs it")));
  cause.evidence.push_back(StrCat("rank ", death.exit.rank(), " reported: ", line));
  const std::vector<std::string> others = NodesWithout(death.attempt, path.empty() ? line : path);
  if (!others.empty()) {
    std::string names;
    for (const std::string& name : others) names += StrCat(names.empty() ? "" : ", ", name);
    cause.evidence.push_back(StrCat("no rank on ", names, " reported it missing"));
    const std::string target = ShellQuote(path.empty() ? "FILE" : path);
    cause.fixes.push_back(StrCat("scp ", ShellQuote(others[0]), ":", target, " ",
                                 NodeWord(death.exit.node()), ":", target,
                                 "  # or keep it on a file system that all nodes share"));
  } else {
    cause.fixes.push_back(
        StrCat("jobctl show ", death.file.job.name(), "  # the working directory and the command"));
  }
  cause.fixes.push_back(Rerun(death.file));
  return cause;
}

MaybeCause SignalFromOutside(const Death& death) {
  const int by_shell = death.exit.exit_code() > 128 ? death.exit.exit_code() - 128 : 0;
  const int signal = death.exit.signal() != 0 ? death.exit.signal() : by_shell;
  const std::set<int> sent_by_people = {SIGTERM, SIGKILL, SIGINT, SIGHUP,
                                        SIGQUIT, SIGUSR1, SIGUSR2};
  if (!sent_by_people.contains(signal) || death.exit.stopped_by_us()) return std::nullopt;
  const bool ours = death.exit.signal_sent_by_us();
  FirstCause cause = CauseOf(death, "signal_from_outside",
                             StrCat(RankName(death.exit), " was killed by ", SignalText(signal),
                                    ours ? ", sent through Muster"
                                         : ", which came from outside Muster: a person, another "
                                           "program, or the rank itself"));
  if (by_shell == signal)
    cause.evidence.push_back(
        StrCat("it exited with ", death.exit.exit_code(), ", which is 128 + ", signal));
  if (ours) {
    cause.fixes = {StrCat("jobctl events ", death.file.job.name(), "  # who sent it, and when"),
                   Rerun(death.file)};
    return cause;
  }
  cause.evidence.push_back("no stop of the attempt had been ordered when it died");
  if (signal == SIGKILL) {
    cause.evidence.push_back(
        "the kernel's count of out-of-memory kills did not rise; a memory limit "
        "further out (a container, a batch system) would not show there");
  }
  cause.fixes = {StrCat("ssh ", NodeWord(death.exit.node()), " journalctl --since '",
                        LocalTime(death.exit.ended_ms() - 60'000), "' --until '",
                        LocalTime(death.exit.ended_ms() + 5'000),
                        "'  # who sent it: a person, systemd, a batch system, a container runtime"),
                 Rerun(death.file)};
  return cause;
}

MaybeCause Crash(const Death& death) {
  if (death.exit.signal() == 0 || death.exit.stopped_by_us()) return std::nullopt;
  FirstCause cause =
      CauseOf(death, "crash",
              StrCat(RankName(death.exit), " crashed with ", SignalText(death.exit.signal())));
  if (const std::string line = LastLine(death.words); !line.empty()) {
    cause.evidence.push_back(StrCat("its last line: ", line));
  }
  if (death.exit.signal() == SIGBUS) {
    cause.evidence.push_back(
        "SIGBUS often means that /dev/shm, or a disk with a mapped file, is full");
    cause.fixes.push_back(StrCat("ssh ", NodeWord(death.exit.node()), " df -h /dev/shm"));
  }
  cause.fixes.push_back(LogsOf(death.file, death.exit.rank()));
  if (cause.fixes.size() < 2) cause.fixes.push_back(Rerun(death.file));
  return cause;
}

FirstCause ErrorOf(const Death& death) {
  std::string line = LastLine(death.exit.error_message());
  if (line.empty())
    line = LineWith(death.exit.last_lines(), {"Error", "error", "Exception", "what():"});
  if (line.empty()) line = LastLine(death.words);
  FirstCause cause =
      CauseOf(death, "rank_failed",
              StrCat(RankName(death.exit), " exited with code ", death.exit.exit_code(),
                     line.empty() ? "" : StrCat(": ", line)));
  cause.fixes = {LogsOf(death.file, death.exit.rank()),
                 StrCat(Rerun(death.file), "  # after fixing the error")};
  return cause;
}

FirstCause FromDeath(const CaseFile& file, const v1::Attempt& attempt, const v1::RankExit& exit) {
  const Death death{
      file, attempt, exit,
      StrCat(exit.launch_error(), "\n", exit.error_message(), "\n", LastTold(LinesToQuote(exit)))};
  for (const auto kind : {OutOfMemory, MissingFile, SignalFromOutside, Crash}) {
    if (MaybeCause cause = kind(death)) return *std::move(cause);
  }
  return ErrorOf(death);
}

FirstCause NodeLost(const CaseFile& file, const v1::Attempt& attempt) {
  FirstCause cause;
  cause.kind = "node_lost";
  std::string name;
  for (const v1::NodePart& part : attempt.parts()) {
    const bool lost = part.failure_cause() == v1::STOP_CAUSE_NODE_LOST ||
                      (name.empty() && absl::StrContains(attempt.reason(), part.node()));
    if (lost) name = Printable(part.node());
    if (lost && !part.failure().empty()) cause.evidence.push_back(Printable(part.failure()));
  }
  cause.sentence = StrCat(
      "node ", name.empty() ? "of a rank" : name,
      " was lost: ", Printable(attempt.reason().empty() ? file.job.reason() : attempt.reason()));
  for (const v1::NodeView& node : file.nodes) {
    if (node.record().facts().name() != name) continue;
    cause.evidence.push_back(StrCat(name, " is ", NodeStateName(node.record().state()),
                                    " now, last heard at ",
                                    LocalTime(node.record().last_contact_ms())));
  }
  cause.fixes = {StrCat("ssh ", NodeWord(name),
                        " systemctl status muster-worker  # restart it, or jobctl nodes drain ",
                        NodeWord(name)),
                 IsOver(file.job.state())
                     ? Rerun(file)
                     : StrCat("jobctl why ", file.job.name(), "  # when it continues")};
  return cause;
}

FirstCause StoppedBy(const CaseFile& file, const v1::Attempt& attempt) {
  FirstCause cause;
  cause.kind = CauseName(attempt.cause());
  std::replace(cause.kind.begin(), cause.kind.end(), ' ', '_');
  cause.sentence = Printable(attempt.reason().empty() ? file.job.reason() : attempt.reason());
  cause.fixes = {StrCat("jobctl events ", file.job.name()), Rerun(file)};
  return cause;
}

FirstCause WithoutProgress(const CaseFile& file) {
  const HangReport stacks =
      MakeHangReport(static_cast<int>(file.job.attempts().rbegin()->world_size()), file.records);
  const int64_t quiet_ms = file.last_metric_ms > 0 ? file.now_ms - file.last_metric_ms : 0;
  FirstCause cause;
  const bool hangs = !stacks.suspects.empty() || quiet_ms > kNoProgressMs;
  cause.kind = hangs ? "no_progress" : "running";
  cause.sentence = file.records.empty()
                       ? StrCat("it is running, but no rank reported what it is doing")
                       : StrCat(hangs ? "" : "it is running: ", stacks.sentence);
  if (quiet_ms > kNoProgressMs) {
    cause.evidence.push_back(StrCat("no new metric for ", Took(quiet_ms)));
  }
  for (const int rank : stacks.suspects) {
    if (cause.ranks.size() < kRanksTold) cause.ranks.push_back(static_cast<uint32_t>(rank));
  }
  const std::string rank = cause.ranks.empty() ? "0" : std::to_string(cause.ranks[0]);
  cause.fixes = {StrCat("jobctl stack ", file.job.name(), " --full --rank ", rank)};
  if (hangs) {
    cause.fixes.push_back(StrCat("jobctl cancel ", file.job.name(), " && ", Rerun(file),
                                 "  # after fixing the cause"));
  }
  return cause;
}

FirstCause Waiting(const CaseFile& file) {
  FirstCause cause;
  cause.kind = "waiting";
  cause.sentence = Printable(file.why.empty() ? file.job.reason() : file.why);
  cause.fixes = {StrCat("jobctl why ", file.job.name()), "jobctl nodes ls"};
  return cause;
}

}  // namespace

const v1::Attempt* AttemptTold(const v1::JobRecord& job) {
  if (job.attempts().empty()) return nullptr;
  const v1::Attempt& newest = *job.attempts().rbegin();
  if (newest.has_culprit() || !IsOver(job.state()) || job.state() == v1::JOB_STATE_SUCCEEDED) {
    return &newest;
  }
  for (auto attempt = job.attempts().rbegin(); attempt != job.attempts().rend(); ++attempt) {
    if (attempt->has_culprit()) return &*attempt;
  }
  return &newest;
}

std::vector<v1::RankExit> DeathsInOrder(const v1::Attempt& attempt) {
  std::vector<v1::RankExit> deaths;
  for (const v1::NodePart& part : attempt.parts()) {
    for (const v1::RankExit& exit : part.exits()) {
      if (Failed(exit)) deaths.push_back(exit);
    }
  }
  const bool has_culprit = attempt.has_culprit();
  const uint32_t first = attempt.culprit().rank();
  std::stable_sort(deaths.begin(), deaths.end(), [&](const auto& a, const auto& b) {
    const auto key = [&](const v1::RankExit& exit) {
      return std::tuple(!has_culprit || exit.rank() != first, exit.stopped_by_us(),
                        exit.ended_ms());
    };
    return key(a) < key(b);
  });
  if (has_culprit && (deaths.empty() || deaths[0].rank() != first)) {
    deaths.insert(deaths.begin(), attempt.culprit());
  }
  return deaths;
}

FirstCause FindFirstCause(const CaseFile& file) {
  const v1::Attempt* attempt = AttemptTold(file.job);
  const v1::JobState state = file.job.state();
  if (state == v1::JOB_STATE_SUCCEEDED) {
    return {.kind = "none",
            .sentence = "nothing failed: it succeeded",
            .fixes = {StrCat("jobctl show ", file.job.name())}};
  }
  if (attempt == nullptr) return Waiting(file);
  if (state == v1::JOB_STATE_RUNNING && attempt->running_ms() > 0) return WithoutProgress(file);
  if (attempt->cause() == v1::STOP_CAUSE_NODE_LOST) return NodeLost(file, *attempt);
  const std::vector<v1::RankExit> deaths = DeathsInOrder(*attempt);
  const bool by_rank = attempt->has_culprit() || (!deaths.empty() && !deaths[0].stopped_by_us());
  if (by_rank && !deaths.empty() && state != v1::JOB_STATE_CANCELLED) {
    return FromDeath(file, *attempt, deaths[0]);
  }
  if (attempt->cause() == v1::STOP_CAUSE_UNSPECIFIED && !IsOver(state)) return Waiting(file);
  return StoppedBy(file, *attempt);
}

}  // namespace muster::client
