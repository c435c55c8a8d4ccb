// Requests to one bucket: signed, sent, retried. Blocks; any thread, several at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/http/transfers.h"
#include "coordinator/s3/address.h"
#include "coordinator/s3/credential_chain.h"
#include "coordinator/s3/credentials.h"
#include "coordinator/s3/refusals.h"
#include "coordinator/s3/retry.h"
#include "coordinator/s3/signature.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator::s3 {

struct ClientOptions {
  Address address;
  Environment environment = SystemEnvironment;
  RetryPolicy retry = {};
  std::chrono::seconds silent_for{20};
  const common::Clock* clock = nullptr;     // null: the machine's
  const std::atomic<bool>* stop = nullptr;  // the coordinator is stopping: calls end with CANCELLED
};

struct Request {
  std::string method;
  std::string key = {};  // empty: of the bucket
  Fields query = {};
  Fields headers = {};  // besides those of the signature
  common::ByteSource body = std::string_view();
  std::function<absl::Status(std::string_view)> sink = nullptr;  // as of Transfer
  std::function<bool(const common::TransferAnswer&)> is_sunk = nullptr;
  uint64_t expected = 0;               // bytes of the answer, for the time it may take
  std::chrono::seconds silent_for{0};  // the least that it may be silent for; else as the client's
};

class Client {
 public:
  // A transfer that is slower than this is given up, and tried again.
  static constexpr uint64_t kSlowestBytesPerS = 128 * 1024;

  // FAILED_PRECONDITION: libcurl is not installed. Nothing is asked yet.
  static absl::StatusOr<std::unique_ptr<Client>> Make(ClientOptions options);

  const Address& address() const { return options_.address; }
  Retry NewRetry() const { return {options_.retry, options_.stop}; }

  // An answer of 2xx. Other errors are those of Objects. What was asked may have been done although it fails with
  // UNAVAILABLE; so, after a retry, it may have been done before.
  absl::StatusOr<common::TransferAnswer> Call(const Request& request, Retry& retry);
  absl::StatusOr<common::TransferAnswer> Call(const Request& request);
  // One try, without a wait for another one.
  absl::StatusOr<common::TransferAnswer> Try(const Request& request);

  // Nothing is asked: a clock that is wrong is corrected only once a call was refused for it.
  absl::StatusOr<PresignedUrl> Presign(const Request& request, std::chrono::seconds life);

 private:
  Client(ClientOptions options, std::unique_ptr<common::Transfers> transfers);
  absl::StatusOr<std::string> PayloadOf(const Request& request) const;
  absl::StatusOr<common::TransferAnswer> Send(const Request& request, const std::string& payload,
                                              const Credentials& credentials);
  // By the store's clock, as far as it is known.
  int64_t WallMs() const;
  // Takes the store's time for ours. False: it does not differ from what was signed with.
  bool CorrectClock(const common::TransferAnswer& answer);

  const ClientOptions options_;
  const common::SystemClock system_clock_;
  const std::unique_ptr<common::Transfers> transfers_;
  std::atomic<int64_t> clock_behind_ms_ = 0;  // the store's time less ours
  CredentialCache credentials_;
};

}  // namespace muster::coordinator::s3
