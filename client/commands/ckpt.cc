// jobctl ckpt ls, show, verify, pull, rm.
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/files/pull_file.h"
#include "client/files/pull_target.h"
#include "client/session/bulk.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/cells.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

// STEP is a number or "last", which is also the default.
absl::StatusOr<int64_t> WantedStep(const Arguments& arguments) {
  if (arguments.words().size() < 2 || arguments.words()[1] == "last" ||
      arguments.words()[1] == "latest")
    return -1;
  const absl::StatusOr<int64_t> step = common::ParseInteger(arguments.words()[1]);
  if (!step.ok() || *step < 0) {
    return Usage("JC1004",
                 StrCat("STEP must be a number or last, not \"", arguments.words()[1], "\""),
                 StrCat("jobctl ckpt ls ", arguments.words()[0]));
  }
  return *step;
}

absl::StatusOr<v1::Checkpoint> FindCheckpoint(const v1::JobRecord& record, int64_t step) {
  const v1::Checkpoint* found = nullptr;
  for (const v1::Checkpoint& checkpoint : record.checkpoints()) {
    if (checkpoint.state() != v1::CHECKPOINT_STATE_COMMITTED) continue;
    if (step < 0 ? (found == nullptr || checkpoint.step() > found->step())
                 : checkpoint.step() == step) {
      found = &checkpoint;
    }
  }
  if (found != nullptr) return *found;
  return common::MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1501",
       .what = step < 0
                   ? StrCat("job ", record.name(), " has no committed checkpoint")
                   : StrCat("job ", record.name(), " has no committed checkpoint of step ", step),
       .fix = StrCat("jobctl ckpt ls ", record.name())});
}

absl::StatusOr<int> List(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, connection->GetJob(arguments.words()[0]));
  Listing listing;
  listing.kind = "CheckpointList";
  listing.columns = {{.key = "step", .right = true},
                     {.key = "size", .right = true},
                     {.key = "files", .right = true},
                     {.key = "parts"},
                     {.key = "attempt", .right = true},
                     {.key = "age", .right = true, .value_name = "committed_ms", .since = true},
                     {.key = "state"}};
  for (const v1::Checkpoint& checkpoint : response.record().checkpoints()) {
    const bool committed = checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED;
    Cell age;
    if (checkpoint.committed_ms() > 0) age = AgeCell(checkpoint.committed_ms());
    listing.rows.push_back({Cell(int64_t{checkpoint.step()}), SizeCell(checkpoint.bytes()),
                            Cell(int64_t{checkpoint.file_count()}),
                            Cell(StrCat(checkpoint.parts_present_size(), "/", checkpoint.parts())),
                            Cell(int64_t{checkpoint.attempt()}), age,
                            Cell(checkpoint.flagged_corrupt() ? "damaged"
                                 : committed                  ? "committed"
                                                              : "uploading")});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

v1::CheckpointReference Reference(const v1::JobRecord& job, int64_t step) {
  v1::CheckpointReference reference;
  reference.set_job(std::to_string(job.id()));
  reference.set_latest(step < 0);
  reference.set_step(step);
  return reference;
}

absl::StatusOr<int> ShowCheckpoint(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t step, WantedStep(arguments));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, connection->GetJob(arguments.words()[0]));
  ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, FindCheckpoint(response.record(), step));
  session.Note(StrCat("step ", checkpoint.step(), ", ", common::HumanBytes(checkpoint.bytes()),
                      ", of attempt ", checkpoint.attempt(), ", committed ",
                      LocalTime(checkpoint.committed_ms())));
  Listing listing;
  listing.kind = "CheckpointFileList";
  listing.columns = {{.key = "file", .names = true},
                     {.key = "size", .right = true},
                     {.key = "part", .right = true},
                     {.key = "sha256", .shrink = true}};
  ASSIGN_OR_RETURN(
      const std::vector<v1::CheckpointFile> files,
      connection->ListCheckpointFiles(Reference(response.record(), checkpoint.step())));
  for (const v1::CheckpointFile& file : files) {
    listing.rows.push_back({Cell(file.path()), SizeCell(file.size()), Cell(int64_t{file.part()}),
                            Cell(file.sha256())});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> Verify(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t step, WantedStep(arguments));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse job, connection->GetJob(arguments.words()[0]));
  const std::string& name = job.record().name();
  ASSIGN_OR_RETURN(const v1::VerifyCheckpointResponse response,
                   connection->VerifyCheckpoint(Reference(job.record(), step)));
  Listing listing;
  listing.kind = "CheckpointVerdictList";
  listing.columns = {{.key = "file", .names = true},
                     {.key = "size", .right = true},
                     {.key = "verdict"},
                     {.key = "problem", .shrink = true},
                     {.key = "sha256", .wide = true}};
  for (const v1::FileVerdict& file : response.files()) {
    listing.rows.push_back({Cell(file.path()), SizeCell(file.size()),
                            Cell(file.ok() ? "ok" : "BAD"), Cell(file.problem()),
                            Cell(file.sha256())});
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  if (response.files_left_out() > 0) {
    session.Note(StrCat("… and ", common::Counted(response.files_left_out(), "more file"), ", ",
                        response.ok() ? "all ok" : "the damaged ones are listed first"));
  }
  if (response.ok()) {
    session.Note(StrCat("✓ step ", response.step(), ": every file matches its SHA-256"));
    return kExitOk;
  }
  return common::MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1502",
       .what = StrCat("the checkpoint of step ", response.step(),
                      " is damaged; no job will resume from it"),
       .fix = StrCat("jobctl rerun ", name, " --from STEP, with an earlier step of jobctl ckpt ls ",
                     name)});
}

absl::StatusOr<PullTarget> TargetOf(const Arguments& arguments, const std::string& job_name,
                                    int64_t step) {
  absl::StatusOr<PullTarget> target = arguments.Has("to") ? PullTarget::At(arguments.Get("to"))
                                                          : PullTarget::ForJob(job_name, step);
  if (target.ok() || !common::CodeOf(target.status()).empty()) return target;
  return common::MakeProblem(absl::StatusCode::kInternal,
                             {.code = "JC1601",
                              .what = std::string(target.status().message()),
                              .fix = "use --to DIR with a directory that you own"});
}

absl::StatusOr<int> Pull(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t step, WantedStep(arguments));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, connection->GetJob(arguments.words()[0]));
  ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, FindCheckpoint(response.record(), step));
  ASSIGN_OR_RETURN(const PullTarget target,
                   TargetOf(arguments, response.record().name(), checkpoint.step()));
  ASSIGN_OR_RETURN(
      const std::vector<v1::CheckpointFile> files,
      connection->ListCheckpointFiles(Reference(response.record(), checkpoint.step())));
  v1::PullFileRequest of;
  of.set_job(std::to_string(response.record().id()));
  of.set_step(checkpoint.step());
  const std::string verify =
      StrCat("jobctl ckpt verify ", of.job(), " ", of.step(), ", then pull again");
  SavedFiles saved(*connection);
  for (const v1::CheckpointFile& file : files) {
    session.Note(StrCat(common::Printable(file.path()), "  ", common::HumanBytes(file.size())));
    of.set_path(file.path());
    RETURN_IF_ERROR(PullOne(saved.Reader(of), file, target, file.path(), verify).status());
  }
  session.Print(StrCat(target.path(), "\n"));
  return kExitOk;
}

absl::StatusOr<int> Remove(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t step, WantedStep(arguments));
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::GetJobResponse job, connection->GetJob(arguments.words()[0]));
  ASSIGN_OR_RETURN(const v1::Checkpoint checkpoint, FindCheckpoint(job.record(), step));
  RETURN_IF_ERROR(session.Confirm(StrCat("Remove the checkpoint of step ", checkpoint.step(),
                                         " of ", job.record().name(), "?")));
  ASSIGN_OR_RETURN(const v1::BulkResponse response,
                   connection->RemoveCheckpoint(Reference(job.record(), checkpoint.step())));
  return ReportBulk(session, arguments, response, StrCat("step ", checkpoint.step(), " removed"));
}

constexpr Flag kPullFlags[] = {
    {"to", 0, "DIR", "target directory (default: ./JOB/step-N)"},
};
constexpr Flag kCkptRmFlags[] = {kBulkOutputFlag};

}  // namespace

const Command kCkptLsCommand = {.name = "ckpt ls",
                                .place = 160,
                                .summary = "list a job's checkpoints",
                                .arguments = "JOB",
                                .least = 1,
                                .most = 1,
                                .listing = true,
                                .completes = "job",
                                .examples = "jobctl ckpt ls calm-otter-3\tstep, size, state",
                                .run = List};
const Command kCkptShowCommand = {
    .name = "ckpt show",
    .place = 170,
    .summary = "list the files of a checkpoint",
    .arguments = "JOB [STEP]",
    .least = 1,
    .most = 2,
    .listing = true,
    .completes = "job step",
    .examples = "jobctl ckpt show calm-otter-3 120\tfiles, sizes, SHA-256",
    .run = ShowCheckpoint};
const Command kCkptVerifyCommand = {.name = "ckpt verify",
                                    .place = 180,
                                    .summary = "read a checkpoint and verify every SHA-256",
                                    .arguments = "JOB [STEP]",
                                    .least = 1,
                                    .most = 2,
                                    .listing = true,
                                    .completes = "job step",
                                    .examples = "jobctl ckpt verify calm-otter-3\tthe newest one",
                                    .run = Verify};
const Command kCkptPullCommand = {
    .name = "ckpt pull",
    .place = 190,
    .summary = "download a checkpoint; an interrupted download resumes",
    .arguments = "JOB [STEP]",
    .least = 1,
    .most = 2,
    .flags = kPullFlags,
    .completes = "job step",
    .examples =
        "jobctl ckpt pull calm-otter-3\tthe newest one, into calm-otter-3/step-N\n"
        "jobctl ckpt pull calm-otter-3 120 --to model\tstep 120, into model",
    .run = Pull};
const Command kCkptRmCommand = {
    .name = "ckpt rm",
    .place = 200,
    .summary = "remove a checkpoint",
    .arguments = "JOB STEP",
    .least = 2,
    .most = 2,
    .flags = kCkptRmFlags,
    .completes = "job step",
    .examples = "jobctl ckpt rm calm-otter-3 120 --yes\twithout confirmation",
    .run = Remove};

}  // namespace muster::client
