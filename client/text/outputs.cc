#include "client/text/outputs.h"

#include <algorithm>

#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr std::string_view kOutputsPrefix = "outputs: ";  // of a node's newest problem

const v1::Attempt* FindAttempt(const v1::JobRecord& job, uint32_t number) {
  for (const v1::Attempt& attempt : job.attempts()) {
    if (attempt.number() == number) return &attempt;
  }
  return nullptr;
}

absl::Status NotHereYet(const v1::JobRecord& job) {
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = "JC1721",
                              .what = StrCat("the outputs of ", job.name(), " are not here yet"),
                              .why = StrCat("they come back when an attempt ends, and the job is ",
                                            StateName(job.state())),
                              .fix = StrCat("jobctl wait ", job.name(),
                                            ", then copy again; what it has now: jobctl cp --live ",
                                            job.name(), ":PATH DEST")});
}

absl::Status NoOutputs(const v1::JobRecord& job, std::optional<uint32_t> attempt) {
  std::string why, fix = StrCat("jobctl show ", job.name(), "; jobctl events ", job.name());
  if (job.spec().outputs().empty()) {
    why = "its spec names none";
    fix = "name the directories and files that shall come back: outputs: in the job file";
  } else if (job.attempts_size() > 0) {
    const uint32_t number = attempt.value_or(job.attempts().rbegin()->number());
    for (const std::string& note : OutputsNotes(job, number)) {
      common::StrAppend(&why, why.empty() ? "" : "; ", note);
    }
  }
  return common::MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1720",
       .what = StrCat("job ", job.name(), " has no outputs",
                      attempt ? StrCat(" of attempt ", *attempt) : std::string()),
       .why = why,
       .fix = fix});
}

}  // namespace

AttemptOfJob ParseAttemptOfJob(std::string_view text) {
  constexpr size_t kDigitsMax = 9;
  const size_t at = text.rfind('@');
  const std::string_view number = at == std::string_view::npos ? "" : text.substr(at + 1);
  const bool is_number =
      !number.empty() && number.size() <= kDigitsMax &&
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (at == 0 || !is_number) return {std::string(text), std::nullopt};
  return {std::string(text.substr(0, at)), static_cast<uint32_t>(std::stoul(std::string(number)))};
}

absl::StatusOr<v1::Checkpoint> FindOutputs(const v1::JobRecord& job,
                                           std::optional<uint32_t> attempt) {
  const v1::Checkpoint* found = nullptr;
  for (const v1::Checkpoint& outputs : job.outputs()) {
    if (outputs.state() != v1::CHECKPOINT_STATE_COMMITTED) continue;
    if (!attempt || outputs.attempt() == *attempt) found = &outputs;
  }
  if (found != nullptr) return *found;
  const bool may_come =
      !attempt || (job.attempts_size() > 0 && *attempt == job.attempts().rbegin()->number());
  if (!IsOver(job.state()) && may_come && !job.spec().outputs().empty()) return NotHereYet(job);
  return NoOutputs(job, attempt);
}

std::string OutputsNode(const v1::JobRecord& job, uint32_t attempt, uint32_t part) {
  if (const v1::Attempt* found = FindAttempt(job, attempt); found != nullptr) {
    for (const v1::NodePart& node : found->parts()) {
      if (node.group_rank() == part) return node.node();
    }
  }
  return StrCat("node ", part);
}

std::string OutputsNodes(const v1::JobRecord& job, const v1::Checkpoint& outputs) {
  constexpr int kMissingNamedMax = 5;
  const auto& present = outputs.parts_present();
  if (static_cast<uint32_t>(present.size()) >= outputs.parts())
    return common::Counted(outputs.parts(), "node");
  std::string missing;
  int named = 0;
  for (uint32_t part = 0; part < outputs.parts() && named <= kMissingNamedMax; ++part) {
    if (std::find(present.begin(), present.end(), part) != present.end()) continue;
    const std::string name =
        named++ < kMissingNamedMax ? OutputsNode(job, outputs.attempt(), part) : std::string("…");
    common::StrAppend(&missing, missing.empty() ? "" : ", ", name);
  }
  return StrCat(present.size(), " of ", common::Counted(outputs.parts(), "node"),
                ": nothing came back from ", missing);
}

std::vector<std::string> OutputsNotes(const v1::JobRecord& job, uint32_t attempt) {
  std::vector<std::string> notes;
  const v1::Attempt* found = FindAttempt(job, attempt);
  if (found == nullptr) return notes;
  for (const v1::NodePart& part : found->parts()) {
    const std::string_view problem = part.checkpoint_error();
    if (!problem.starts_with(kOutputsPrefix)) continue;
    notes.push_back(
        StrCat(part.node(), ": ", common::Printable(problem.substr(kOutputsPrefix.size()))));
  }
  return notes;
}

v1::CheckpointReference OutputsReference(const v1::JobRecord& job, const v1::Checkpoint& outputs) {
  v1::CheckpointReference reference;
  reference.set_job(std::to_string(job.id()));
  reference.set_outputs(true);
  reference.set_attempt(outputs.attempt());
  return reference;
}

}  // namespace muster::client
