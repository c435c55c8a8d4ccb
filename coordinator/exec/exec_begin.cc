// exec_begin: from the person's request to a node, with the permission check.
#include <unistd.h>

#include <utility>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/state.h"
#include "coordinator/exec/exec.h"
#include "coordinator/identity/ownership.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

absl::Status NoRankRuns(const v1::JobRecord& job, std::string what) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1208", .what = std::move(what), .fix = StrCat("jobctl why ", job.name())});
}

absl::Status CheckCommand(const v1::ExecStart& start) {
  if (start.command_size() > 0 && start.ByteSizeLong() <= kExecMessageBytesMax)
    return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1004",
       .what = start.command_size() == 0
                   ? "there is no command"
                   : StrCat("the command is longer than ", kExecMessageBytesMax, " bytes"),
       .fix = "jobctl exec JOB -- CMD"});
}

const v1::NodePart* PartOf(const v1::Attempt& attempt, uint32_t rank) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (rank >= part.first_rank() && rank - part.first_rank() < part.local_world_size())
      return &part;
  }
  return nullptr;
}

bool HasExited(const v1::NodePart& part, uint32_t rank) {
  for (const v1::RankExit& exit : part.exits()) {
    if (exit.rank() == rank) return true;
  }
  return part.ended();
}

}  // namespace

absl::StatusOr<ExecPlace> PlaceOfRank(const v1::JobRecord& job, uint32_t rank) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr || attempt->running_ms() == 0) {
    return NoRankRuns(
        job, StrCat("job ", job.name(), " is ", StateName(job.state()), ": no rank is running"));
  }
  const v1::NodePart* part = PartOf(*attempt, rank);
  if (part == nullptr) {
    return common::MakeProblem(
        absl::StatusCode::kNotFound,
        {.code = "JC1211",
         .what = StrCat("job ", job.name(), " has no rank ", rank, ": its ranks are 0 to ",
                        attempt->world_size() - 1)});
  }
  if (HasExited(*part, rank))
    return NoRankRuns(job, StrCat("rank ", rank, " of job ", job.name(), " has exited"));
  return ExecPlace{part->node(), job.id(), job.name(), attempt->number()};
}

void BeginExec(Jobs& jobs, Process& process, const Caller& caller, const v1::ExecStart& start,
               const std::shared_ptr<ExecSession>& session, Answer<v1::ExecStarted> answer) {
  if (const absl::Status valid = CheckCommand(start); !valid.ok()) return answer(valid);
  FindJob(jobs, process, caller, start.job(),
          [&jobs, caller, start, session, answer](const absl::StatusOr<FoundJob>& found) {
            if (!found.ok()) return answer(found.status());
            const v1::JobRecord& job = *found->record;
            if (const absl::Status may = CheckMayRunCommands(caller, getuid(), job); !may.ok())
              return answer(may);
            const absl::StatusOr<ExecPlace> place = PlaceOfRank(job, start.rank());
            if (!place.ok()) return answer(place.status());
            if (const absl::Status opened = jobs.execs.Open(*place, start, caller, session);
                !opened.ok()) {
              return answer(opened);
            }
            v1::ExecStarted started;
            started.set_node(place->node);
            started.set_attempt(place->attempt);
            answer(std::move(started));
          });
}

}  // namespace muster::coordinator
