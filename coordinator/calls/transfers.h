// Sends files of checkpoints and of jobs' code, and answers WorkerService's calls about them, each only for attempts on
// the caller's node (reach.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/sink.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// Sends the list in pieces. The client's queue can hold all of them: at most 32 MiB of names.
// `first`: what the first piece says besides.
void SendCheckpointFiles(const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files,
                         Sink<v1::CheckpointFiles>& sink, v1::CheckpointFiles first = {});

void BeginUpload(Jobs& jobs, JobStores& stores, Gates& gates, Traffic& traffic, Process& process,
                 const Caller& caller, const v1::BeginUploadRequest& request,
                 Answer<v1::BeginUploadResponse> answer);
void DownloadBlob(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates, Traffic& traffic,
                  Process& process, const Caller& caller, const v1::DownloadBlobRequest& request,
                  std::shared_ptr<Sink<v1::BlobChunk>> sink);
void ListResumeFiles(Jobs& jobs, Gates& gates, Traffic& traffic, Process& process,
                     const Caller& caller, const v1::ListResumeFilesRequest& request,
                     std::shared_ptr<Sink<v1::CheckpointFiles>> sink);

}  // namespace muster::coordinator
