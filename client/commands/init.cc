// jobctl init: writes a job file, from a few answers or from another launcher's file.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iostream>

#include "absl/strings/ascii.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/doctor/machine.h"
#include "client/launchers/job_draft.h"
#include "client/launchers/launch_script.h"
#include "client/session/session.h"
#include "client/session/settings.h"
#include "client/session/spec_environment.h"
#include "client/submit/job_flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/files/files.h"
#include "common/job/rules.h"
#include "common/job/shape.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr auto kInitFlags = WithJobFlags<kForInit>({
    {"from", 0, "WHAT", "take over a file of accelerate, torchrun (a script) or sbatch",
     "accelerate|torchrun|sbatch"},
    {"output", 'o', "FILE", "where to write it (train.yaml); -: stdout", {}, "file"},
    {"force", 0, "", "overwrite the file if it exists"},
    {"mixed-precision", 0, "TYPE", "for scripts that use accelerate", "no|fp16|bf16|fp8"},
});

uint32_t DevicesHere(const std::string& kind) {
  const doctor::DeviceFacts facts = doctor::ReadDevices("", "");
  if (common::IsHostKind(kind)) return static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_ONLN));
  const int most = std::max(facts.nvidia_nodes, facts.ascend_nodes);
  if (kind == "gpu") return static_cast<uint32_t>(facts.nvidia_nodes);
  return static_cast<uint32_t>(kind == "npu" ? facts.ascend_nodes : most);
}

std::string KindHere() {
  if (DevicesHere("gpu") > 0) return "gpu";
  return DevicesHere("npu") > 0 ? "npu" : std::string(common::HostKind().name);
}

// The answers to what `accelerate config` asks. A flag answers its question; --yes, or a missing
// terminal when enough is known, takes the defaults.
class Questions {
 public:
  Questions(Session& session, const Arguments& arguments, bool asks)
      : session_(session), arguments_(arguments), asks_(asks) {}

  // `check` explains what is wrong with an answer, or returns nothing.
  template <typename Check>
  std::string Ask(std::string_view flag, const std::string& question, const std::string& otherwise,
                  Check check) {
    if (arguments_.Has(flag) || !asks_) return arguments_.Get(flag, otherwise);
    while (true) {
      std::cerr << question << " [" << otherwise << "]: " << std::flush;
      std::string answer;
      if (!std::getline(std::cin, answer)) return otherwise;
      answer = std::string(absl::StripAsciiWhitespace(answer));
      if (answer.empty()) return otherwise;
      const std::string wrong = check(answer);
      if (wrong.empty()) return answer;
      session_.Note(wrong);
    }
  }

 private:
  Session& session_;
  const Arguments& arguments_;
  const bool asks_;
};

std::string WrongCount(const std::string& answer, int64_t least, int64_t most) {
  const absl::StatusOr<int64_t> number = common::ParseInteger(answer);
  return number.ok() && *number >= least && *number <= most
             ? ""
             : StrCat("a whole number from ", least, " to ", most);
}

std::string WrongDevices(const std::string& answer) {
  v1::DeviceConstraint device;
  uint32_t total = 0;
  const absl::Status parsed = job::ParseDevices(answer, &device, &total);
  if (!parsed.ok()) return Sentence(parsed);
  return total == 0 ? "" : "a kind or a model, without a number";
}

absl::StatusOr<JobDraft> FromAnswers(Session& session, const Arguments& arguments) {
  const bool has_terminal = isatty(STDIN_FILENO) == 1 && session.terminal().err_is_tty;
  const bool may_ask = has_terminal && !arguments.Has("yes") && !arguments.Has("no-input");
  if (!may_ask && !arguments.Has("yes") && !arguments.has_rest()) {
    return Usage("JC1009", "init has questions, and there is no terminal to ask them on",
                 "jobctl init -n 2 --devices gpu -- python train.py, or --yes for the defaults");
  }
  JobDraft draft;
  Questions questions(session, arguments, may_ask);
  const std::string kind = KindHere();
  if (arguments.has_rest()) {
    draft.command = arguments.rest();
  } else {
    const auto plain = [](const std::string& answer) {
      return PlainShellWords(answer).empty() ? "a plain command, without $, |, ;" : "";
    };
    draft.command =
        PlainShellWords(questions.Ask("", "Command of each rank", "python train.py", plain));
  }
  const auto count = [](int64_t least, int64_t most) {
    return [least, most](const std::string& answer) { return WrongCount(answer, least, most); };
  };
  draft.devices =
      questions.Ask("devices", "Devices (gpu, npu, cpu, or a model like h100)", kind, WrongDevices);
  const uint32_t here = common::IsHostKind(draft.devices) ? 1 : DevicesHere(draft.devices);
  const std::string nodes =
      questions.Ask("nodes", "Nodes (0: as many as it takes)", "0", count(0, common::kNodesMax));
  const int64_t on = std::max<int64_t>(1, common::ParseInteger(nodes).value_or(0));
  const std::string processes =
      questions.Ask("processes", "Ranks in total, over all nodes", StrCat(std::max(1u, here) * on),
                    count(on, common::kRanksMax));
  const std::string precision = questions.Ask(
      "mixed-precision", "Mixed precision (no, fp16, bf16, fp8)", "no",
      [](const std::string& answer) {
        return answer == "no" || answer == "fp16" || answer == "bf16" || answer == "fp8"
                   ? ""
                   : "no, fp16, bf16 or fp8";
      });
  const std::string restarts =
      questions.Ask("restarts", "Restarts when a rank fails", "0", count(0, job::kRestarts.most));
  // Flags were not checked by a question.
  for (const auto& [flag, wrong] :
       {std::pair("nodes", WrongCount(nodes, 0, common::kNodesMax)),
        std::pair("processes", WrongCount(processes, 1, common::kRanksMax)),
        std::pair("restarts", WrongCount(restarts, 0, job::kRestarts.most)),
        std::pair("devices", WrongDevices(draft.devices))}) {
    if (!wrong.empty())
      return Usage("JC1004", StrCat("--", flag, " takes ", wrong), "jobctl help init");
  }
  draft.min_nodes = draft.max_nodes = static_cast<uint32_t>(*common::ParseInteger(nodes));
  draft.processes = static_cast<uint32_t>(*common::ParseInteger(processes));
  draft.restarts = static_cast<uint32_t>(*common::ParseInteger(restarts));
  if (precision != "no") draft.env["ACCELERATE_MIXED_PRECISION"] = precision;
  return draft;
}

// A torchrun or accelerate line after `--`, or a plain command for accelerate's configuration.
absl::StatusOr<JobDraft> FromLauncher(const Arguments& arguments, const std::string& from,
                                      const std::string& file) {
  JobDraft draft;
  draft.source = file.empty() ? StrCat("a ", from, " line") : file;
  if (from == "accelerate") {
    const std::vector<std::string> placeholder = {"python", "train.py"};
    std::string path = file;
    if (path.empty()) {
      const std::string cache = Variable("HF_HOME").empty()
                                    ? StrCat(HomeDirectory(), "/.cache/huggingface")
                                    : Variable("HF_HOME");
      path = cache + "/accelerate/default_config.yaml";
      draft.source = path;
    }
    ASSIGN_OR_RETURN(const LaunchPlan plan,
                     PlanFromAccelerateConfig(
                         path, arguments.has_rest() ? arguments.rest() : placeholder, Variable));
    TakePlan(plan, DevicesHere, &draft);
    if (!arguments.has_rest())
      draft.left_out.push_back("the configuration has no command: python train.py is a guess");
    return draft;
  }
  if (!file.empty()) {
    const absl::StatusOr<std::string> content = common::ReadFileOrPipe(file, kScriptBytesMax);
    if (!content.ok()) {
      return Usage("JC1005", std::string(content.status().message()),
                   "give the path of an existing script of at most 256 KiB");
    }
    RETURN_IF_ERROR(from == "sbatch"
                        ? TakeSbatch(*content, {}, Variable, DevicesHere, &draft)
                        : TakeScript(*content, {}, nullptr, Variable, DevicesHere, &draft));
    for (const RefusedPart& part : draft.refused) draft.left_out.push_back(part.what);
    return draft;
  }
  if (from == "sbatch" || !arguments.has_rest()) {
    return Usage("JC1004", StrCat("--from ", from, " needs a file"),
                 from == "sbatch" ? "jobctl init --from sbatch train.sbatch"
                                  : "jobctl init --from torchrun train.sh, or -- torchrun …");
  }
  ASSIGN_OR_RETURN(const std::optional<LaunchPlan> plan,
                   ReadLauncherLine(arguments.rest(), Variable));
  if (!plan.has_value()) {
    return Usage("JC1004", "the command is not a torchrun line",
                 "jobctl init --from torchrun -- torchrun --nproc-per-node 2 train.py");
  }
  TakePlan(*plan, DevicesHere, &draft);
  return draft;
}

// Flags win over the file that was taken over.
absl::Status TakeFlags(const Arguments& arguments, JobDraft* draft) {
  if (arguments.Has("name")) draft->name = arguments.Get("name");
  ASSIGN_OR_RETURN(const int64_t time_ms,
                   arguments.DurationMs("time", static_cast<int64_t>(draft->max_duration_ms)));
  draft->max_duration_ms = static_cast<uint64_t>(time_ms);
  draft->sync = arguments.Has("sync");
  if (arguments.Has("image")) draft->image = arguments.Get("image");
  if (draft->source.empty()) return absl::OkStatus();
  if (arguments.Has("processes")) {
    ASSIGN_OR_RETURN(const int64_t ranks, arguments.Number("processes", 1, common::kRanksMax, 1));
    draft->processes = static_cast<uint32_t>(ranks);
    draft->per_node = draft->device_total = 0;
    draft->max_nodes = draft->min_nodes;
  }
  if (arguments.Has("nodes")) {
    ASSIGN_OR_RETURN(const int64_t nodes, arguments.Number("nodes", 1, common::kNodesMax, 1));
    draft->min_nodes = draft->max_nodes = static_cast<uint32_t>(nodes);
  }
  if (arguments.Has("devices")) {
    draft->devices = arguments.Get("devices");
    draft->device_total = 0;
  }
  if (arguments.Has("restarts")) {
    ASSIGN_OR_RETURN(const int64_t restarts,
                     arguments.Number("restarts", 0, job::kRestarts.most, 0));
    draft->restarts = static_cast<uint32_t>(restarts);
  }
  if (arguments.Has("mixed-precision"))
    draft->env["ACCELERATE_MIXED_PRECISION"] = arguments.Get("mixed-precision");
  return absl::OkStatus();
}

absl::Status WriteNew(const std::string& path, const std::string& text, bool force) {
  if (force) {
    const absl::Status written = common::WriteFileDurably(path, text, 0644);
    if (written.ok()) return written;
    return common::MakeProblem(absl::StatusCode::kInternal,
                               {.code = "JC1601", .what = std::string(written.message())});
  }
  const common::UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const bool exists = !file.valid() && errno == EEXIST;
  const absl::Status written = file.valid() ? common::WriteAll(file.get(), text)
                                            : common::ErrnoStatus(StrCat("cannot create ", path));
  if (written.ok()) return written;
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1601",
       .what = exists ? StrCat(path, " exists") : std::string(written.message()),
       .fix = exists ? "--force overwrites it; -o FILE writes elsewhere"
                     : "-o FILE writes elsewhere"});
}

absl::StatusOr<int> Init(Session& session, const Arguments& arguments) {
  const std::string from = arguments.Get("from");
  const std::string file = arguments.words().empty() ? "" : arguments.words()[0];
  if (from.empty() && !file.empty()) {
    return Usage("JC1004", StrCat("what ", file, " is, only --from tells"),
                 StrCat("jobctl init --from sbatch ", file));
  }
  const std::string path = arguments.Get("output", "train.yaml");
  // Not after all the questions.
  if (path != "-" && !arguments.Has("force") && common::Exists(path))
    return WriteNew(path, "", false);
  ASSIGN_OR_RETURN(JobDraft draft, from.empty() ? FromAnswers(session, arguments)
                                                : FromLauncher(arguments, from, file));
  RETURN_IF_ERROR(TakeFlags(arguments, &draft));
  ASSIGN_OR_RETURN(const std::string text, JobFileOf(draft, path == "-" ? "train.yaml" : path));
  for (const std::string& each : draft.notes)
    session.Note(StrCat("note: ", common::Printable(each)));
  for (const std::string& each : draft.left_out)
    session.Note(StrCat("not taken over: ", common::Printable(each)));
  if (path == "-") {
    session.Print(text);
    return kExitOk;
  }
  RETURN_IF_ERROR(WriteNew(path, text, arguments.Has("force")));
  session.Note(StrCat("wrote ", path, "; next: jobctl plan ", path, "   jobctl submit ", path));
  return kExitOk;
}

}  // namespace

const Command kInitCommand = {
    .name = "init",
    .place = 40,
    .summary = "write a job file: from a few answers or another launcher's file",
    .arguments = "[FILE] | -- CMD…",
    .least = 0,
    .most = 1,
    .flags = kInitFlags,
    .rest = true,
    .completes = "file",
    .examples =
        "jobctl init\tasks what accelerate config asks, and writes train.yaml\n"
        "jobctl init --from sbatch train.sbatch\tnames each option that it does not take over\n"
        "jobctl init --from accelerate -- python train.py\tfrom accelerate's default_config.yaml\n"
        "jobctl init --from torchrun -- torchrun --nproc-per-node 8 train.py\tfrom a line, or a "
        "script's",
    .notes =
        "A flag answers its question. Without a terminal nothing is asked: --yes takes\n"
        "the defaults. A script is read, never run. The file is checked as submit does.",
    .run = Init};

}  // namespace muster::client
