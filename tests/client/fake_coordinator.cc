#include "tests/client/fake_coordinator.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>

#include "common/problem.h"
#include "coordinator/services/grpc_status.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::client {

class FakeCoordinator::Service final : public v1::JobService::Service {
 public:
  explicit Service(FakeCoordinator* fake) : fake_(fake) {}

  grpc::Status GetServer(grpc::ServerContext*, const v1::GetServerRequest*,
                         v1::GetServerResponse* response) override {
    response->set_version("0.1.0");
    response->set_protocol(fake_->protocol);
    response->set_stands_by(fake_->stands_by);
    response->set_leader(fake_->leader);
    return grpc::Status::OK;
  }
  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest* request,
                      v1::SubmitResponse* response) override {
    std::lock_guard lock(mutex);
    submit = *request;
    if (!fake_->submit_error.ok()) {
      const grpc::Status refused = coordinator::ToGrpc(fake_->submit_error);
      if (!fake_->is_older) return refused;
      return grpc::Status(refused.error_code(), refused.error_message());
    }
    if (!fake_->submitted.name().empty() || !fake_->submitted.layout().empty()) {
      *response = fake_->submitted;
      return grpc::Status::OK;
    }
    response->set_job(3);
    response->set_name("calm-otter-3");
    response->set_queue_position(2);
    return grpc::Status::OK;
  }
  grpc::Status Run(grpc::ServerContext* context, const v1::SubmitRequest* request,
                   grpc::ServerWriter<v1::JobUpdate>* writer) override {
    std::unique_lock lock(mutex);
    submit = *request;
    for (const v1::JobUpdate& update : fake_->updates) writer->Write(update);
    if (fake_->wait_for_cancel) {
      while (cancelled.empty() && !context->IsCancelled())
        changed.wait_for(lock, std::chrono::milliseconds(20));
      v1::JobUpdate update;
      *update.mutable_record() = fake_->updates.back().record();
      update.mutable_record()->set_state(v1::JOB_STATE_CANCELLED);
      update.mutable_record()->set_reason("cancelled by uid:0");
      writer->Write(update);
    }
    return grpc::Status::OK;
  }
  grpc::Status StreamLogs(grpc::ServerContext* context, const v1::StreamLogsRequest*,
                          grpc::ServerWriter<v1::LogRecord>* writer) override {
    for (const v1::LogRecord& log : fake_->logs) writer->Write(log);
    std::unique_lock lock(mutex);
    while (fake_->follow_for_ever && !context->IsCancelled())
      changed.wait_for(lock, std::chrono::milliseconds(20));
    return grpc::Status::OK;
  }
  grpc::Status WhyJob(grpc::ServerContext*, const v1::JobReference*,
                      v1::WhyResponse* response) override {
    *response = fake_->why;
    return grpc::Status::OK;
  }
  grpc::Status RerunJob(grpc::ServerContext*, const v1::RerunJobRequest* request,
                        v1::SubmitResponse* response) override {
    std::lock_guard lock(mutex);
    rerun = *request;
    response->set_job(4);
    response->set_name("calm-otter-4");
    return grpc::Status::OK;
  }
  grpc::Status SummarizeMetrics(grpc::ServerContext*, const v1::JobReference*,
                                v1::MetricSummaries* response) override {
    *response = fake_->metrics;
    return grpc::Status::OK;
  }
  grpc::Status ListCheckpointFiles(grpc::ServerContext*, const v1::CheckpointReference*,
                                   grpc::ServerWriter<v1::CheckpointFiles>* writer) override {
    v1::CheckpointFiles piece;
    for (const v1::Checkpoint& checkpoint : fake_->record.checkpoints()) {
      piece.mutable_files()->MergeFrom(checkpoint.files());
    }
    writer->Write(piece);
    return grpc::Status::OK;
  }
  grpc::Status PullFile(grpc::ServerContext*, const v1::PullFileRequest* request,
                        grpc::ServerWriter<v1::BlobChunk>* writer) override {
    std::lock_guard lock(mutex);
    writer->Write(fake_->on_pull(*request));
    return grpc::Status::OK;
  }
  grpc::Status CancelJobs(grpc::ServerContext*, const v1::CancelJobsRequest* request,
                          v1::BulkResponse* response) override {
    std::lock_guard lock(mutex);
    cancelled.push_back(*request);
    for (const std::string& job : request->jobs()) {
      v1::BulkResult* result = response->add_results();
      result->set_subject(job);
      if (job == "gone") {
        const absl::Status error = common::MakeProblem(
            absl::StatusCode::kNotFound,
            {.code = "JC1201", .what = "there is no job gone", .fix = "jobctl ls -a"});
        result->set_status_code(grpc::StatusCode::NOT_FOUND);
        result->set_message(std::string(error.message()));
        common::CopyDetail(error, result->mutable_error());
      }
    }
    changed.notify_all();
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::JobReference* request,
                      v1::GetJobResponse* response) override {
    const auto found = fake_->records.find(request->job());
    *response->mutable_record() = found == fake_->records.end() ? fake_->record : found->second;
    return grpc::Status::OK;
  }
  grpc::Status AssessJob(grpc::ServerContext*, const v1::JobReference*,
                         v1::Assessment* response) override {
    if (fake_->assessment.job() == 0) return {grpc::StatusCode::UNIMPLEMENTED, "older"};
    *response = fake_->assessment;
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobUpdate>* writer) override {
    v1::JobUpdate update;
    *update.mutable_record() = fake_->record;
    writer->Write(update);
    if (fake_->on_watch) fake_->on_watch();
    std::unique_lock lock(mutex);
    while (fake_->record.finished_ms() == 0 && !context->IsCancelled()) {
      changed.wait_for(lock, std::chrono::milliseconds(20));
    }
    return grpc::Status::OK;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    {
      std::lock_guard lock(mutex);
      listed.push_back(*request);
    }
    *response = fake_->on_list ? fake_->on_list(*request) : fake_->jobs;
    return grpc::Status::OK;
  }
  grpc::Status PrepareObjects(grpc::ServerContext*, const v1::PrepareObjectsRequest* request,
                              v1::PrepareObjectsResponse* response) override {
    std::lock_guard lock(mutex);
    for (const v1::ObjectName& name : request->objects()) {
      const auto found = fake_->objects.find(name.sha256());
      response->add_offsets(found == fake_->objects.end() ? 0 : found->second.size());
    }
    return grpc::Status::OK;
  }
  grpc::Status PushObjects(grpc::ServerContext* context,
                           grpc::ServerReader<v1::ObjectChunk>* reader,
                           v1::PushObjectsResponse*) override {
    std::string name;
    for (v1::ObjectChunk chunk; reader->Read(&chunk);) {
      std::unique_lock lock(mutex);
      if (!chunk.sha256().empty()) name = chunk.sha256();
      fake_->objects[name] += chunk.data();
      if (fake_->pushes_left-- > 0) continue;
      fake_->pushes_left = INT_MAX;
      return {grpc::StatusCode::UNAVAILABLE, "cut"};
    }
    if (fake_->on_pushed) fake_->on_pushed();
    std::unique_lock lock(mutex);
    while (fake_->holds_pushes && !context->IsCancelled())
      changed.wait_for(lock, std::chrono::milliseconds(20));
    return grpc::Status::OK;
  }
  grpc::Status PullObject(grpc::ServerContext*, const v1::PullObjectRequest* request,
                          grpc::ServerWriter<v1::BlobChunk>* writer) override {
    std::lock_guard lock(mutex);
    const auto found = fake_->objects_by_hex.find(request->sha256());
    if (found == fake_->objects_by_hex.end()) return {grpc::StatusCode::NOT_FOUND, "not here"};
    v1::BlobChunk chunk;
    chunk.set_data(found->second.substr(request->offset()));
    writer->Write(chunk);
    return grpc::Status::OK;
  }
  grpc::Status ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                         v1::ListNodesResponse* response) override {
    *response = fake_->nodes;
    return grpc::Status::OK;
  }

  std::mutex mutex;
  std::condition_variable changed;
  v1::SubmitRequest submit;
  v1::RerunJobRequest rerun;
  std::vector<v1::CancelJobsRequest> cancelled;
  std::vector<v1::ListJobsRequest> listed;
  std::unique_ptr<grpc::Server> server;

 private:
  FakeCoordinator* fake_;
};

FakeCoordinator::FakeCoordinator() {
  char path[] = "/tmp/jobctl.XXXXXX";
  directory_ = mkdtemp(path);
  service_ = std::make_unique<Service>(this);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(endpoint(), grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  service_->server = builder.BuildAndStart();
}

FakeCoordinator::~FakeCoordinator() {
  service_->server->Shutdown(std::chrono::system_clock::now());
  unlink((directory_ + "/c.sock").c_str());
  rmdir(directory_.c_str());
}

v1::SubmitRequest FakeCoordinator::last_submit() const {
  std::lock_guard lock(service_->mutex);
  return service_->submit;
}
std::vector<v1::CancelJobsRequest> FakeCoordinator::cancels() const {
  std::lock_guard lock(service_->mutex);
  return service_->cancelled;
}

v1::RerunJobRequest FakeCoordinator::last_rerun() const {
  std::lock_guard lock(service_->mutex);
  return service_->rerun;
}

std::vector<v1::ListJobsRequest> FakeCoordinator::lists() const {
  std::lock_guard lock(service_->mutex);
  return service_->listed;
}

}  // namespace muster::client
