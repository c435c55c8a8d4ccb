#include "client/submit/job_flags.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/command_line/arguments.h"
#include "client/job_file/job_file.h"
#include "client/session/session.h"
#include "client/session/spec_environment.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/job/labels.h"
#include "common/job/rules.h"
#include "common/job/shape.h"
#include "common/text/strings.h"

namespace muster::client {

absl::Status EnterProcesses(const Arguments& arguments, JobInMaking job) {
  ASSIGN_OR_RETURN(const int64_t processes, arguments.Number("processes", 1, common::kRanksMax, 1));
  v1::Shape* shape = job.spec.mutable_shape();
  const uint32_t on_line = shape->per_node() > 0 && shape->min_nodes() == shape->max_nodes()
                               ? shape->per_node() * std::max<uint32_t>(1, shape->min_nodes())
                               : shape->processes();
  if (arguments.has_rest() && on_line > 1 && on_line != processes) {
    job.session.Note(common::StrCat("note: -n ", processes, " overrides the ", on_line,
                                    " ranks of the launcher's command line"));
  }
  shape->set_processes(static_cast<uint32_t>(processes));
  shape->set_per_node(0);
  // MIN:MAX nodes need per_node; a total does not combine with a range.
  if (shape->min_nodes() != shape->max_nodes()) {
    shape->set_min_nodes(0);
    shape->set_max_nodes(0);
  }
  return absl::OkStatus();
}

absl::Status EnterNodes(const Arguments& arguments, JobInMaking job) {
  ASSIGN_OR_RETURN(const int64_t nodes, arguments.Number("nodes", 1, common::kNodesMax, 1));
  job.spec.mutable_shape()->set_min_nodes(static_cast<uint32_t>(nodes));
  job.spec.mutable_shape()->set_max_nodes(static_cast<uint32_t>(nodes));
  return absl::OkStatus();
}

absl::Status EnterDevices(const Arguments& arguments, JobInMaking job) {
  v1::Shape* shape = job.spec.mutable_shape();
  shape->clear_device();
  return job::ParseDevices(arguments.Get("devices"), shape->mutable_device(), &job.device_total);
}

absl::Status EnterCpus(const Arguments& arguments, JobInMaking job) {
  return job::ParseCpus(arguments.Get("cpus"), job.spec.mutable_shape()->mutable_limits());
}

absl::Status EnterMemory(const Arguments& arguments, JobInMaking job) {
  return job::ParseRankMemory(arguments.Get("memory"), job.spec.mutable_shape()->mutable_limits());
}

absl::Status EnterEnv(const Arguments& arguments, JobInMaking job) {
  return AddVariables(arguments.All("env"), &job.spec);
}

absl::Status EnterName(const Arguments& arguments, JobInMaking job) {
  job.spec.set_name(arguments.Get("name"));
  return absl::OkStatus();
}

absl::Status EnterLabels(const Arguments& arguments, JobInMaking job) {
  for (const std::string& text : arguments.All("label")) {
    ASSIGN_OR_RETURN(auto label, job::ParseLabel(text));
    (*job.spec.mutable_labels())[std::move(label.first)] = std::move(label.second);
  }
  return absl::OkStatus();
}

absl::Status EnterProject(const Arguments& arguments, JobInMaking job) {
  job.spec.set_project(arguments.Get("project"));
  return absl::OkStatus();
}

absl::Status EnterSecrets(const Arguments& arguments, JobInMaking job) {
  for (const std::string& secret : arguments.All("secret")) job.spec.add_secrets(secret);
  return absl::OkStatus();
}

absl::Status EnterRestarts(const Arguments& arguments, JobInMaking job) {
  ASSIGN_OR_RETURN(const int64_t restarts,
                   arguments.Number("restarts", job::kRestarts.least, job::kRestarts.most, 0));
  job.spec.set_restarts(static_cast<uint32_t>(restarts));
  return absl::OkStatus();
}

absl::Status EnterPriority(const Arguments& arguments, JobInMaking job) {
  ASSIGN_OR_RETURN(const int64_t priority,
                   arguments.Number("priority", job::kPriority.least, job::kPriority.most, 0));
  job.spec.set_priority(static_cast<int32_t>(priority));
  return absl::OkStatus();
}

absl::Status EnterTime(const Arguments& arguments, JobInMaking job) {
  ASSIGN_OR_RETURN(const int64_t time_ms, arguments.DurationMs("time", 0));
  job.spec.set_max_duration_ms(static_cast<uint64_t>(time_ms));
  return absl::OkStatus();
}

absl::Status EnterEstimate(const Arguments& arguments, JobInMaking job) {
  ASSIGN_OR_RETURN(const int64_t estimate_ms, arguments.DurationMs("estimate", 0));
  job.spec.set_estimate_ms(static_cast<uint64_t>(estimate_ms));
  return absl::OkStatus();
}

absl::Status EnterGrace(const Arguments& arguments, JobInMaking job) {
  ASSIGN_OR_RETURN(const int64_t grace_ms, arguments.DurationMs("grace", 0));
  // 0 means the default, so the shortest possible grace stands for none.
  job.spec.set_grace_ms(static_cast<uint32_t>(std::clamp<int64_t>(grace_ms, 1, UINT32_MAX)));
  return absl::OkStatus();
}

absl::Status EnterSetup(const Arguments& arguments, JobInMaking job) {
  const std::vector<std::string> setup = ScriptCommand(arguments.Get("setup"));
  job.spec.mutable_setup()->Assign(setup.begin(), setup.end());
  return absl::OkStatus();
}

absl::Status EnterOutputs(const Arguments& arguments, JobInMaking job) {
  for (const std::string& path : arguments.All("outputs")) job.spec.add_outputs(path);
  return absl::OkStatus();
}

absl::Status EnterImage(const Arguments& arguments, JobInMaking job) {
  job.spec.mutable_container()->set_image(arguments.Get("image"));
  return absl::OkStatus();
}

absl::Status EnterEventDirectories(const Arguments& arguments, JobInMaking job) {
  for (const std::string& directory : arguments.All("tb-dir"))
    job.spec.add_tensorboard_dirs(directory);
  return absl::OkStatus();
}

absl::Status EnterJobFlags(const Arguments& arguments, JobInMaking job) {
  for (const JobFlag& each : kJobFlags) {
    if (each.enter == nullptr || !arguments.Has(each.flag.name)) continue;
    RETURN_IF_ERROR(each.enter(arguments, job));
  }
  return absl::OkStatus();
}

}  // namespace muster::client
