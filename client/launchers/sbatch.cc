// sbatch scripts: the options that decide shape, time and name; the others are named one by one.
#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/command_line/errors.h"
#include "client/job_file/job_file.h"
#include "client/launchers/launch_script.h"
#include "client/launchers/sbatch_options.h"
#include "client/text/record_text.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

struct BatchOptions {
  uint32_t min_nodes = 0, max_nodes = 0;
  uint32_t tasks = 0;
  uint32_t tasks_per_node = 0;
  uint32_t cpus_per_task = 0;
  uint64_t node_kib = 0, cpu_kib = 0;  // --mem, --mem-per-cpu
  std::string memory;                  // as --mem was written
  std::string gpu_model;
  uint32_t gpus = 0;  // in total
  uint32_t gpus_per_node = 0;
  uint32_t gpus_per_task = 0;
  uint64_t time_ms = 0;
  uint64_t least_time_ms = 0;
  std::string other_gres;  // what --gres asks for in addition to GPUs
  std::string name;
  std::string workdir;
  std::string exported;  // --export, as it was written
};

bool ReadCount(std::string_view text, uint32_t* count) {
  return absl::SimpleAtoi(common::ToAbsl(text), count) && *count > 0 && *count <= common::kRanksMax;
}

// "2", "2-4"
bool ReadNodeRange(std::string_view text, BatchOptions* options) {
  const size_t dash = text.find('-');
  if (!ReadCount(text.substr(0, dash), &options->min_nodes)) return false;
  options->max_nodes = options->min_nodes;
  return dash == std::string_view::npos || (ReadCount(text.substr(dash + 1), &options->max_nodes) &&
                                            options->max_nodes >= options->min_nodes);
}

// "4", "a100:4", "gpu:4", "gpu:a100:4", "gpu", the last part being the number if it is one.
bool ReadGpus(std::string_view text, BatchOptions* options, uint32_t* count) {
  std::vector<std::string> parts = absl::StrSplit(common::ToAbsl(text), ':');
  if (parts[0] == "gpu" || parts[0] == "gres/gpu") parts.erase(parts.begin());
  *count = 1;
  if (!parts.empty() && ReadCount(parts.back(), count)) parts.pop_back();
  if (parts.size() > 1) return false;
  if (!parts.empty()) options->gpu_model = parts[0];
  return *count > 0;
}

// "gpu:2,shard:4": a list.
bool ReadGres(std::string_view text, BatchOptions* options) {
  for (const absl::string_view part : absl::StrSplit(common::ToAbsl(text), ',')) {
    const std::string_view each = common::FromAbsl(part);
    const std::string_view kind = each.substr(0, each.find(':'));
    if (kind.empty()) return false;
    if (kind == "gpu" || kind == "gres/gpu") {
      if (!ReadGpus(each, options, &options->gpus_per_node)) return false;
    } else {
      common::StrAppend(&options->other_gres, options->other_gres.empty() ? "" : ",", each);
    }
  }
  return true;
}

// "4G", "4GB", "512" (megabytes): Slurm's units are powers of 1,024. 0: all that the node has.
bool ReadBatchMemory(std::string_view text, uint64_t* kib) {
  constexpr std::string_view kUnits = "KMGT";
  size_t power = 1;
  if (!text.empty()) {
    if (text.size() > 1 && (text.back() == 'B' || text.back() == 'b')) text.remove_suffix(1);
    const size_t unit = kUnits.find(absl::ascii_toupper(static_cast<unsigned char>(text.back())));
    if (unit != std::string_view::npos) {
      power = unit;
      text.remove_suffix(1);
    }
  }
  if (!absl::SimpleAtoi(common::ToAbsl(text), kib) || *kib > 1'000'000'000) return false;
  *kib <<= 10 * power;
  return true;
}

// minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]
bool ReadBatchTime(std::string_view text, uint64_t* milliseconds) {
  if (text == "UNLIMITED" || text == "INFINITE" || text == "0") return true;
  uint64_t days = 0;
  const size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    if (!absl::SimpleAtoi(common::ToAbsl(text.substr(0, dash)), &days) || days > 10'000)
      return false;
    text.remove_prefix(dash + 1);
  }
  std::vector<uint64_t> numbers;
  for (const absl::string_view part : absl::StrSplit(common::ToAbsl(text), ':')) {
    numbers.emplace_back();
    if (!absl::SimpleAtoi(part, &numbers.back()) || numbers.back() > 1'000'000) return false;
  }
  if (numbers.size() > 3) return false;
  const bool from_hours = dash != std::string_view::npos || numbers.size() == 3;
  if (!from_hours) numbers.insert(numbers.begin(), 0);
  numbers.resize(3);
  *milliseconds = (((days * 24 + numbers[0]) * 60 + numbers[1]) * 60 + numbers[2]) * uint64_t{1000};
  return true;
}

struct BatchOption {
  std::string_view name;
  char letter;
  bool (*take)(std::string_view value, BatchOptions* options);
};
constexpr BatchOption kBatchOptions[] = {
    {"nodes", 'N', ReadNodeRange},
    {"ntasks", 'n', [](auto value, auto* o) { return ReadCount(value, &o->tasks); }},
    {"ntasks-per-node", 0,
     [](auto value, auto* o) { return ReadCount(value, &o->tasks_per_node); }},
    {"cpus-per-task", 'c', [](auto value, auto* o) { return ReadCount(value, &o->cpus_per_task); }},
    {"mem", 0,
     [](auto value, auto* o) {
       o->memory = std::string(value);
       return ReadBatchMemory(value, &o->node_kib);
     }},
    {"mem-per-cpu", 0, [](auto value, auto* o) { return ReadBatchMemory(value, &o->cpu_kib); }},
    {"gpus", 'G', [](auto value, auto* o) { return ReadGpus(value, o, &o->gpus); }},
    {"gpus-per-node", 0, [](auto value, auto* o) { return ReadGpus(value, o, &o->gpus_per_node); }},
    {"gpus-per-task", 0, [](auto value, auto* o) { return ReadGpus(value, o, &o->gpus_per_task); }},
    {"gres", 0, ReadGres},
    {"time", 't', [](auto value, auto* o) { return ReadBatchTime(value, &o->time_ms); }},
    {"time-min", 0, [](auto value, auto* o) { return ReadBatchTime(value, &o->least_time_ms); }},
    {"job-name", 'J', [](auto value, auto* o) { return !(o->name = value).empty(); }},
    {"chdir", 'D', [](auto value, auto* o) { return !(o->workdir = value).empty(); }},
    {"export", 0, [](auto value, auto* o) { return !(o->exported = value).empty(); }},
};

const BatchOption* FindBatchOption(std::string_view name) {
  for (const BatchOption& option : kBatchOptions) {
    if (option.name == name || (name.size() == 1 && option.letter == name[0])) return &option;
  }
  return nullptr;
}

// One "#SBATCH" line may hold several options.
absl::Status TakeDirective(const std::string& text, int number, BatchOptions* options,
                           JobDraft* draft) {
  const std::string plain = text.substr(0, text.find(" #"));
  std::vector<std::string> words = PlainShellWords(plain);
  // No shell reads these lines, so "-w node[1-3]" is a word like any other.
  if (words.empty()) words = absl::StrSplit(plain, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool is_long = word.starts_with("--");
    const size_t equals = word.find('=');
    std::string name = is_long ? word.substr(2, equals == std::string::npos ? equals : equals - 2)
                               : word.substr(std::min<size_t>(1, word.size()), 1);
    const bool is_option = word.starts_with('-');
    if (!is_option) name = word;  // "hetjob"
    const BatchOption* option = is_option ? FindBatchOption(name) : nullptr;
    if (option == nullptr) {
      // Its value, if it has one, is not an option.
      std::string shown = word;
      if (i + 1 < words.size() && !words[i + 1].starts_with('-')) shown += " " + words[++i];
      LeaveOutOption(name, StrCat("line ", number, ": ", shown), draft);
      continue;
    }
    std::string value =
        is_long ? (equals == std::string::npos ? "" : word.substr(equals + 1)) : word.substr(2);
    if (value.empty() && i + 1 < words.size()) value = words[++i];
    if (!option->take(value, options)) {
      return Usage("JC1010",
                   StrCat("line ", number, ": --", option->name, " of sbatch cannot be \"", value,
                          "\" here"),
                   "correct it, or remove the line and say it with a flag of jobctl's");
    }
  }
  return absl::OkStatus();
}

// The variables that Slurm would set for the script's commands.
std::map<std::string, std::string> BatchVariables(const BatchOptions& options) {
  std::map<std::string, std::string> variables;
  const uint32_t nodes = std::max(1u, options.min_nodes);
  const uint32_t per_node = options.tasks_per_node;
  const uint32_t tasks = options.tasks > 0 ? options.tasks : nodes * std::max(1u, per_node);
  variables["SLURM_NNODES"] = variables["SLURM_JOB_NUM_NODES"] = StrCat(nodes);
  variables["SLURM_NTASKS"] = variables["SLURM_NPROCS"] = StrCat(tasks);
  if (per_node > 0) variables["SLURM_NTASKS_PER_NODE"] = StrCat(per_node);
  if (options.cpus_per_task > 0) variables["SLURM_CPUS_PER_TASK"] = StrCat(options.cpus_per_task);
  const uint32_t gpus = options.gpus_per_node > 0 ? options.gpus_per_node : options.gpus / nodes;
  if (gpus > 0) variables["SLURM_GPUS_ON_NODE"] = variables["SLURM_GPUS_PER_NODE"] = StrCat(gpus);
  return variables;
}

void ShapeOf(const BatchOptions& options, JobDraft* draft) {
  uint32_t least = options.min_nodes, most = options.max_nodes;
  // If nothing else determines the number of nodes, tasks and tasks per node do.
  if (least == 0 && options.tasks > 0 && options.tasks_per_node > 0)
    least = most = (options.tasks - 1) / options.tasks_per_node + 1;
  // A launcher's line has its own number of ranks, and sbatch determines the nodes.
  const bool by_launcher = draft->per_node > 0 || draft->processes > 0;
  if (least > draft->min_nodes) {
    draft->min_nodes = least;
    draft->max_nodes = most;
  }
  if (!by_launcher && options.tasks > 0) {
    draft->processes = options.tasks;
  } else if (!by_launcher) {
    draft->per_node = std::max(1u, options.tasks_per_node);
    draft->min_nodes = std::max(1u, draft->min_nodes);
    draft->max_nodes = std::max(draft->max_nodes, draft->min_nodes);
  }
  // Otherwise the number of ranks would depend on the number of nodes at each start.
  if (draft->per_node == 0 && draft->max_nodes > draft->min_nodes) {
    draft->left_out.push_back(StrCat("--nodes ", draft->min_nodes, "-", draft->max_nodes, ": ",
                                     draft->min_nodes, ", as the number of ranks is fixed"));
    draft->max_nodes = draft->min_nodes;
  }
}

// Slurm limits tasks and nodes, a job file limits each rank; the draft's notes name the
// differences.
void LimitsOf(const BatchOptions& options, bool by_launcher, JobDraft* draft) {
  const auto leave_out = [draft](const std::string& option, std::string_view whose) {
    draft->left_out.push_back(StrCat(option, ": it is of ", whose,
                                     "; resources.cpus and resources.memory limit each rank"));
  };
  const auto size = [](uint64_t kib) {
    std::string text = common::ExactBytes(kib << 10);
    text.erase(text.find(' '), 1);
    return text;
  };
  if (options.cpus_per_task > 0) {
    if (by_launcher) {
      leave_out(StrCat("--cpus-per-task=", options.cpus_per_task),
                "a task, whose launcher starts several ranks");
    } else {
      draft->cpus = StrCat(options.cpus_per_task);
    }
  }
  const uint64_t task_kib = options.cpu_kib * std::max(1u, options.cpus_per_task);
  if (task_kib > 0) {
    if (by_launcher) {
      leave_out("--mem-per-cpu", "a task, whose launcher starts several ranks");
    } else {
      draft->memory = size(task_kib);
    }
  }
  if (options.node_kib == 0) return;
  if (!by_launcher && draft->per_node == 1) {
    draft->memory = size(options.node_kib);
  } else {
    leave_out(StrCat("--mem=", options.memory), "all ranks of a node together");
  }
}

void DevicesOf(const BatchOptions& options, JobDraft* draft) {
  if (!options.other_gres.empty())
    draft->left_out.push_back(
        StrCat("--gres=", options.other_gres, ": nodes offer no such resource here"));
  const uint64_t nodes = std::max(1u, draft->min_nodes);
  const uint64_t ranks = draft->per_node > 0 ? draft->per_node * nodes : draft->processes;
  uint64_t total = options.gpus;
  if (options.gpus_per_node > 0) total = options.gpus_per_node * nodes;
  if (options.gpus_per_task > 0) total = options.gpus_per_task * ranks;
  if (total == 0) {
    if (draft->devices.empty()) draft->devices = common::HostKind().name;
    return;
  }
  draft->devices = options.gpu_model.empty() ? "gpu" : options.gpu_model;
  if (total == ranks || draft->max_nodes > draft->min_nodes) return;
  if (total % std::max<uint64_t>(1, ranks) == 0) {
    draft->device_total = static_cast<uint32_t>(std::min<uint64_t>(total, common::kRanksMax));
  } else {
    draft->left_out.push_back(
        StrCat(total, " GPUs for ", ranks, " ranks: they cannot be shared evenly; one each"));
  }
}

// --export: "ALL,A=1". Ranks get the submitter's environment.
void ExportsOf(const BatchOptions& options, JobDraft* draft) {
  for (const absl::string_view each :
       absl::StrSplit(common::ToAbsl(options.exported), ',', absl::SkipEmpty())) {
    const std::vector<std::string> pair = absl::StrSplit(each, absl::MaxSplits('=', 1));
    if (pair.size() == 2 && !pair[0].empty()) {
      draft->env[pair[0]] = pair[1];
    } else if (each == "ALL") {
      draft->env_from_shell = true;
    } else {
      LeaveOutOption("export", StrCat("--export=", options.exported), draft);
      return;
    }
  }
}

// The arguments that a script reads as $1, $2, … and "$@".
void AddArguments(const std::vector<std::string>& arguments,
                  std::map<std::string, std::string>* variables) {
  constexpr std::string_view kPlain = "./:=,+@%-_";
  std::string all;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_plain =
        std::all_of(arguments[i].begin(), arguments[i].end(), [&](unsigned char c) {
          return std::isalnum(c) != 0 ||
                 kPlain.find(static_cast<char>(c)) != std::string_view::npos;
        });
    if (is_plain) (*variables)[StrCat(i + 1)] = arguments[i];
    common::StrAppend(&all, i == 0 ? "" : " ", ShellQuote(arguments[i]));
  }
  (*variables)["@"] = (*variables)["*"] = all;
}

}  // namespace

absl::Status TakeSbatch(std::string_view content, const std::vector<std::string>& arguments,
                        const Environment& environment, const CountDevices& on_a_node,
                        JobDraft* draft) {
  BatchOptions options;
  int number = 0;
  // sbatch stops reading its options at the first command.
  for (const absl::string_view raw : absl::StrSplit(common::ToAbsl(content), '\n')) {
    ++number;
    absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (!line.empty() && line[0] != '#') break;
    if (!absl::ConsumePrefix(&line, "#SBATCH") || line.empty() || !absl::ascii_isspace(line[0]))
      continue;
    RETURN_IF_ERROR(TakeDirective(std::string(absl::StripLeadingAsciiWhitespace(line)), number,
                                  &options, draft));
  }
  const auto take_srun = [&options](std::string_view name, std::string_view value) {
    const BatchOption* option = FindBatchOption(name);
    return option != nullptr && (value.empty() || option->take(value, &options));
  };
  std::map<std::string, std::string> variables = BatchVariables(options);
  AddArguments(arguments, &variables);
  RETURN_IF_ERROR(
      TakeScript(content, std::move(variables), take_srun, environment, on_a_node, draft));
  ExportsOf(options, draft);
  const bool by_launcher = draft->per_node > 0 || draft->processes > 0;
  ShapeOf(options, draft);
  LimitsOf(options, by_launcher, draft);
  DevicesOf(options, draft);
  draft->max_duration_ms = options.time_ms;
  draft->estimate_ms = options.least_time_ms;
  if (!options.name.empty()) draft->name = options.name;
  if (!options.workdir.empty()) draft->workdir = options.workdir;
  if (options.cpus_per_task > 0)
    draft->env.try_emplace("OMP_NUM_THREADS", StrCat(options.cpus_per_task));
  return absl::OkStatus();
}

}  // namespace muster::client
