#include "tests/client/fake_head.h"

#include <chrono>

#include "common/base/clock.h"
#include "common/problem.h"
#include "coordinator/services/grpc_status.h"

namespace muster::client {

class FakeHead::Service final : public v1::JobService::Service {
 public:
  explicit Service(FakeHead* head) : head_(head) {}

  grpc::Status GetServer(grpc::ServerContext*, const v1::GetServerRequest*,
                         v1::GetServerResponse* response) override {
    const int question = ++head_->questions_;
    std::lock_guard lock(head_->mutex_);
    if (!head_->refused_.ok()) return coordinator::ToGrpc(head_->refused_);
    response->set_version("0.1.0");
    response->set_protocol(1);
    response->mutable_heads()->Add(head_->heads_.begin(), head_->heads_.end());
    response->set_stands_by(head_->stands_by_ || question < head_->leads_from_);
    response->set_leader(response->stands_by() ? head_->leader_ : head_->address_);
    return grpc::Status::OK;
  }
  grpc::Status ListCoordinators(grpc::ServerContext*, const v1::ListCoordinatorsRequest*,
                                v1::ListCoordinatorsResponse* response) override {
    *response = head_->coordinators;
    return grpc::Status::OK;
  }
  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest* request,
                      v1::SubmitResponse* response) override {
    return Answer(head_->on_submit, *request, response);
  }
  grpc::Status Run(grpc::ServerContext*, const v1::SubmitRequest* request,
                   grpc::ServerWriter<v1::JobUpdate>* writer) override {
    return Stream(head_->on_run, *request, writer);
  }
  grpc::Status CancelJobs(grpc::ServerContext*, const v1::CancelJobsRequest* request,
                          v1::BulkResponse* response) override {
    return Answer(head_->on_cancel, *request, response);
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::JobReference* request,
                      v1::GetJobResponse* response) override {
    return Answer(head_->on_job, *request, response);
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return Answer(head_->on_list, *request, response);
  }
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobUpdate>* writer) override {
    return Stream(head_->on_watch, *request, writer);
  }
  grpc::Status StreamLogs(grpc::ServerContext*, const v1::StreamLogsRequest* request,
                          grpc::ServerWriter<v1::LogRecord>* writer) override {
    return Stream(head_->on_logs, *request, writer);
  }
  grpc::Status ListEvents(grpc::ServerContext*, const v1::ListEventsRequest* request,
                          grpc::ServerWriter<v1::EventBatch>* writer) override {
    return Stream(head_->on_events, *request, writer);
  }

 private:
  grpc::Status Refusal() {
    std::lock_guard lock(head_->mutex_);
    if (!head_->stands_by_) return grpc::Status::OK;
    return coordinator::ToGrpc(common::MakeProblem(
        absl::StatusCode::kUnavailable, {.code = "JC1630", .what = "this coordinator stands by"}));
  }
  template <typename Request, typename Response>
  grpc::Status Answer(const Handler<Request, Response*>& handler, const Request& request,
                      Response* response) {
    if (grpc::Status refused = Refusal(); !refused.ok()) return refused;
    return handler == nullptr ? grpc::Status::OK : handler(request, response);
  }
  template <typename Request, typename Message>
  grpc::Status Stream(const Handler<Request, Send<Message>>& handler, const Request& request,
                      grpc::ServerWriter<Message>* writer) {
    if (grpc::Status refused = Refusal(); !refused.ok()) return refused;
    if (handler == nullptr) return grpc::Status::OK;
    return handler(request, [writer](const Message& message) { writer->Write(message); });
  }

  FakeHead* head_;
};

FakeHead::FakeHead(const Identity& identity) : service_(std::make_unique<Service>(this)) {
  std::shared_ptr<grpc::ServerCredentials> proof = grpc::InsecureServerCredentials();
  if (!identity.key.empty()) {
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = identity.authority;
    options.pem_key_cert_pairs = {{identity.key, identity.certificate}};
    proof = grpc::SslServerCredentials(options);
  }
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", proof, &port);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

FakeHead::~FakeHead() { Die(); }

void FakeHead::Lead() {
  std::lock_guard lock(mutex_);
  stands_by_ = false;
}

void FakeHead::StandBy(const std::string& leader) {
  std::lock_guard lock(mutex_);
  stands_by_ = true;
  leader_ = leader;
}

void FakeHead::Refuse(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  refused_ = why;
}

void FakeHead::NameHeads(const std::vector<std::string>& heads) {
  std::lock_guard lock(mutex_);
  heads_ = heads;
}

grpc::Status FakeHead::HoldUntilDeath() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_dying_; });
  return Broken();
}

void FakeHead::Die() {
  {
    std::lock_guard lock(mutex_);
    if (is_dying_) return;
    is_dying_ = true;
  }
  changed_.notify_all();
  server_->Shutdown(std::chrono::system_clock::now());
}

FakeAuthority::FakeAuthority()
    : now_ms_(common::SystemClock().Read().wall_ms),
      authority_(identity::Authority::Create("lab", now_ms_)) {}

std::string FakeAuthority::Issue(const identity::Subject& subject,
                                 const identity::PrivateKey& key) const {
  identity::Authority::Order order{
      .key = key.handle(), .subject = subject, .now_ms = now_ms_, .lives_ms = 3'600'000};
  if (subject.kind == identity::Kind::kCoordinator)
    order.dns_names = {std::string(identity::kCoordinatorDnsName)};
  return authority_.Issue(order).pem;
}

FakeHead::Identity FakeAuthority::Head(const std::string& trusts) const {
  const identity::PrivateKey key = identity::PrivateKey::Generate();
  return {.authority = trusts,
          .certificate = Issue({identity::Kind::kCoordinator, "head"}, key),
          .key = key.ToPem()};
}

identity::Credentials FakeAuthority::Person() const {
  const identity::PrivateKey key = identity::PrivateKey::Generate();
  return {.key_pem = key.ToPem(),
          .certificate_pem = Issue({identity::Kind::kUser, "alice"}, key),
          .authority_pem = pem(),
          .cluster = "lab",
          .name = "alice"};
}

}  // namespace muster::client
