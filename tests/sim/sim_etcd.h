// A model of etcd: keys with revisions, leases that expire in etcd's own time, transactions with compares, and reads
// of a member that is behind. It takes etcd's own messages.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "etcd/rpc.pb.h"
#include "tests/sim/event_queue.h"

namespace muster::sim {

class SimEtcd {
 public:
  // `rate`: how fast its clock runs. `written`: a transaction wrote a key, before it is visible to anyone.
  SimEtcd(EventQueue& queue, double rate,
          std::function<void(const etcdserverpb::PutRequest&)> written)
      : queue_(queue), rate_(rate), written_(std::move(written)) {}

  // Runs a request that has arrived: at once, or while the members elect their leader, later or never.
  void Arrive(std::function<void()> request);
  // The members elect a leader for so long. Leases last their whole time from then on.
  void Elect(int64_t lasts_ms);

  absl::StatusOr<etcdserverpb::TxnResponse> Txn(const etcdserverpb::TxnRequest& request);
  absl::StatusOr<etcdserverpb::RangeResponse> Range(const etcdserverpb::RangeRequest& request);
  int64_t Grant(int64_t ttl_ms);
  // Its life from now on; 0: it is over.
  int64_t KeepAlive(int64_t lease);
  void Revoke(int64_t lease);

  int64_t revision() const { return revision_; }
  const etcdserverpb::KeyValue* Find(const std::string& key) const;
  // Calls once, with the next change.
  void OnChange(std::function<void()> changed) { waiting_.push_back(std::move(changed)); }

 private:
  // A key's values, the newest last; without a value: it is absent from then on.
  struct Version {
    int64_t revision;
    std::optional<etcdserverpb::KeyValue> pair;
  };
  struct Lease {
    int64_t ttl_ms;
    int64_t ends_ms;     // by the queue's time
    int64_t revoked_ms;  // a moment later, when its keys go
  };

  bool Holds(const etcdserverpb::Compare& compare) const;
  void Do(const etcdserverpb::RequestOp& op, etcdserverpb::ResponseOp* answer);
  etcdserverpb::RangeResponse RangeAt(const etcdserverpb::RangeRequest& request,
                                      int64_t revision) const;
  const etcdserverpb::KeyValue* FindAt(const std::vector<Version>& versions,
                                       int64_t revision) const;
  void Renew(int64_t id, Lease& lease);
  void ExpireLater(int64_t id);
  void Changed();
  int64_t RevisionBefore(int64_t lag_ms) const;

  EventQueue& queue_;
  const double rate_;
  const std::function<void(const etcdserverpb::PutRequest&)> written_;
  std::map<std::string, std::vector<Version>> keys_;
  std::map<int64_t, Lease> leases_;
  std::deque<std::pair<int64_t, int64_t>> revisions_;  // (when, revision), of the last seconds
  std::vector<std::function<void()>> waiting_;
  int64_t revision_ = 1;
  int64_t next_lease_ = 1;
  int64_t electing_until_ms_ = 0;
};

}  // namespace muster::sim
