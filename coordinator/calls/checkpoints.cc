#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/outputs.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/calls/blob_answers.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/transfers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/identity/ownership.h"
#include "coordinator/periodic/garbage.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// The outputs of an attempt; `latest`: the newest that are here.
absl::StatusOr<v1::Checkpoint> FindOutputs(const v1::JobRecord& job, uint32_t attempt,
                                           bool latest) {
  const v1::Checkpoint* found = nullptr;
  for (const v1::Checkpoint& outputs : job.outputs()) {
    if (outputs.state() != v1::CHECKPOINT_STATE_COMMITTED) continue;
    if (latest || outputs.attempt() == attempt) found = &outputs;
  }
  if (found != nullptr) return *found;
  const std::string of = latest ? std::string() : StrCat(" of attempt ", attempt);
  return common::MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1720",
       .what = StrCat("job ", job.name(), " has no outputs", of),
       .why = job.spec().outputs().empty() ? "its spec names none" : "",
       .fix = job.spec().outputs().empty()
                  ? "name the directories and files to bring back: outputs: in the job file"
                  : StrCat("jobctl show ", job.name(), " lists those that are here")});
}

absl::StatusOr<v1::Checkpoint> FindCheckpoint(const v1::JobRecord& job, int64_t step, bool latest) {
  const v1::Checkpoint* found = nullptr;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.state() != v1::CHECKPOINT_STATE_COMMITTED) continue;
    if (latest || checkpoint.step() == step) found = &checkpoint;
  }
  if (latest && LatestCheckpoint(job) != nullptr) found = LatestCheckpoint(job);
  if (found != nullptr) return *found;
  return common::MakeProblem(absl::StatusCode::kNotFound,
                             {.code = "JC1501",
                              .what = StrCat("job ", job.name(), " has no committed checkpoint",
                                             latest ? std::string() : StrCat(" of step ", step)),
                              .fix = StrCat("list them with jobctl ckpt ls ", job.name())});
}

absl::StatusOr<v1::Checkpoint> FindSaved(const v1::JobRecord& job,
                                         const v1::CheckpointReference& wanted) {
  return wanted.outputs() ? FindOutputs(job, wanted.attempt(), wanted.latest())
                          : FindCheckpoint(job, wanted.step(), wanted.latest());
}

absl::StatusOr<v1::Checkpoint> FindSaved(const v1::JobRecord& job,
                                         const v1::PullFileRequest& wanted) {
  return wanted.outputs() ? FindOutputs(job, wanted.attempt(), false)
                          : FindCheckpoint(job, wanted.step(), wanted.step() < 0);
}

std::string NameOf(const v1::Checkpoint& saved) {
  return saved.step() == common::kOutputsStep ? StrCat("the outputs of attempt ", saved.attempt())
                                              : StrCat("the checkpoint of step ", saved.step());
}

// Checks a checkpoint's files one by one: other callers' files get their turns in between.
class Verification : public std::enable_shared_from_this<Verification> {
 public:
  using Done = std::function<void(absl::StatusOr<v1::VerifyCheckpointResponse>)>;

  Verification(JobStores& stores, Process& process, std::string owner, uint64_t job,
               v1::Checkpoint checkpoint, Done done)
      : stores_(stores),
        process_(process),
        owner_(std::move(owner)),
        job_(job),
        checkpoint_(std::move(checkpoint)),
        done_(std::move(done)) {
    response_.set_step(checkpoint_.step());
    response_.set_ok(true);
  }

  void GoOn() {
    process_.hashes.Post([self = shared_from_this()] { self->CheckNext(); }, owner_);
  }

 private:
  // A store that cannot be read for now says nothing about the files.
  void CheckNext() {
    if (next_ == checkpoint_.files_size()) return done_(std::move(response_));
    const v1::CheckpointFile& file = checkpoint_.files(next_++);
    v1::FileVerdict* verdict = response_.add_files();
    verdict->set_path(file.path());
    verdict->set_size(file.size());
    verdict->set_sha256(file.sha256());
    const absl::Status status = stores_.blobs.Verify(file.sha256(), job_);
    if (IsShortage(status)) return done_(BlobNotReadableNow(NameOf(checkpoint_), status));
    verdict->set_ok(status.ok());
    if (!status.ok()) {
      verdict->set_problem(std::string(status.message()));
      response_.set_ok(false);
    }
    GoOn();
  }

  JobStores& stores_;
  Process& process_;
  const std::string owner_;
  const uint64_t job_;
  const v1::Checkpoint checkpoint_;
  const Done done_;
  v1::VerifyCheckpointResponse response_;
  int next_ = 0;
};

// Puts damaged files first, and keeps as many as fit.
void Bound(v1::VerifyCheckpointResponse& response) {
  if (response.ByteSizeLong() <= common::kAnswerBytesMax) return;
  auto& files = *response.mutable_files();
  std::stable_partition(files.pointer_begin(), files.pointer_end(),
                        [](const v1::FileVerdict* file) { return !file->ok(); });
  size_t bytes = 0;
  int kept = 0;
  while (kept < files.size() && bytes < common::kAnswerBytesMax) {
    bytes += files.Get(kept++).ByteSizeLong();
  }
  response.set_files_left_out(static_cast<uint32_t>(files.size() - kept));
  files.DeleteSubrange(kept, files.size() - kept);
}

std::shared_ptr<const v1::JobRecord> Flagged(const v1::JobRecord& job, int64_t step,
                                             uint32_t attempt) {
  auto flagged = std::make_shared<v1::JobRecord>(job);
  for (v1::Checkpoint& known : ListFor(*flagged, step)) {
    if (known.step() == step && known.attempt() == attempt) {
      known.set_flagged_corrupt(true);
    }
  }
  return flagged;
}

// Of several coordinators, another one has files of the checkpoint: nothing can be said of them here.
absl::Status CheckIsHere(const Instance& instance, const v1::Checkpoint& checkpoint) {
  if (instance.leading == nullptr) return absl::OkStatus();
  const std::string others = OtherHeads(checkpoint, instance.leading->name);
  if (others.empty()) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kUnavailable,
      {.code = "JC1632",
       .what = StrCat("the coordinator ", others, " has files of ", NameOf(checkpoint), ", and ",
                      instance.leading->name, " leads"),
       .fix = StrCat("ask again when ", others, " leads")});
}

}  // namespace

void SendCheckpointFiles(const CheckpointFileList& files, Sink<v1::CheckpointFiles>& sink,
                         v1::CheckpointFiles first) {
  v1::CheckpointFiles piece = std::move(first);
  size_t bytes = 0;
  for (const v1::CheckpointFile& file : files) {
    *piece.add_files() = file;
    bytes += file.ByteSizeLong();
    if (bytes < common::kFilesPieceBytes) continue;
    sink.Write(std::exchange(piece, {}));
    bytes = 0;
  }
  if (!piece.files().empty()) sink.Write(std::move(piece));
  sink.Close(absl::OkStatus());
}

void VerifyCheckpoint(Jobs& jobs, JobStores& stores, const Instance& instance, Process& process,
                      const Caller& caller, const v1::CheckpointReference& request,
                      Answer<v1::VerifyCheckpointResponse> answer) {
  FindJob(
      jobs, process, caller, request.job(),
      [&jobs, &stores, &instance, &process, caller, request,
       answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
        if (!found.ok()) return answer(found.status());
        // It may mark the checkpoint as damaged.
        const absl::Status may = CheckMayChange(caller, *found->record);
        if (!may.ok()) return answer(may);
        absl::StatusOr<v1::Checkpoint> checkpoint = FindSaved(*found->record, request);
        if (!checkpoint.ok()) return answer(checkpoint.status());
        const absl::Status is_here = CheckIsHere(instance, *checkpoint);
        if (!is_here.ok()) return answer(is_here);
        const bool was_flagged = checkpoint->flagged_corrupt();
        const int64_t step = checkpoint->step();
        const uint32_t attempt = checkpoint->attempt();
        const auto verified = [&jobs, answer, job = *found, was_flagged, step,
                               attempt](absl::StatusOr<v1::VerifyCheckpointResponse> verdicts) {
          if (!verdicts.ok()) return answer(verdicts.status());
          v1::VerifyCheckpointResponse& response = *verdicts;
          Bound(response);
          if (response.ok() || was_flagged) return answer(std::move(response));
          if (job.live) {
            jobs.loop.Say(FlagCheckpointInput{job.record->id(), step, attempt,
                                              "its files do not match their hashes"});
            return answer(std::move(response));
          }
          jobs.loop.RewriteFinished(Flagged(*job.record, step, attempt),
                                    [answer, response] { answer(response); });
        };
        std::make_shared<Verification>(stores, process, caller.principal, found->record->id(),
                                       *std::move(checkpoint), verified)
            ->GoOn();
      },
      Want::kRecordWithFiles);
}
MUSTER_HANDLER(VerifyCheckpoint)

void ListCheckpointFiles(Jobs& jobs, Process& process, const Caller& caller,
                         const v1::CheckpointReference& request,
                         std::shared_ptr<Sink<v1::CheckpointFiles>> sink) {
  FindJob(
      jobs, process, caller, request.job(),
      [request, sink](absl::StatusOr<FoundJob> found) {
        if (!found.ok()) return sink->Close(found.status());
        const auto checkpoint = FindSaved(*found->record, request);
        if (!checkpoint.ok()) return sink->Close(checkpoint.status());
        SendCheckpointFiles(checkpoint->files(), *sink);
      },
      Want::kRecordWithFiles);
}
MUSTER_HANDLER(ListCheckpointFiles)

void PullFile(Jobs& jobs, JobStores& stores, const Instance& instance, Process& process,
              const Caller& caller, const v1::PullFileRequest& request,
              std::shared_ptr<Sink<v1::BlobChunk>> sink) {
  FindJob(
      jobs, process, caller, request.job(),
      [&stores, &instance, &process, request, sink,
       owner = caller.principal](absl::StatusOr<FoundJob> found) {
        if (!found.ok()) return sink->Close(found.status());
        const auto checkpoint = FindSaved(*found->record, request);
        if (!checkpoint.ok()) return sink->Close(checkpoint.status());
        const absl::Status is_here = CheckIsHere(instance, *checkpoint);
        if (!is_here.ok()) return sink->Close(is_here);
        for (const v1::CheckpointFile& file : checkpoint->files()) {
          const bool is_of_part = !request.outputs() || file.part() == request.part();
          if (file.path() == request.path() && is_of_part) {
            return SendOrSign(stores, process,
                              {.job = found->record->id(),
                               .sha256 = file.sha256(),
                               .offset = request.offset(),
                               .may_be_url = request.direct() && stores.signs_for_clients,
                               .owner = owner},
                              sink);
          }
        }
        sink->Close(common::MakeProblem(
            absl::StatusCode::kNotFound,
            {.code = "JC1505",
             .what =
                 StrCat(NameOf(*checkpoint), request.outputs() ? " have" : " has", " no file \"",
                        common::Printable(request.path().substr(0, common::kReasonBytesMax)), "\"",
                        request.outputs() ? StrCat(" from node ", request.part()) : ""),
             .fix = StrCat("list its files with jobctl ",
                           request.outputs() ? "outputs " : "ckpt show ", found->record->name())}));
      },
      Want::kRecordWithFiles);
}
MUSTER_HANDLER(PullFile)

void RemoveCheckpoint(Jobs& jobs, JobStores& stores, JobCode& job_code, Process& process,
                      const Caller& caller, const v1::CheckpointReference& request,
                      Answer<v1::BulkResponse> answer) {
  FindJob(
      jobs, process, caller, request.job(),
      [&jobs, &stores, &job_code, &process, caller, request,
       answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
        if (!found.ok()) return answer(found.status());
        const std::shared_ptr<const v1::JobRecord> job = found->record;
        if (const absl::Status may = CheckMayChange(caller, *job); !may.ok()) return answer(may);
        const auto checkpoint = FindSaved(*job, request);
        if (!checkpoint.ok()) return answer(checkpoint.status());
        const std::string subject = request.outputs()
                                        ? StrCat("outputs of attempt ", checkpoint->attempt())
                                        : StrCat("step ", checkpoint->step());
        std::vector<std::string> blobs;
        for (const v1::CheckpointFile& file : checkpoint->files()) blobs.push_back(file.sha256());
        if (!found->live) {
          auto rest = std::make_shared<v1::JobRecord>(*job);
          CheckpointList& list = ListFor(*rest, checkpoint->step());
          const auto kept = std::remove_if(list.begin(), list.end(), [&](const auto& each) {
            return each.step() == checkpoint->step() && each.attempt() == checkpoint->attempt();
          });
          list.erase(kept, list.end());
          return jobs.loop.RewriteFinished(
              rest, [&jobs, &stores, &job_code, &process, subject, job, blobs, answer] {
                v1::BulkResponse response;
                *response.add_results() = BulkResultOf(subject, absl::OkStatus(), job.get());
                answer(std::move(response));
                CollectBlobs(jobs, stores, job_code, process, blobs);
              });
        }
        const absl::Status queued = jobs.loop.Submit(
            RemoveCheckpointInput{caller, job->id(), checkpoint->step(), checkpoint->attempt()},
            [subject, answer](const Reply& reply) {
              if (!reply.status.ok()) return answer(reply.status);
              v1::BulkResponse response;
              for (const v1::BulkResult& result : reply.results) {
                *response.add_results() = result;
                response.mutable_results(response.results_size() - 1)->set_subject(subject);
              }
              answer(std::move(response));
            });
        if (!queued.ok()) answer(queued);
      },
      Want::kRecordWithFiles);
}
MUSTER_HANDLER(RemoveCheckpoint)

}  // namespace muster::coordinator
