// One of several coordinators of a cluster that replace each other, in this process and on a TCP port:
// it leads or stands by, steps down, and dies.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "identity/certificate.h"
#include "identity/credential_files.h"
#include "identity/keys.h"
#include "identity/names.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::client {

class FakeHead {
 public:
  // PEM texts of a head that speaks TLS.
  struct Identity {
    std::string authority, certificate, key;
  };
  FakeHead() : FakeHead(Identity{}) {}
  explicit FakeHead(const Identity& identity);
  ~FakeHead();

  const std::string& address() const { return address_; }
  void Lead();
  void StandBy(const std::string& leader = "");
  // It leads from the `question`th GetServer on, counted from 1.
  void LeadFrom(int question) { leads_from_ = question; }
  // It leads, and answers this to GetServer.
  void Refuse(const absl::Status& why);
  void NameHeads(const std::vector<std::string>& heads);
  // Breaks every call, and refuses connections from now on.
  void Die();
  int questions() const { return questions_; }  // GetServer

  // What it answers while it leads, called on gRPC's threads. A call without a handler is OK and empty.
  template <typename Request, typename Answer>
  using Handler = std::function<grpc::Status(const Request&, const Answer&)>;
  template <typename Message>
  using Send = std::function<void(const Message&)>;
  Handler<v1::SubmitRequest, v1::SubmitResponse*> on_submit;
  v1::ListCoordinatorsResponse coordinators;  // also while it stands by
  Handler<v1::SubmitRequest, Send<v1::JobUpdate>> on_run;
  Handler<v1::CancelJobsRequest, v1::BulkResponse*> on_cancel;
  Handler<v1::JobReference, v1::GetJobResponse*> on_job;
  Handler<v1::ListJobsRequest, v1::ListJobsResponse*> on_list;
  Handler<v1::WatchJobRequest, Send<v1::JobUpdate>> on_watch;
  Handler<v1::StreamLogsRequest, Send<v1::LogRecord>> on_logs;
  Handler<v1::ListEventsRequest, Send<v1::EventBatch>> on_events;

  // How a call ends when its coordinator goes away.
  static grpc::Status Broken() { return {grpc::StatusCode::UNAVAILABLE, "Socket closed"}; }
  // For a handler: returns that once this head dies.
  grpc::Status HoldUntilDeath();

 private:
  class Service;
  std::string address_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<int> questions_{0};
  std::atomic<int> leads_from_{1};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool is_dying_ = false;
  bool stands_by_ = false;
  absl::Status refused_;
  std::string leader_;
  std::vector<std::string> heads_;
};

// An authority of a cluster "lab", and what it certifies.
class FakeAuthority {
 public:
  FakeAuthority();
  const std::string& pem() const { return authority_.certificate_pem(); }
  // Of a head; `trusts` is the authority of those that may connect to it.
  FakeHead::Identity Head(const std::string& trusts) const;
  // Of a person, alice.
  identity::Credentials Person() const;

 private:
  std::string Issue(const identity::Subject& subject, const identity::PrivateKey& key) const;

  const int64_t now_ms_;
  const identity::Authority authority_;
};

}  // namespace muster::client
