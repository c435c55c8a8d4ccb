#include "common/job/validate.h"

#include <algorithm>
#include <csignal>
#include <set>
#include <string>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/job/code.h"
#include "common/job/labels.h"
#include "common/job/notify.h"
#include "common/job/refuse.h"
#include "common/job/rules.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::job {
namespace {

using common::Counted;
using common::StrCat;

bool HasNul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

constexpr size_t kEntryNameBytesMax = 63;
constexpr int kSecretsMax = 32;

bool IsNumber(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// A name becomes part of paths, and command lines must be able to tell it from a job number, @last
// and flags.
absl::Status CheckName(const std::string& name) {
  const bool good = name.size() <= common::kNameBytesMax && common::IsPathName(name) &&
                    !IsNumber(name) && name[0] != '-' &&
                    name.find_first_of("@ ") == std::string::npos;
  if (name.empty() || good) return absl::OkStatus();
  return Refuse("JC1103",
                StrCat("\"", common::PrintableStart(name, common::kNameBytesMax),
                       "\" is not a valid job name: a name is 1 to ", common::kNameBytesMax,
                       " bytes of UTF-8 without control or invisible characters, spaces, @ or /, "
                       "does not start with a dot or -, and is not a number"),
                "--name train-small");
}

// The coordinator's rule for names of projects and secrets; a secret's name becomes a file name.
bool IsEntryName(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kEntryNameBytesMax && is_plain(name[0]) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return is_plain(c) || c == '-' || c == '.' || c == '_' || c == '@';
         });
}

absl::Status CheckProjectAndSecrets(const v1::JobSpec& spec) {
  if (!spec.project().empty() && !IsEntryName(spec.project())) {
    return Refuse("JC1108",
                  StrCat("\"", common::Printable(spec.project()), "\" cannot be a project"),
                  "jobctl project ls lists them");
  }
  if (spec.secrets_size() > kSecretsMax) {
    return Refuse("JC1108", StrCat("the job asks for ", spec.secrets_size(), " secrets"),
                  StrCat("ask for ", kSecretsMax, " at most"));
  }
  std::set<std::string> seen;
  for (const std::string& name : spec.secrets()) {
    if (!IsEntryName(name)) {
      return Refuse("JC1108", StrCat("\"", common::Printable(name), "\" cannot be a secret's name"),
                    "jobctl secret ls lists yours");
    }
    if (!seen.insert(name).second) {
      return Refuse("JC1108", StrCat("secret ", name, " is named twice"), "name it once");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCommand(const v1::JobSpec& spec) {
  if (spec.command().empty() || spec.command(0).empty()) {
    return Refuse("JC1105", "the job has no command", "jobctl run -n 2 -- python train.py");
  }
  if (std::any_of(spec.command().begin(), spec.command().end(), HasNul)) {
    return Refuse("JC1108", "an argument of the command contains a NUL byte", "remove it");
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(const v1::Shape& shape) {
  if (shape.max_nodes() != 0 && shape.max_nodes() < shape.min_nodes()) {
    return Refuse("JC1104",
                  StrCat("nodes ", shape.min_nodes(), ":", shape.max_nodes(), " is an empty range"),
                  "MIN:MAX with MIN ≤ MAX");
  }
  const uint32_t most = std::max(shape.min_nodes(), shape.max_nodes());
  if (most > common::kNodesMax) {
    return Refuse("JC1104",
                  StrCat("a job may have at most ", common::kNodesMax, " nodes, not ", most),
                  "ask for fewer");
  }
  if (shape.processes() > 0 && shape.max_nodes() > shape.min_nodes()) {
    return Refuse("JC1104", "a range of nodes needs per_node, which determines the world size",
                  "resources.per_node: 4");
  }
  if (shape.processes() > 0 && shape.min_nodes() > shape.processes()) {
    return Refuse("JC1104",
                  StrCat(Counted(shape.processes(), "rank"), " cannot fill ",
                         Counted(shape.min_nodes(), "node")),
                  StrCat("-n ", shape.min_nodes()));
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const v1::DeviceConstraint& device) {
  if (device.count_per_rank() > kDevicesPerRankMax) {
    return Refuse("JC1104",
                  StrCat("a rank may have at most ", kDevicesPerRankMax, " devices, not ",
                         device.count_per_rank()),
                  "ask for fewer");
  }
  const std::string& kind = device.kind();
  if (!kind.empty() && common::FindDeviceKind(kind) == nullptr) {
    return Refuse("JC1104", StrCat("device kind \"", common::Printable(kind), "\" is unknown"),
                  StrCat("use ", common::DeviceKindNames(" or ")));
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const v1::RankLimits& limits) {
  const auto within = [](uint64_t value, Range range) {
    return value == 0 || (value >= static_cast<uint64_t>(range.least) &&
                          value <= static_cast<uint64_t>(range.most));
  };
  if (!within(limits.cpu_millis(), kCpuMillis)) {
    return Refuse("JC1108",
                  StrCat("a rank may be limited to ", common::Thousandths(kCpuMillis.least), " to ",
                         common::Thousandths(kCpuMillis.most), " processors, not ",
                         common::Thousandths(limits.cpu_millis())),
                  "--cpus 2, or omit it");
  }
  if (!within(limits.memory_bytes(), kMemoryBytes)) {
    return Refuse("JC1108",
                  StrCat("a rank may be limited to ", common::ExactBytes(kMemoryBytes.least),
                         " to ", common::ExactBytes(kMemoryBytes.most), " of memory, not ",
                         common::ExactBytes(limits.memory_bytes())),
                  "--memory 4GiB, or omit it");
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const v1::Shape& shape) {
  if (shape.processes() > 0 && shape.per_node() > 0) {
    return Refuse(
        "JC1104",
        StrCat("the job asks for ", Counted(shape.processes(), "rank"),
               " in total (processes) and for ", shape.per_node(), " on each node (per_node)"),
        "give either processes, or nodes and per_node");
  }
  RETURN_IF_ERROR(CheckNodes(shape));
  const uint64_t nodes = std::max<uint64_t>({shape.min_nodes(), shape.max_nodes(), 1});
  const uint64_t ranks = shape.per_node() > 0 ? nodes * shape.per_node() : shape.processes();
  if (ranks < 1 || ranks > common::kRanksMax) {
    return Refuse("JC1104",
                  StrCat("a job may have 1 to ", common::kRanksMax, " ranks, not ", ranks), "-n 2");
  }
  RETURN_IF_ERROR(CheckLimits(shape.limits()));
  return CheckDevice(shape.device());
}

absl::Status CheckVariable(const std::string& name, const std::string& value) {
  const std::string shown = StrCat("\"", common::Printable(name), "\"");
  if (name.empty() || name.find('=') != std::string::npos || !common::IsCleanUtf8(name)) {
    return Refuse("JC1106", StrCat(shown, " is not a valid name for an environment variable"),
                  "-e NAME=VALUE");
  }
  if (HasNul(value)) {
    return Refuse("JC1106",
                  StrCat("the value of environment variable ", shown, " contains a NUL byte"),
                  "remove it");
  }
  return absl::OkStatus();
}

// A map has no order: always report the first by name, so that everyone gets the same error.
absl::Status CheckEnvironment(const v1::JobSpec& spec) {
  absl::Status wrong;
  const std::string* first = nullptr;
  for (const auto& [name, value] : spec.env()) {
    if (first != nullptr && *first < name) continue;
    absl::Status checked = CheckVariable(name, value);
    if (checked.ok()) continue;
    wrong = std::move(checked);
    first = &name;
  }
  return wrong;
}

absl::Status CheckMetric(const v1::JobSpec& spec) {
  const std::string& metric = spec.metric();
  if (metric.size() > kMetricBytesMax || !common::IsCleanUtf8(metric)) {
    return Refuse("JC1108", StrCat("\"", common::Printable(metric), "\" cannot be a metric's name"),
                  StrCat("metric takes one of the names that the job reports, at most ",
                         kMetricBytesMax, " bytes: val/acc"));
  }
  return absl::OkStatus();
}

}  // namespace

namespace {

absl::Status CheckNoticeSignal(int32_t signal) {
  if (signal != SIGKILL && signal != SIGSTOP) return absl::OkStatus();
  return Refuse("JC1104", "notice_signal is one that a program cannot handle",
                "use USR1, USR2, HUP, INT or TERM");
}

}  // namespace

absl::Status CheckNumbers(const v1::JobSpec& spec) {
  struct Number {
    std::string_view key;  // as in a job file
    int64_t value;
    Range range;
    std::string_view unit = "";
  };
  constexpr std::string_view kMs = " ms", kBytes = " bytes";
  // A value too large for the signed type is too large for every range.
  const auto most_duration =
      static_cast<int64_t>(std::min<uint64_t>(spec.max_duration_ms(), INT64_MAX));
  const auto estimate = static_cast<int64_t>(std::min<uint64_t>(spec.estimate_ms(), INT64_MAX));
  const auto logs_keep =
      static_cast<int64_t>(std::min<uint64_t>(spec.logs_keep_bytes(), INT64_MAX));
  const Number numbers[] = {
      {"priority", spec.priority(), kPriority},
      {"restarts", spec.restarts(), kRestarts},
      {"node_loss_restarts", spec.node_loss_restarts(), kNodeLossRestarts},
      {"stop_after", spec.stop_after_ms(), kStopAfterMs, kMs},
      {"grace", spec.grace_ms(), kGraceMs, kMs},
      {"max_duration", most_duration, kMaxDurationMs, kMs},
      {"estimate", estimate, kEstimateMs, kMs},
      {"checkpoint.keep", spec.checkpoint().keep(), kCheckpointsKept},
      {"logs_keep", logs_keep, kLogsKeepBytes, kBytes},
      {"notice_signal", spec.notice_signal(), kSignal},
  };
  for (const auto& [key, value, range, unit] : numbers) {
    if (value == 0 || (value >= range.least && value <= range.most)) continue;
    std::string allowed = StrCat("a whole number from ", range.least, " to ", range.most);
    if (unit == kMs) {
      allowed = StrCat("from ", common::HumanDuration(range.least), " to ",
                       common::HumanDuration(range.most));
    } else if (unit == kBytes) {
      allowed =
          StrCat("from ", common::ExactBytes(range.least), " to ", common::ExactBytes(range.most));
    }
    return Refuse("JC1108", StrCat(key, " takes ", allowed, ", not ", value, unit),
                  "choose a value in this range, or omit it");
  }
  return absl::OkStatus();
}

absl::Status CheckSize(const v1::JobSpec& spec) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes <= common::kSpecBytesMax) return absl::OkStatus();
  return Refuse("JC1102",
                StrCat("the job with its environment is ", bytes, " bytes; the limit is ",
                       common::kSpecBytesMax, " (", common::kSpecBytesMax / 1024, " KiB)"),
                "use --clean-env, and -e for the variables that the job needs");
}

absl::Status Validate(const v1::JobSpec& spec) {
  RETURN_IF_ERROR(CheckSize(spec));
  RETURN_IF_ERROR(CheckName(spec.name()));
  RETURN_IF_ERROR(CheckCommand(spec));
  RETURN_IF_ERROR(CheckShape(spec.shape()));
  RETURN_IF_ERROR(CheckCode(spec));
  RETURN_IF_ERROR(CheckSetup(spec));
  RETURN_IF_ERROR(CheckOutputs(spec));
  RETURN_IF_ERROR(CheckContainer(spec));
  RETURN_IF_ERROR(CheckEnvironment(spec));
  RETURN_IF_ERROR(CheckLabels(spec));
  RETURN_IF_ERROR(CheckProjectAndSecrets(spec));
  RETURN_IF_ERROR(CheckNotify(spec));
  RETURN_IF_ERROR(CheckMetric(spec));
  RETURN_IF_ERROR(CheckNoticeSignal(spec.notice_signal()));
  return CheckNumbers(spec);
}

}  // namespace muster::job
