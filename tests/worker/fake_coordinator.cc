// fake_coordinator: gRPC's synchronous server; one thread per stream is fine for a test.
#include "tests/worker/fake_coordinator.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include "common/hash/sha256.h"
#include "muster/v1/worker_service.grpc.pb.h"

namespace muster::worker {

using grpc::ServerContext;
using grpc::Status;

struct FakeCoordinator::Service final : v1::WorkerService::Service {
  explicit Service(FakeCoordinator* owner) : owner(owner) {}

  FakeCoordinator* const owner;
  std::unique_ptr<grpc::Server> server;
  grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* control = nullptr;

  void Note(const v1::AttemptStatus& status) {
    owner->statuses[{status.job(), status.attempt()}] = status;
  }

  Status Connect(
      ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    v1::WorkerMessage message;
    while (stream->Read(&message)) {
      std::lock_guard<std::mutex> lock(owner->mutex_);
      v1::CoordinatorMessage answer;
      answer.set_epoch(owner->epoch);
      if (message.has_register_()) {
        control = stream;
        owner->registrations.push_back(message.register_());
        for (const auto& status : message.register_().attempts()) Note(status);
        answer.mutable_registered()->set_heartbeat_ms(200);
        stream->Write(answer);
      } else if (message.has_heartbeat()) {
        ++owner->heartbeats;
        answer.mutable_heartbeat_reply()->set_number(message.heartbeat().number());
        stream->Write(answer);
      } else if (message.has_attempt_status()) {
        Note(message.attempt_status());
      } else if (message.has_cleared()) {
        ++owner->cleared;
      } else if (message.has_checkpoint_part()) {
        owner->parts.push_back(message.checkpoint_part());
      }
      owner->changed_.notify_all();
    }
    std::lock_guard<std::mutex> lock(owner->mutex_);
    if (control == stream) control = nullptr;
    return Status::OK;
  }

  Status UploadLogs(ServerContext*,
                    grpc::ServerReaderWriter<v1::LogAck, v1::LogChunk>* stream) override {
    v1::LogChunk chunk;
    while (stream->Read(&chunk)) {
      v1::LogAck ack;
      {
        std::lock_guard<std::mutex> lock(owner->mutex_);
        Log& log = owner->logs[{chunk.job(), chunk.attempt(), chunk.rank(), chunk.stream()}];
        if (chunk.offset() > log.bytes.size() + chunk.dropped()) {
          owner->complaints.push_back("a gap that was not announced");
        }
        if (chunk.offset() <= log.bytes.size()) {
          const size_t known = log.bytes.size() - chunk.offset();
          if (known < chunk.data().size()) log.bytes += chunk.data().substr(known);
        }
        log.dropped += chunk.dropped();
        log.ended |= chunk.end();
        ack.set_durable_offset(log.bytes.size() + (log.ended ? 1 : 0));
        owner->changed_.notify_all();
      }
      ack.set_job(chunk.job());
      ack.set_attempt(chunk.attempt());
      ack.set_rank(chunk.rank());
      ack.set_stream(chunk.stream());
      stream->Write(ack);
    }
    return Status::OK;
  }

  Status UploadMetrics(ServerContext*,
                       grpc::ServerReaderWriter<v1::MetricAck, v1::MetricBatch>* stream) override {
    v1::MetricBatch upload, batch;
    while (stream->Read(&upload)) {
      if (!batch.ParseFromString(upload.encoded())) return Status::CANCELLED;
      v1::MetricAck ack;
      {
        std::lock_guard<std::mutex> lock(owner->mutex_);
        uint64_t& seq = owner->metric_seqs[std::to_string(batch.rank()) + " " + batch.source()];
        if (batch.seq() > seq) {
          seq = batch.seq();
          for (const auto& point : batch.points()) owner->points.push_back(point);
        }
        ack.set_durable_seq(seq);
        owner->changed_.notify_all();
      }
      ack.set_job(batch.job());
      ack.set_attempt(batch.attempt());
      ack.set_rank(batch.rank());
      ack.set_source(batch.source());
      stream->Write(ack);
    }
    return Status::OK;
  }

  Status BeginUpload(ServerContext*, const v1::BeginUploadRequest* request,
                     v1::BeginUploadResponse* response) override {
    std::lock_guard<std::mutex> lock(owner->mutex_);
    if (owner->refuse_blobs) return {grpc::StatusCode::FAILED_PRECONDITION, "no blobs today"};
    const std::string& bytes = owner->blobs[request->sha256()];
    response->set_have(bytes.size() == request->size() &&
                       common::Sha256Hex(bytes) == request->sha256());
    response->set_offset(bytes.size());
    return Status::OK;
  }

  Status UploadBlob(ServerContext*, grpc::ServerReader<v1::BlobChunk>* reader,
                    v1::UploadBlobResponse* response) override {
    v1::BlobChunk chunk;
    std::string hash;
    while (reader->Read(&chunk)) {
      std::lock_guard<std::mutex> lock(owner->mutex_);
      if (!chunk.sha256().empty()) hash = chunk.sha256();
      std::string& bytes = owner->blobs[hash];
      if (chunk.offset() != bytes.size()) owner->complaints.push_back("a blob chunk out of order");
      bytes += chunk.data();
      owner->blob_bytes_received += chunk.data().size();
    }
    std::lock_guard<std::mutex> lock(owner->mutex_);
    response->set_complete(common::Sha256Hex(owner->blobs[hash]) == hash);
    response->set_durable_offset(owner->blobs[hash].size());
    return Status::OK;
  }

  Status DownloadBlob(ServerContext*, const v1::DownloadBlobRequest* request,
                      grpc::ServerWriter<v1::BlobChunk>* writer) override {
    std::unique_lock<std::mutex> lock(owner->mutex_);
    auto found = owner->blobs.find(request->sha256());
    if (found == owner->blobs.end()) return {grpc::StatusCode::NOT_FOUND, "no such blob"};
    const std::string bytes = found->second;
    lock.unlock();
    for (size_t at = request->offset(); at < bytes.size(); at += 1000) {
      v1::BlobChunk chunk;
      chunk.set_offset(at);
      chunk.set_data(bytes.substr(at, 1000));
      writer->Write(chunk);
    }
    return Status::OK;
  }
};

FakeCoordinator::FakeCoordinator(std::string socket_path) : socket_(std::move(socket_path)) {}
FakeCoordinator::~FakeCoordinator() { Stop(); }

void FakeCoordinator::Start() {
  unlink(socket_.c_str());
  service_ = std::make_unique<Service>(this);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(endpoint(), grpc::InsecureServerCredentials());
  builder.RegisterService(service_.get());
  service_->server = builder.BuildAndStart();
}

void FakeCoordinator::Stop() {
  if (service_ == nullptr) return;
  service_->server->Shutdown(std::chrono::system_clock::now());
  service_->server->Wait();
  service_.reset();
}

void FakeCoordinator::Send(v1::CoordinatorMessage message) {
  std::lock_guard<std::mutex> lock(mutex_);
  message.set_epoch(epoch);
  if (service_ != nullptr && service_->control != nullptr) service_->control->Write(message);
}

bool FakeCoordinator::Wait(const std::function<bool()>& done) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), done);
}

}  // namespace muster::worker
