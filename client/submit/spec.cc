#include "client/submit/spec.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/code/code_sync.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "client/help/command_notes.h"
#include "client/job_file/job_file.h"
#include "client/launchers/batch_file.h"
#include "client/session/session.h"
#include "client/session/spec_environment.h"
#include "client/submit/job_flags.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/files/files.h"
#include "common/job/shape.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

// The nodes, once those of a private coordinator are `ready`: a private worker registers a few
// milliseconds after its coordinator answers. After 5 s, returns them as they are.
template <typename Ready>
absl::StatusOr<v1::ListNodesResponse> NodesOnce(Session& session, Ready ready) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(v1::ListNodesResponse nodes, connection->ListNodes());
  for (int i = 0; session.is_private() && !ready(nodes) && i < 500; ++i) {
    usleep(10'000);
    ASSIGN_OR_RETURN(nodes, connection->ListNodes());
  }
  return nodes;
}

absl::StatusOr<v1::ListNodesResponse> RegisteredNodes(Session& session) {
  return NodesOnce(session,
                   [](const v1::ListNodesResponse& nodes) { return !nodes.nodes().empty(); });
}

// How many devices of the kind the best node has.
uint32_t MostDevices(const v1::ListNodesResponse& nodes, const std::string& kind) {
  uint32_t most = 0;
  for (const v1::NodeView& node : nodes.nodes()) {
    for (const v1::DeviceUse& use : node.uses())
      if (use.kind() == kind) most = std::max(most, use.total());
  }
  return most;
}

// The kinds that `wanted` may stand for, best first.
std::vector<std::string> KindsFor(const std::string& wanted) {
  if (wanted != "auto") return {wanted};
  std::vector<std::string> kinds;
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    if (!kind.is_host) kinds.emplace_back(kind.name);
  }
  kinds.emplace_back(common::HostKind().name);
  return kinds;
}

// How many devices of the kind the best node has; "auto": of the first available accelerator, or 1.
absl::StatusOr<uint32_t> DevicesOfANode(Session& session, const LaunchPlan& plan,
                                        v1::JobSpec* spec) {
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, RegisteredNodes(session));
  const std::string wanted =
      plan.per_node_of == "auto" && !plan.device_kind.empty() ? plan.device_kind : plan.per_node_of;
  for (const std::string& kind : KindsFor(wanted)) {
    const bool is_host = common::IsHostKind(kind);
    uint32_t most = MostDevices(nodes, kind);
    for (const v1::NodeView& node : nodes.nodes())
      if (is_host) most = std::max(most, node.record().facts().cores());
    if (most == 0) continue;
    // Without an accelerator, accelerate starts one process; torchrun's auto uses the cpu count.
    if (is_host && plan.launcher.starts_with("accelerate")) most = 1;
    spec->mutable_shape()->mutable_device()->set_kind(kind);
    return most;
  }
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1402",
                              .what = StrCat("no registered node has a ", wanted, ", so ",
                                             plan.launcher, " cannot count them"),
                              .fix = "give the number of processes, or check jobctl nodes ls"});
}

absl::Status ApplyPlan(Session& session, const LaunchPlan& plan, v1::JobSpec* spec) {
  spec->mutable_command()->Assign(plan.command.begin(), plan.command.end());
  v1::Shape* shape = spec->mutable_shape();
  shape->set_processes(plan.processes);
  shape->set_per_node(plan.per_node);
  shape->set_min_nodes(plan.min_nodes);
  shape->set_max_nodes(plan.max_nodes);
  if (!plan.device_kind.empty()) shape->mutable_device()->set_kind(plan.device_kind);
  if (!plan.per_node_of.empty()) {
    ASSIGN_OR_RETURN(const uint32_t count, DevicesOfANode(session, plan, spec));
    shape->set_per_node(count);
  }
  if (plan.restarts.has_value()) spec->set_restarts(*plan.restarts);
  if (plan.grace_ms.has_value()) spec->set_grace_ms(*plan.grace_ms);
  for (const auto& [name, value] : plan.env) (*spec->mutable_env())[name] = value;
  if (!plan.role.empty()) spec->set_role(plan.role);
  if (!plan.run_id.empty()) spec->set_run_id(plan.run_id);
  if (!plan.log_dir.empty()) spec->set_log_dir(plan.log_dir);
  if (plan.virtual_local_rank) spec->set_virtual_local_rank(true);
  if (const std::string line = DescribePlan(plan); !line.empty()) session.Note(line);
  return absl::OkStatus();
}

// The command of `jobctl run train.yaml`, which cannot be executed.
absl::Status CheckIsNoJobFile(const std::vector<std::string>& command) {
  if (command.size() != 1) return absl::OkStatus();
  const std::string& word = command[0];
  const bool has_its_name = word.ends_with(".yaml") || word.ends_with(".yml");
  if (!has_its_name || !common::Exists(word) || access(word.c_str(), X_OK) == 0)
    return absl::OkStatus();
  const std::string shown = common::Printable(word);
  return Usage("JC1004", StrCat(shown, " is a job file, and a command is meant here"),
               StrCat("jobctl submit ", shown, " && jobctl logs -f @last"));
}

absl::Status ApplyCommand(Session& session, const Arguments& arguments, v1::JobSpec* spec) {
  const std::string config = arguments.Get("accelerate-config");
  ASSIGN_OR_RETURN(const std::optional<LaunchPlan> plan,
                   ReadLauncherLine(arguments.rest(), Variable));
  if (plan.has_value()) {
    if (!config.empty()) {
      return Usage(
          "JC1004",
          StrCat("--accelerate-config cannot be combined with a ", plan->launcher, " command line"),
          "accelerate launch --config_file FILE …");
    }
    return ApplyPlan(session, *plan, spec);
  }
  if (!config.empty()) {
    ASSIGN_OR_RETURN(const LaunchPlan from_file,
                     PlanFromAccelerateConfig(config, arguments.rest(), Variable));
    return ApplyPlan(session, from_file, spec);
  }
  RETURN_IF_ERROR(CheckIsNoJobFile(arguments.rest()));
  spec->mutable_command()->Assign(arguments.rest().begin(), arguments.rest().end());
  return absl::OkStatus();
}

// Rejects `--sync .`: the next word would be taken for a job file or a command.
absl::Status CheckSyncWords(const Arguments& arguments) {
  if (!arguments.Has("sync") || !arguments.Get("sync").empty()) return absl::OkStatus();
  std::vector<std::string> words = arguments.words();
  words.insert(words.end(), arguments.rest().begin(), arguments.rest().end());
  std::error_code error;
  if (words.empty() || !std::filesystem::is_directory(words[0], error)) return absl::OkStatus();
  return Usage(
      "JC1004",
      StrCat("--sync has its directory in the same word, and ", words[0], " is a directory"),
      StrCat("--sync=", words[0]));
}

absl::StatusOr<CodeOptions> CodeOptionsOf(const Arguments& arguments, const v1::JobSpec& spec,
                                          std::optional<bool> sync_of_file) {
  if (arguments.Has("sync") && arguments.Has("no-sync")) {
    return Usage("JC1004", "--sync and --no-sync exclude each other", "give only one of them");
  }
  RETURN_IF_ERROR(CheckSyncWords(arguments));
  CodeOptions options;
  options.sync = sync_of_file;
  if (arguments.Has("sync")) options.sync = true;
  if (arguments.Has("no-sync")) options.sync = false;
  options.root = arguments.Get("sync");
  options.workdir_is_flag = arguments.Has("workdir");
  options.workdir = options.workdir_is_flag ? arguments.Get("workdir") : spec.workdir();
  options.here = WorkingDirectory();
  if (options.here.empty())
    return Usage("JC1107", "the directory that you are in does not exist anymore",
                 "cd to one that does");
  if (!arguments.words().empty() && arguments.words()[0] != "-") {
    const std::filesystem::path file = JoinedPath(options.here, arguments.words()[0]);
    options.file_directory = file.parent_path().string();
  }
  return options;
}

absl::Status AskWhetherToSend(Session& session, const CodeChoice& choice) {
  const std::string root = common::Printable(choice.root);
  return session.Confirm(StrCat("The job file wants ", root,
                                " sent with the job, which is outside of its own directory and of "
                                "this one (--sync=",
                                root, " sends it without a question). Send it?"));
}

// `asks_context`: whether code is sent may depend on the coordinator.
absl::StatusOr<CodeChoice> ChooseFor(Session& session, const CodeOptions& options,
                                     bool asks_context) {
  if (options.sync.has_value()) {
    if (*options.sync) return ChooseCode(options);
    return CodeChoice();
  }
  if (!asks_context || !IsOnAnotherHost(session.settings().server())) return CodeChoice();
  std::string refused;
  ASSIGN_OR_RETURN(CodeChoice choice, ChooseCodeByDefault(options, HomeDirectory(), &refused));
  if (choice.root.empty() && refused.empty()) return choice;
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  if (connection->server().protocol() < kCodeProtocol) return CodeChoice();
  if (!refused.empty()) {
    session.Note(StrCat("code: not sending ", common::Printable(refused),
                        ", which is or contains your home directory (--sync sends it, --no-sync "
                        "ends this note)"));
  }
  return choice;
}

void ApplyWorkdir(const CodeOptions& options, const CodeChoice& choice, v1::JobSpec* spec) {
  if (!choice.root.empty()) {
    spec->set_workdir(choice.workdir);
  } else if (options.workdir.empty() || options.workdir == ".") {
    spec->set_workdir(spec->has_container() ? "" : options.here);
  } else {
    spec->set_workdir(JoinedPath(options.here, options.workdir));
  }
}

// Checks the spec by the rules for the one that will be sent, before anything is sent.
absl::Status ValidateWithCode(const CodeChoice& choice, const v1::JobSpec& spec) {
  if (choice.root.empty()) return job::Validate(spec);
  v1::JobSpec complete = spec;
  const std::string any(64, '0');
  complete.mutable_code()->set_tree(any);
  complete.mutable_code()->set_manifest_bytes(1);
  complete.mutable_code()->set_placement(any);
  complete.mutable_code()->set_placement_bytes(1);
  return job::Validate(complete);
}

// A limit is never silently ignored.
absl::Status CheckEnforced(const Connection& connection) {
  const v1::GetServerResponse& server = connection.server();
  if (server.limits_ranks()) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1413",
       .what = StrCat("the coordinator at ", connection.endpoint(), " (", server.version(),
                      ") is an older version, which would ignore --cpus and --memory"),
       .fix = "install this release there, or omit the limit"});
}

// For launcher lines in a script that start one rank per device.
uint32_t MostOnANode(Session& session, const std::string& wanted) {
  const absl::StatusOr<v1::ListNodesResponse> nodes = RegisteredNodes(session);
  if (!nodes.ok()) return 1;
  for (const std::string& kind : KindsFor(wanted))
    if (const uint32_t most = MostDevices(*nodes, kind); most > 0) return most;
  return 1;
}

// A job file, or a batch script in its place.
absl::StatusOr<JobFile> LoadFile(Session& session, const Arguments& arguments, v1::JobSpec* spec,
                                 bool* is_script) {
  const std::string& path = arguments.words()[0];
  const std::string name = JobFileName(path);
  absl::StatusOr<std::string> read = ReadJobFile(path);
  const bool is_batch = read.ok() && (arguments.Get("from") == "sbatch" || IsSbatchScript(*read));
  if (!is_batch) RETURN_IF_ERROR(arguments.CheckMost(1));
  RETURN_IF_ERROR(read.status());
  std::string content = *std::move(read);
  if (is_batch) {
    *is_script = true;
    BatchScript script{.name = name, .content = content};
    script.arguments.assign(arguments.words().begin() + 1, arguments.words().end());
    script.arguments.insert(script.arguments.end(), arguments.rest().begin(),
                            arguments.rest().end());
    script.ignored = arguments.Listed("ignore");
    ASSIGN_OR_RETURN(BatchJob job, JobOfSbatch(script, Variable, [&](const std::string& kind) {
                       return MostOnANode(session, kind);
                     }));
    for (const std::string& each : job.notes)
      session.Note(StrCat("note: ", common::Printable(each)));
    for (const std::string& each : job.left_out)
      session.Note(StrCat("not taken over: ", common::Printable(each)));
    content = std::move(job.job_file);
  }
  return ParseJobFile(name, content, arguments.All("set"), spec);
}

// Flags override the file.
EnvironmentSent SentWith(const Arguments& arguments, const JobFile& file, const Session& session) {
  if (arguments.Has("clean-env")) return EnvironmentSent::kLeast;
  if (arguments.Has("env-from")) return EnvironmentSent::kAll;
  if (file.clean_env) return EnvironmentSent::kLeast;
  return file.env_from_shell ? EnvironmentSent::kAll : UsualOf(session);
}

absl::StatusOr<Submission> Build(Session& session, const Arguments& arguments, bool asks_context) {
  Submission result;
  v1::JobSpec& spec = result.spec;
  JobFile file;
  // The file's variables override the environment, so they are set aside until the environment is
  // known.
  v1::JobSpec from_file;
  bool is_script = false;  // the words after it are its arguments
  if (!arguments.words().empty()) {
    ASSIGN_OR_RETURN(file, LoadFile(session, arguments, &from_file, &is_script));
  } else if (arguments.Has("set")) {
    ASSIGN_OR_RETURN(file, ParseJobFile("--set", "{}", arguments.All("set"), &from_file));
  }
  uint32_t device_total = file.device_total;
  // An image is a different system: of this machine's environment it gets only what the job names.
  std::vector<std::string> left_out;
  if (!from_file.has_container() && !arguments.Has("image"))
    left_out = AddEnvironment(SentWith(arguments, file, session), session, &spec);
  spec.MergeFrom(from_file);
  if (arguments.has_rest() && !is_script) RETURN_IF_ERROR(ApplyCommand(session, arguments, &spec));
  // Flags take precedence over the launcher's command line and the job file.
  RETURN_IF_ERROR(
      EnterJobFlags(arguments, {.session = session, .spec = spec, .device_total = device_total}));
  RETURN_IF_ERROR(job::Complete(device_total, spec.mutable_shape()));
  ASSIGN_OR_RETURN(const CodeOptions options, CodeOptionsOf(arguments, spec, file.sync));
  ASSIGN_OR_RETURN(result.code, ChooseFor(session, options, asks_context));
  if (asks_context && result.code.is_far) RETURN_IF_ERROR(AskWhetherToSend(session, result.code));
  ApplyWorkdir(options, result.code, &spec);
  RETURN_IF_ERROR(ValidateWithCode(result.code, spec));
  NoteCommand(session, arguments, spec);
  if (asks_context) NoteLeftOut(session, left_out, spec);
  return result;
}

}  // namespace

absl::StatusOr<Submission> BuildSubmission(Session& session, const Arguments& arguments) {
  return Build(session, arguments, /*asks_context=*/true);
}

absl::StatusOr<v1::JobSpec> BuildSpec(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Submission built, Build(session, arguments, /*asks_context=*/false));
  LeaveOutCode(built.code, &built.spec);
  return std::move(built.spec);
}

absl::Status AwaitNodesFor(Session& session, const v1::JobSpec& spec) {
  if (spec.shape().has_limits()) {
    ASSIGN_OR_RETURN(Connection * connection, session.Connect());
    RETURN_IF_ERROR(CheckEnforced(*connection));
  }
  if (!spec.setup().empty() || !spec.outputs().empty() || spec.has_container()) {
    ASSIGN_OR_RETURN(Connection * connection, session.Connect());
    RETURN_IF_ERROR(CheckPrepares(*connection));
  }
  const std::string& kind = spec.shape().device().kind();
  const bool fits_anywhere = (kind.empty() || common::IsHostKind(kind)) &&
                             spec.shape().min_nodes() < 2 && !spec.shape().has_limits();
  if (!session.is_private() || fits_anywhere) return absl::OkStatus();
  return RegisteredNodes(session).status();
}

absl::Status AwaitNodes(Session& session) {
  if (!session.is_private()) return absl::OkStatus();
  const auto takes_jobs = [](const v1::NodeView& node) {
    return !node.clearing() && node.record().connected();
  };
  return NodesOnce(session,
                   [&](const v1::ListNodesResponse& nodes) {
                     return !nodes.nodes().empty() &&
                            std::all_of(nodes.nodes().begin(), nodes.nodes().end(), takes_jobs);
                   })
      .status();
}

}  // namespace muster::client
