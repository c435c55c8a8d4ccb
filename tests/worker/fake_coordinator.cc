// fake_coordinator: gRPC's synchronous server; one thread per stream is fine for a test.
#include "tests/worker/fake_coordinator.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <optional>

#include "common/hash/sha256.h"
#include "muster/v1/worker_service.grpc.pb.h"
#include "tests/worker/fake_head.h"

namespace muster::worker {

using grpc::ServerContext;
using grpc::Status;

struct FakeCoordinator::Service final : v1::WorkerService::Service {
  Service(FakeCoordinator* owner, std::string address)
      : owner(owner), address(std::move(address)) {}

  FakeCoordinator* const owner;
  std::string address;
  std::unique_ptr<grpc::Server> server;
  grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* control = nullptr;

  // Nothing: it leads.
  std::optional<Status> Refusal() {
    std::lock_guard<std::mutex> lock(owner->mutex_);
    if (owner->leader.empty() || owner->leader == address) return std::nullopt;
    ++owner->asked_in_vain[address];
    owner->changed_.notify_all();
    return StandsBy();
  }

  void Note(const v1::AttemptStatus& status) {
    owner->statuses[{status.job(), status.attempt()}] = status;
  }

  Status Connect(
      ServerContext*,
      grpc::ServerReaderWriter<v1::CoordinatorMessage, v1::WorkerMessage>* stream) override {
    if (const auto refusal = Refusal()) return *refusal;
    v1::WorkerMessage message;
    while (stream->Read(&message)) {
      std::lock_guard<std::mutex> lock(owner->mutex_);
      v1::CoordinatorMessage answer;
      answer.set_epoch(owner->epoch);
      if (message.has_register_()) {
        control = stream;
        owner->registrations.push_back(message.register_());
        for (const auto& status : message.register_().attempts()) Note(status);
        owner->registered_at.push_back(address);
        answer.mutable_registered()->set_heartbeat_ms(200);
        answer.mutable_registered()->mutable_heads()->Assign(owner->heads.begin(),
                                                             owner->heads.end());
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
    if (const auto refusal = Refusal()) return *refusal;
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
    if (const auto refusal = Refusal()) return *refusal;
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
    if (const auto refusal = Refusal()) return *refusal;
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
    if (const auto refusal = Refusal()) return *refusal;
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

  Status ListResumeFiles(ServerContext*, const v1::ListResumeFilesRequest* request,
                         grpc::ServerWriter<v1::CheckpointFiles>* writer) override {
    std::lock_guard<std::mutex> lock(owner->mutex_);
    owner->listed = *request;
    writer->Write(owner->resume_files);
    return Status::OK;
  }

  Status DownloadBlob(ServerContext*, const v1::DownloadBlobRequest* request,
                      grpc::ServerWriter<v1::BlobChunk>* writer) override {
    if (const auto refusal = Refusal()) return *refusal;
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

void FakeCoordinator::Start() { StartHead(endpoint()); }

void FakeCoordinator::Stop() {
  while (!services_.empty()) StopHead(services_.begin()->first);
}

std::string FakeCoordinator::StartHead(const std::string& address) {
  if (address.starts_with("unix:")) unlink(address.substr(5).c_str());
  auto service = std::make_unique<Service>(this, address);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service.get());
  service->server = builder.BuildAndStart();
  if (address.ends_with(":0"))
    service->address = address.substr(0, address.size() - 1) + std::to_string(port);
  std::lock_guard<std::mutex> lock(mutex_);
  const std::string now = service->address;
  services_[now] = std::move(service);
  return now;
}

void FakeCoordinator::StopHead(const std::string& address) {
  Service& service = *services_.at(address);
  service.server->Shutdown(std::chrono::system_clock::now());
  service.server->Wait();
  std::lock_guard<std::mutex> lock(mutex_);
  services_.erase(address);
}

void FakeCoordinator::Lead(const std::string& address) {
  std::lock_guard<std::mutex> lock(mutex_);
  leader = address;
  ++epoch;
}

void FakeCoordinator::Send(v1::CoordinatorMessage message) {
  std::lock_guard<std::mutex> lock(mutex_);
  message.set_epoch(epoch);
  for (const auto& [address, service] : services_) {
    if (service->control != nullptr) service->control->Write(message);
  }
}

bool FakeCoordinator::Wait(const std::function<bool()>& done) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(20), done);
}

}  // namespace muster::worker
