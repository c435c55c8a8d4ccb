#include "coordinator/calls/transfers.h"

#include <optional>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/calls/blob_answers.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/gates/code_gate.h"
#include "coordinator/gates/gates.h"
#include "coordinator/gates/reach.h"
#include "coordinator/gates/resume_gate.h"
#include "coordinator/store_parts/direct_uploads.h"
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

// Where other nodes reach the sender, if it serves them; else without an address.
v1::FilePeer OfferOf(const ClusterState& state, const NodeIdentity& sender,
                     const v1::ListResumeFilesRequest& request) {
  v1::FilePeer offer;
  const auto job = state.jobs.find(request.job());
  const v1::Attempt* attempt = job == state.jobs.end() ? nullptr : LiveAttempt(job->second);
  const bool is_offered = request.serves_port() > 0 && request.serves_port() <= UINT16_MAX &&
                          request.serves_secret().size() == common::kRendezvousSecretBytes;
  if (!is_offered || attempt == nullptr || attempt->number() != request.for_attempt() ||
      request.group_rank() >= static_cast<uint32_t>(attempt->parts_size()))
    return offer;
  const v1::NodePart& part = attempt->parts(static_cast<int>(request.group_rank()));
  if (sender.is_certified && part.node() != sender.node) return offer;
  offer.set_address(part.advertise());
  offer.set_port(request.serves_port());
  offer.set_secret(request.serves_secret());
  return offer;
}

// `traffic` and `gates` outlive the answer.
void SendResumeFiles(Jobs& jobs, Gates& gates, Traffic& traffic, const NodeIdentity& sender,
                     const v1::ListResumeFilesRequest& request,
                     std::shared_ptr<Sink<v1::CheckpointFiles>> sink) {
  jobs.loop.Ask([&gates, &traffic, sender, request,
                 sink](const LoopView& view) -> std::function<void()> {
    if (sender.is_certified && !ResumesFromIt(view.state, request)) {
      return [&traffic, sender, request, sink] {
        sink->Close(RefuseTransfer(traffic, sender, request.job(), request.for_attempt()));
      };
    }
    CheckpointFileList files =
        FilesOf(view.state, request.job(), request.attempt(), request.step());
    v1::FilePeer offer = OfferOf(view.state, sender, request);
    return [&gates, request, sink, files = std::move(files), offer = std::move(offer)]() mutable {
      v1::CheckpointFiles first;
      if (!files.empty() && !offer.address().empty()) {
        auto from = gates.peers.Join(request.job(), request.for_attempt(), request.group_rank(),
                                     std::move(offer));
        if (from.has_value()) *first.mutable_from() = *std::move(from);
      }
      if (!files.empty()) return SendCheckpointFiles(files, *sink, std::move(first));
      sink->Close(absl::NotFoundError(StrCat("job ", request.job(),
                                             " has no files for the checkpoint of step ",
                                             request.step(), " by attempt ", request.attempt())));
    };
  });
}

WantedBlob WantedOf(const v1::DownloadBlobRequest& request, uint64_t job) {
  return {.job = job,
          .sha256 = request.sha256(),
          .offset = request.offset(),
          .may_be_url = request.direct()};
}

// A file of the checkpoint that the attempt resumes from.
void SendIfResumed(Jobs& jobs, JobStores& stores, Gates& gates, Traffic& traffic, Process& process,
                   const NodeIdentity& sender, const v1::DownloadBlobRequest& request,
                   const std::shared_ptr<Sink<v1::BlobChunk>>& sink) {
  gates.resume.Check(
      jobs, process, request.job(), request.attempt(), request.sha256(),
      [&stores, &traffic, &process, sender, request, sink](bool is_resumed) {
        if (is_resumed) return SendOrSign(stores, process, WantedOf(request, request.job()), sink);
        sink->Close(RefuseTransfer(traffic, sender, request.job(), request.attempt()));
      });
}

v1::BeginUploadResponse AnswerOf(const DirectUploads::Place& place) {
  v1::BeginUploadResponse response;
  response.set_have(place.is_whole);
  if (place.is_whole) return response;
  v1::DirectUpload& direct = *response.mutable_direct();
  direct.set_part_bytes(place.part_bytes);
  direct.set_more(place.is_more);
  for (const DirectUploads::Part& part : place.parts) {
    v1::DirectUpload::Part& sent = *direct.add_parts();
    sent.set_number(static_cast<uint32_t>(part.number));
    sent.set_url(part.url);
  }
  return response;
}

bool MayGoDirectly(const JobStores& stores, const v1::BeginUploadRequest& request) {
  return stores.direct != nullptr && request.direct() && request.job() != 0;
}

// nullopt: the file goes through the coordinator.
absl::StatusOr<std::optional<v1::BeginUploadResponse>> FindDirectPlace(
    JobStores& stores, const Caller& caller, const v1::BeginUploadRequest& request) {
  const std::string prover = ProofOwner(NodeOf(caller), request.job(), request.attempt());
  const DirectUploads::File file{
      .sender = prover.empty() ? UploadOwner(caller, request.job(), request.attempt()) : prover,
      .job = request.job(),
      .sha256 = request.sha256(),
      .size = request.size()};
  // Its checkpoint is about to be recorded.
  stores.blobs.Promise(file.sha256);
  ASSIGN_OR_RETURN(const std::optional<DirectUploads::Place> place,
                   stores.direct->Find(file, request.sent()));
  if (!place.has_value()) return std::nullopt;
  return AnswerOf(*place);
}

// What the job itself sent needs no proof, and proves nothing of a blob that others have under that name.
absl::Status ProveIfShared(Blobs& blobs, const std::string& prover,
                           const v1::BeginUploadRequest& request) {
  ASSIGN_OR_RETURN(const bool is_own, blobs.IsSentBy(request.job(), request.sha256()));
  return is_own ? absl::OkStatus() : blobs.Prove(prover, request.sha256());
}

// `may_read`: the attempt may download the file, which is as good as having it.
void FindPlace(JobStores& stores, const Caller& caller, const v1::BeginUploadRequest& request,
               bool may_read, const Answer<v1::BeginUploadResponse>& answer) {
  const std::string prover = ProofOwner(NodeOf(caller), request.job(), request.attempt());
  if (may_read && !prover.empty()) {
    const absl::Status proven = ProveIfShared(stores.blobs, prover, request);
    if (!proven.ok()) return answer(proven);
  }
  const absl::StatusOr<bool> is_here =
      KeepProven(stores.blobs, prover, request.job(), request.sha256(), request.size());
  if (!is_here.ok()) return answer(is_here.status());
  if (!*is_here && MayGoDirectly(stores, request)) {
    auto direct = FindDirectPlace(stores, caller, request);
    if (!direct.ok()) return answer(direct.status());
    if (direct->has_value()) return answer(**std::move(direct));
  }
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
                        WorkPool& pool =
                            MayGoDirectly(stores, request) ? process.objects : process.files;
                        pool.Post([&stores, caller, request, is_resumed, answer] {
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
                    return SendBlob(stores, process, WantedOf(request, /*job=*/0), sink);
                  gates.code.Check(
                      jobs, job_code, process, request.job(), request.sha256(),
                      [&jobs, &stores, &gates, &traffic, &process, sender, request,
                       sink](const absl::StatusOr<bool>& is_code) {
                        if (!is_code.ok()) return sink->Close(is_code.status());
                        if (*is_code)
                          return SendOrSign(stores, process, WantedOf(request, /*job=*/0), sink);
                        SendIfResumed(jobs, stores, gates, traffic, process, sender, request, sink);
                      });
                });
}

void ListResumeFiles(Jobs& jobs, Gates& gates, Traffic& traffic, Process& process,
                     const Caller& caller, const v1::ListResumeFilesRequest& request,
                     std::shared_ptr<Sink<v1::CheckpointFiles>> sink) {
  const NodeIdentity sender = NodeOf(caller);
  if (!sender.is_certified)
    return SendResumeFiles(jobs, gates, traffic, sender, request, std::move(sink));
  CheckTransfer(jobs, gates, traffic, process, sender, request.job(), request.for_attempt(),
                [&jobs, &gates, &traffic, sender, request, sink](absl::Status may) {
                  if (!may.ok()) return sink->Close(may);
                  SendResumeFiles(jobs, gates, traffic, sender, request, sink);
                });
}

}  // namespace muster::coordinator
