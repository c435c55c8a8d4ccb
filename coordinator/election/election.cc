#include "coordinator/election/election.h"

#include "coordinator/base/term.h"
#include "coordinator/etcd/requests.h"

namespace muster::coordinator::election {

bool MayCampaign(const Lease& lease, int64_t now_ms) {
  return now_ms < lease.renewed_sent_ms + Term::SureFor(lease.ttl_ms);
}

etcdserverpb::Compare IsAbsent(const std::string& key) {
  etcdserverpb::Compare compare;
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::CREATE);
  compare.set_result(etcdserverpb::Compare::EQUAL);
  compare.set_create_revision(0);
  return compare;
}

etcdserverpb::Compare IsStillLeader(const std::string& leader_key, int64_t term) {
  etcdserverpb::Compare compare = IsAbsent(leader_key);
  compare.set_create_revision(term);
  return compare;
}

bool IsOurs(const etcdserverpb::KeyValue& leader, const v1::HeadRecord& self, int64_t lease) {
  v1::HeadRecord record;
  return leader.lease() == lease && record.ParseFromString(leader.value()) &&
         record.name() == self.name() && record.instance() == self.instance();
}

bool ShouldCampaign(const etcdserverpb::RangeResponse& leader, const v1::HeadRecord& self,
                    int64_t lease) {
  return leader.kvs().empty() || IsOurs(leader.kvs(0), self, lease);
}

etcdserverpb::TxnRequest CampaignTxn(const std::string& leader_key, const v1::HeadRecord& self,
                                     int64_t lease) {
  etcdserverpb::TxnRequest request;
  *request.add_compare() = IsAbsent(leader_key);
  etcd::AddPut(request, leader_key, self.SerializeAsString(), lease);
  request.add_failure()->mutable_request_range()->set_key(leader_key);
  return request;
}

std::optional<int64_t> TermWon(const etcdserverpb::TxnResponse& answer, const v1::HeadRecord& self,
                               int64_t lease) {
  if (answer.succeeded()) return answer.header().revision();
  if (answer.responses_size() != 1) return std::nullopt;
  const auto& kvs = answer.responses(0).response_range().kvs();
  if (kvs.size() != 1 || !IsOurs(kvs[0], self, lease)) return std::nullopt;
  return kvs[0].create_revision();
}

}  // namespace muster::coordinator::election
