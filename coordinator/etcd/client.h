// A client of etcd v3: blocking calls with deadlines that continue at the next member when one does not answer.
// Any thread, several at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/etcd/address.h"
#include "etcd/rpc.pb.h"

namespace muster::coordinator::etcd {

struct Access {
  Address address;
  std::string
      authority_file;  // PEM; who signed the members' certificates. Empty: the system's authorities
  std::string certificate_file;  // PEM; ours, with key_file; empty: none
  std::string key_file;
  std::string user;           // empty: etcd's authentication is off
  std::string password_file;  // its first line
};

class Client {
 public:
  // How long one member has to answer before the next one is asked.
  static constexpr int64_t kMemberWithinMs = 1'000;

  // UNAVAILABLE at no time: members are dialed when they are needed.
  static absl::StatusOr<std::unique_ptr<Client>> Make(const Access& access);
  ~Client();

  // Each is tried at one member after the other until `within_ms` have passed. So a transaction may be done
  // although an earlier try of it already was: its compares must make that harmless, and show it.
  // UNAVAILABLE, DEADLINE_EXCEEDED: whether it was done is not known. RESOURCE_EXHAUSTED: etcd has no
  // space left; it was not done. Other errors: it was not done.
  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request,
                                                int64_t within_ms);
  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request,
                                                    int64_t within_ms);
  absl::Status Compact(int64_t revision, int64_t within_ms);
  struct Lease {
    int64_t id = 0;
    int64_t ttl_ms = 0;  // as etcd granted it: it may be more than was asked for
  };
  absl::StatusOr<Lease> Grant(int64_t ttl_ms, int64_t within_ms);
  // Its remaining life. NOT_FOUND: it is over.
  absl::StatusOr<int64_t> KeepAlive(int64_t lease, int64_t within_ms);
  absl::Status Revoke(int64_t lease, int64_t within_ms);

  // "/NAME/" + `rest`.
  std::string Key(const std::string& rest) const;
  const Address& address() const;

 private:
  struct Parts;
  explicit Client(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

// The end of the range of all keys that begin with `prefix`.
std::string EndOfPrefix(std::string prefix);

}  // namespace muster::coordinator::etcd
