#include "client/launchers/job_draft.h"

#include <algorithm>
#include <cctype>

#include "client/command_line/errors.h"
#include "client/job_file/job_file.h"
#include "common/base/status.h"
#include "common/job/shape.h"
#include "common/job/validate.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job.pb.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr size_t kCommentColumn = 34;

// A word that reads back as itself without quotes: not a number, a boolean or a list.
std::string YamlWord(const std::string& text) {
  constexpr std::string_view kSpecial[] = {"true", "false", "yes", "no", "on",
                                           "off",  "null",  "y",   "n"};
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool begins =
      !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '/');
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_./+=-").find(static_cast<char>(c)) != std::string_view::npos;
  });
  const bool special =
      std::find(std::begin(kSpecial), std::end(kSpecial), lower) != std::end(kSpecial);
  return begins && plain && !special ? text : common::JsonQuote(text);
}

std::string Milliseconds(uint64_t ms) {
  if (ms % 3'600'000 == 0) return StrCat(ms / 3'600'000, "h");
  if (ms % 60'000 == 0) return StrCat(ms / 60'000, "m");
  return ms % 1'000 == 0 ? StrCat(ms / 1'000, "s") : StrCat(ms, "ms");
}

class Writer {
 public:
  void Comment(std::string_view text) { StrAppend(&out_, "# ", common::Printable(text), "\n"); }
  void Section(std::string_view name) { StrAppend(&out_, name, ":\n"); }
  // `value` is YAML already.
  void Key(std::string_view indented_name, std::string_view value, std::string_view comment = "") {
    const std::string line = StrCat(indented_name, ": ", value);
    StrAppend(&out_, line);
    if (!comment.empty()) {
      StrAppend(&out_, std::string(kCommentColumn - std::min(kCommentColumn - 2, line.size()), ' '),
                "# ", comment);
    }
    out_ += '\n';
  }
  std::string Text() && { return std::move(out_); }

 private:
  std::string out_;
};

std::string CommandList(const std::vector<std::string>& command) {
  std::string list = "[";
  for (const std::string& word : command)
    StrAppend(&list, list.size() > 1 ? ", " : "", YamlWord(word));
  return list + "]";
}

void WriteResources(const JobDraft& draft, Writer& out) {
  out.Section("resources");
  if (draft.per_node > 0) {
    out.Key("  per_node", StrCat(draft.per_node), "ranks on each node");
  } else {
    out.Key("  processes", StrCat(std::max(1u, draft.processes)), "ranks in total");
  }
  const uint32_t most = std::max(draft.max_nodes, draft.min_nodes);
  if (draft.min_nodes > 0) {
    const bool fixed = most == draft.min_nodes;
    out.Key("  nodes", fixed ? StrCat(most) : common::JsonQuote(StrCat(draft.min_nodes, ":", most)),
            fixed ? "exactly as many" : "decided at each start");
  }
  if (!draft.cpus.empty()) out.Key("  cpus", draft.cpus, "each rank at most");
  if (!draft.memory.empty()) out.Key("  memory", draft.memory, "each rank at most");
  if (draft.devices.empty()) return;
  out.Key("  devices",
          YamlWord(draft.device_total == 0 ? draft.devices
                                           : StrCat(draft.devices, ":", draft.device_total)),
          draft.device_total == 0 ? "one for each rank" : "in total, shared evenly by the ranks");
}

void WriteSettings(const JobDraft& draft, Writer& out) {
  if (draft.restarts.has_value()) out.Key("restarts", StrCat(*draft.restarts), "when a rank fails");
  if (draft.grace_ms.has_value())
    out.Key("grace", Milliseconds(*draft.grace_ms), "between SIGTERM and SIGKILL");
  if (draft.max_duration_ms > 0)
    out.Key("max_duration", Milliseconds(draft.max_duration_ms), "running time of all attempts");
  if (draft.estimate_ms > 0)
    out.Key("estimate", Milliseconds(draft.estimate_ms), "how long it takes; never stops it");
  if (!draft.log_dir.empty()) out.Key("log_dir", YamlWord(draft.log_dir));
  if (!draft.role.empty()) out.Key("role", YamlWord(draft.role));
  if (!draft.run_id.empty()) out.Key("run_id", YamlWord(draft.run_id));
  if (draft.virtual_local_rank) out.Key("virtual_local_rank", "true");
  if (draft.env_from_shell) out.Key("env_from", "shell", "all of the submitter's environment");
  if (draft.env.empty()) return;
  out.Section("env");
  for (const auto& [name, value] : draft.env)
    out.Key(StrCat("  ", YamlWord(name)), common::JsonQuote(value));
}

// Checks the file as `submit` would, and that it means the same as the draft.
absl::Status Check(const std::string& file_name, const std::string& text, const JobDraft& draft) {
  v1::JobSpec spec;
  ASSIGN_OR_RETURN(const JobFile file, ParseJobFile(file_name, text, {}, &spec));
  const bool same = std::equal(spec.command().begin(), spec.command().end(), draft.command.begin(),
                               draft.command.end()) &&
                    spec.workdir() == draft.workdir &&
                    std::all_of(draft.env.begin(), draft.env.end(), [&](const auto& variable) {
                      const auto found = spec.env().find(variable.first);
                      return found != spec.env().end() && found->second == variable.second;
                    });
  if (!same) {
    return Usage("JC1101", "the command, its directory or a variable has bytes that are not UTF-8",
                 "rename files with such names: a job file is UTF-8");
  }
  if (draft.workdir.empty() || draft.sync) spec.set_workdir("/");
  RETURN_IF_ERROR(job::Complete(file.device_total, spec.mutable_shape()));
  return job::Validate(spec);
}

}  // namespace

void TakePlan(const LaunchPlan& plan, const CountDevices& on_a_node, JobDraft* draft) {
  draft->command = plan.command;
  draft->processes = plan.processes;
  draft->per_node = plan.per_node;
  draft->min_nodes = plan.min_nodes;
  draft->max_nodes = plan.max_nodes;
  draft->devices = plan.device_kind;
  if (!plan.per_node_of.empty()) {
    draft->per_node = std::max(1u, on_a_node(plan.per_node_of));
    draft->left_out.push_back(
        StrCat(plan.launcher, " counts the devices of each node (", plan.per_node_of,
               "); a job file has a number: resources.per_node is what this machine has"));
  }
  draft->restarts = plan.restarts;
  draft->grace_ms = plan.grace_ms;
  draft->env.insert(plan.env.begin(), plan.env.end());
  draft->role = plan.role;
  draft->run_id = plan.run_id;
  draft->log_dir = plan.log_dir;
  draft->virtual_local_rank = plan.virtual_local_rank;
  for (const std::string& flag : plan.overridden)
    draft->left_out.push_back(StrCat(flag, ": the coordinator decides"));
  draft->left_out.insert(draft->left_out.end(), plan.notices.begin(), plan.notices.end());
}

absl::StatusOr<std::string> JobFileOf(const JobDraft& draft, const std::string& file_name) {
  Writer out;
  out.Comment(StrCat("Written by jobctl init",
                     draft.source.empty() ? "" : StrCat(" from ", draft.source),
                     ". Where would it run: jobctl plan ", file_name));
  out.Comment("All keys: docs/jobfile.md, jobctl help job-file");
  if (!draft.name.empty()) out.Key("name", YamlWord(draft.name));
  out.Key("command", CommandList(draft.command), "of each rank");
  if (!draft.workdir.empty()) out.Key("workdir", YamlWord(draft.workdir));
  if (draft.sync) out.Key("sync", "true", "send this file's directory with the job");
  if (!draft.image.empty()) out.Key("image", YamlWord(draft.image), "that the ranks run in");
  WriteResources(draft, out);
  WriteSettings(draft, out);
  for (const std::string& each : draft.notes) out.Comment(each);
  if (!draft.left_out.empty()) out.Comment("Not taken over:");
  for (const std::string& each : draft.left_out) out.Comment(StrCat("  ", each));
  std::string text = std::move(out).Text();
  RETURN_IF_ERROR(Check(file_name, text, draft));
  return text;
}

}  // namespace muster::client
