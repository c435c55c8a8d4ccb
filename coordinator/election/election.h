// Who leads among several coordinators. The leader's key in etcd holds the leader's record, with the lease of that
// coordinator; its create-revision is the term, and every transaction of a leader compares it. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "etcd/rpc.pb.h"
#include "muster/v1/head.pb.h"

namespace muster::coordinator::election {

// What a coordinator knows of its lease.
struct Lease {
  int64_t id = 0;
  int64_t ttl_ms = 0;
  // When the grant or renewal that was answered last was sent, by its own clock.
  int64_t renewed_sent_ms = 0;
};

// A lease whose last renewal is older than two thirds of it may be over.
bool MayCampaign(const Lease& lease, int64_t now_ms);

etcdserverpb::Compare IsAbsent(const std::string& key);
// That the leader's key is still the one of this term.
etcdserverpb::Compare IsStillLeader(const std::string& leader_key, int64_t term);

// The leader's key was written by this run of `self`, and goes with `lease`. Then it must lead: no other head can as
// long as it renews that lease, also if the answer to the campaign that it won was lost, or it could not catch up then.
bool IsOurs(const etcdserverpb::KeyValue& leader, const v1::HeadRecord& self, int64_t lease);
// After a look at the leader's key.
bool ShouldCampaign(const etcdserverpb::RangeResponse& leader, const v1::HeadRecord& self,
                    int64_t lease);
etcdserverpb::TxnRequest CampaignTxn(const std::string& leader_key, const v1::HeadRecord& self,
                                     int64_t lease);
// The term that has begun, if `self` won, now or by an earlier try.
std::optional<int64_t> TermWon(const etcdserverpb::TxnResponse& answer, const v1::HeadRecord& self,
                               int64_t lease);

}  // namespace muster::coordinator::election
