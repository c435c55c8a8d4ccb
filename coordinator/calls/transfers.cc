#include "coordinator/calls/transfers.h"

#include <utility>

#include "common/text/strings.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/gates/code_gate.h"
#include "coordinator/gates/gates.h"
#include "coordinator/gates/reach.h"
#include "coordinator/gates/resume_gate.h"
#include "coordinator/store_parts/upload_checks.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// An older worker, on a cluster without certificates, does not name the attempt.
bool ResumesFromIt(const ClusterState& state, const v1::ListResumeFilesRequest& request) {
  const auto job = state.jobs.find(request.job());
  const v1::Attempt* attempt = job == state.jobs.end() ? nullptr : LiveAttempt(job->second);
  if (attempt == nullptr || attempt->number() != request.for_attempt()) return false;
  const v1::Checkpoint* resumed = ResumedCheckpoint(job->second, *attempt);
  return resumed != nullptr && resumed->attempt() == request.attempt() &&
         resumed->step() == request.step();
}

void SendResumeFiles(Jobs& jobs, Traffic& traffic, const NodeIdentity& sender,
                     const v1::ListResumeFilesRequest& request,
                     std::shared_ptr<Sink<v1::CheckpointFiles>> sink) {
  jobs.loop.Ask([&traffic, sender, request, sink](const LoopView& view) -> std::function<void()> {
    if (sender.is_certified && !ResumesFromIt(view.state, request)) {
      return [&traffic, sender, request, sink] {
        sink->Close(RefuseTransfer(traffic, sender, request.job(), request.for_attempt()));
      };
    }
    CheckpointFileList files =
        FilesOf(view.state, request.job(), request.attempt(), request.step());
    return [request, sink, files = std::move(files)] {
      if (!files.empty()) return SendCheckpointFiles(files, *sink);
      sink->Close(absl::NotFoundError(StrCat("job ", request.job(),
                                             " has no files for the checkpoint of step ",
                                             request.step(), " by attempt ", request.attempt())));
    };
  });
}

// A file of the checkpoint that the attempt resumes from.
void SendIfResumed(Jobs& jobs, JobStores& stores, Gates& gates, Traffic& traffic, Process& process,
                   const NodeIdentity& sender, const v1::DownloadBlobRequest& request,
                   const std::shared_ptr<Sink<v1::BlobChunk>>& sink) {
  gates.resume.Check(
      jobs, process, request.job(), request.attempt(), request.sha256(),
      [&stores, &traffic, &process, sender, request, sink](bool is_resumed) {
        if (is_resumed) return SendBlob(stores, process, request.sha256(), request.offset(), sink);
        sink->Close(RefuseTransfer(traffic, sender, request.job(), request.attempt()));
      });
}

// `may_read`: the attempt may download the file, which is as good as having it.
void FindPlace(JobStores& stores, const Caller& caller, const v1::BeginUploadRequest& request,
               bool may_read, const Answer<v1::BeginUploadResponse>& answer) {
  const std::string prover = ProofOwner(NodeOf(caller), request.job(), request.attempt());
  if (may_read && !prover.empty()) {
    if (absl::Status proven = stores.blobs.Prove(prover, request.sha256()); !proven.ok())
      return answer(proven);
  }
  const absl::StatusOr<bool> is_here =
      KeepProven(stores.blobs, prover, request.sha256(), request.size());
  if (!is_here.ok()) return answer(is_here.status());
  const std::string owner = UploadOwner(caller, request.job(), request.attempt());
  // What has arrived is no longer needed, or is useless.
  if (*is_here || stores.blobs.Arrived(owner, request.sha256()) > request.size())
    stores.blobs.RemovePartial(owner, request.sha256());
  v1::BeginUploadResponse response;
  response.set_have(*is_here);
  if (!*is_here) response.set_offset(stores.blobs.Arrived(owner, request.sha256()));
  answer(std::move(response));
}

}  // namespace

void BeginUpload(Jobs& jobs, JobStores& stores, Gates& gates, Traffic& traffic, Process& process,
                 const Caller& caller, const v1::BeginUploadRequest& request,
                 Answer<v1::BeginUploadResponse> answer) {
  CheckTransfer(jobs, gates, traffic, process, NodeOf(caller), request.job(), request.attempt(),
                [&jobs, &stores, &gates, &process, caller, request,
                 answer = std::move(answer)](absl::Status may) {
                  if (!may.ok()) return answer(may);
                  gates.resume.Check(
                      jobs, process, request.job(), request.attempt(), request.sha256(),
                      [&stores, &process, caller, request, answer](bool is_resumed) {
                        process.files.Post([&stores, caller, request, is_resumed, answer] {
                          FindPlace(stores, caller, request, is_resumed, answer);
                        });
                      });
                });
}

void DownloadBlob(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates, Traffic& traffic,
                  Process& process, const Caller& caller, const v1::DownloadBlobRequest& request,
                  std::shared_ptr<Sink<v1::BlobChunk>> sink) {
  const NodeIdentity sender = NodeOf(caller);
  CheckTransfer(jobs, gates, traffic, process, sender, request.job(), request.attempt(),
                [&jobs, &stores, &job_code, &gates, &traffic, &process, sender, request,
                 sink](absl::Status may) {
                  if (!may.ok()) return sink->Close(may);
                  if (request.job() == 0)
                    return SendBlob(stores, process, request.sha256(), request.offset(), sink);
                  gates.code.Check(jobs, job_code, process, request.job(), request.sha256(),
                                   [&jobs, &stores, &gates, &traffic, &process, sender, request,
                                    sink](const absl::StatusOr<bool>& is_code) {
                                     if (!is_code.ok()) return sink->Close(is_code.status());
                                     if (*is_code)
                                       return SendBlob(stores, process, request.sha256(),
                                                       request.offset(), sink);
                                     SendIfResumed(jobs, stores, gates, traffic, process, sender,
                                                   request, sink);
                                   });
                });
}

void ListResumeFiles(Jobs& jobs, Gates& gates, Traffic& traffic, Process& process,
                     const Caller& caller, const v1::ListResumeFilesRequest& request,
                     std::shared_ptr<Sink<v1::CheckpointFiles>> sink) {
  const NodeIdentity sender = NodeOf(caller);
  if (!sender.is_certified) return SendResumeFiles(jobs, traffic, sender, request, std::move(sink));
  CheckTransfer(jobs, gates, traffic, process, sender, request.job(), request.for_attempt(),
                [&jobs, &traffic, sender, request, sink](absl::Status may) {
                  if (!may.ok()) return sink->Close(may);
                  SendResumeFiles(jobs, traffic, sender, request, sink);
                });
}

}  // namespace muster::coordinator
