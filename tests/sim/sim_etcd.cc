#include "tests/sim/sim_etcd.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/witness.h"

namespace muster::sim {
namespace {

// How far a member may be behind.
constexpr int64_t kLagMs = 3'000;

}  // namespace

void SimEtcd::Arrive(std::function<void()> request) {
  if (queue_.now_ms() >= electing_until_ms_) return request();
  if (queue_.Chance(0.4)) return;
  queue_.After(electing_until_ms_ - queue_.now_ms() + queue_.Draw(0, 50), std::move(request));
}

void SimEtcd::Elect(int64_t lasts_ms) {
  electing_until_ms_ = std::max(electing_until_ms_, queue_.now_ms() + lasts_ms);
  for (auto& [id, lease] : leases_) Renew(id, lease);
}

const etcdserverpb::KeyValue* SimEtcd::FindAt(const std::vector<Version>& versions,
                                              int64_t revision) const {
  const auto after = std::find_if(versions.rbegin(), versions.rend(), [&](const Version& version) {
    return version.revision <= revision;
  });
  return after == versions.rend() || !after->pair.has_value() ? nullptr : &*after->pair;
}

const etcdserverpb::KeyValue* SimEtcd::Find(const std::string& key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : FindAt(found->second, revision_);
}

bool SimEtcd::Holds(const etcdserverpb::Compare& compare) const {
  const etcdserverpb::KeyValue* const pair = Find(compare.key());
  if (compare.result() != etcdserverpb::Compare::EQUAL)
    throw Broken("the model of etcd lacks a compare");
  switch (compare.target()) {
    case etcdserverpb::Compare::VERSION:
      return compare.version() == (pair == nullptr ? 0 : pair->version());
    case etcdserverpb::Compare::CREATE:
      return compare.create_revision() == (pair == nullptr ? 0 : pair->create_revision());
    default:
      throw Broken("the model of etcd lacks a compare");
  }
}

absl::StatusOr<etcdserverpb::TxnResponse> SimEtcd::Txn(const etcdserverpb::TxnRequest& request) {
  const bool holds = std::all_of(request.compare().begin(), request.compare().end(),
                                 [this](const auto& compare) { return Holds(compare); });
  const auto& ops = holds ? request.success() : request.failure();
  bool writes = false;
  for (const etcdserverpb::RequestOp& op : ops) {
    if (!op.has_request_put()) continue;
    const int64_t lease = op.request_put().lease();
    if (lease != 0 && !leases_.contains(lease))
      return absl::NotFoundError("requested lease not found");
    writes = true;
  }
  if (writes) ++revision_;
  etcdserverpb::TxnResponse answer;
  answer.set_succeeded(holds);
  answer.mutable_header()->set_revision(revision_);
  for (const etcdserverpb::RequestOp& op : ops) Do(op, answer.add_responses());
  if (writes) Changed();
  return answer;
}

void SimEtcd::Do(const etcdserverpb::RequestOp& op, etcdserverpb::ResponseOp* answer) {
  if (op.has_request_range()) {
    *answer->mutable_response_range() = RangeAt(op.request_range(), revision_);
    return;
  }
  const etcdserverpb::PutRequest& put = op.request_put();
  written_(put);
  const etcdserverpb::KeyValue* const before = Find(put.key());
  etcdserverpb::KeyValue pair;
  pair.set_key(put.key());
  pair.set_value(put.value());
  pair.set_lease(put.lease());
  pair.set_create_revision(before == nullptr ? revision_ : before->create_revision());
  pair.set_mod_revision(revision_);
  pair.set_version(before == nullptr ? 1 : before->version() + 1);
  keys_[put.key()].push_back({revision_, std::move(pair)});
  answer->mutable_response_put();
}

etcdserverpb::RangeResponse SimEtcd::RangeAt(const etcdserverpb::RangeRequest& request,
                                             int64_t revision) const {
  etcdserverpb::RangeResponse answer;
  answer.mutable_header()->set_revision(revision);
  for (auto at = keys_.lower_bound(request.key()); at != keys_.end(); ++at) {
    const bool is_in =
        request.range_end().empty() ? at->first == request.key() : at->first < request.range_end();
    if (!is_in) break;
    const etcdserverpb::KeyValue* const pair = FindAt(at->second, revision);
    if (pair == nullptr) continue;
    if (request.limit() > 0 && answer.kvs_size() == request.limit()) {
      answer.set_more(true);
      break;
    }
    *answer.add_kvs() = *pair;
  }
  return answer;
}

absl::StatusOr<etcdserverpb::RangeResponse> SimEtcd::Range(
    const etcdserverpb::RangeRequest& request) {
  const bool is_behind = request.serializable() && queue_.Chance(0.2);
  if (!is_behind) return RangeAt(request, revision_);
  return RangeAt(request,
                 RevisionBefore(queue_.Chance(0.8) ? queue_.Draw(1, 200) : queue_.Draw(1, kLagMs)));
}

int64_t SimEtcd::RevisionBefore(int64_t lag_ms) const {
  int64_t revision = revisions_.empty() ? revision_ : revisions_.front().second;
  for (const auto& [at_ms, number] : revisions_) {
    if (at_ms > queue_.now_ms() - lag_ms) break;
    revision = number;
  }
  return revision;
}

int64_t SimEtcd::Grant(int64_t ttl_ms) {
  const int64_t id = next_lease_++;
  leases_[id].ttl_ms = ttl_ms;
  Renew(id, leases_[id]);
  return id;
}

int64_t SimEtcd::KeepAlive(int64_t id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) {
    // etcd before 3.4.38 may answer as if it were renewed.
    return id < next_lease_ && queue_.Chance(0.02) ? 5'000 : 0;
  }
  if (found->second.ends_ms <= queue_.now_ms()) return 0;
  Renew(id, found->second);
  return found->second.ttl_ms;
}

void SimEtcd::Renew(int64_t id, Lease& lease) {
  const int64_t from_ms = std::max(queue_.now_ms(), electing_until_ms_);
  const bool is_watched = lease.revoked_ms > 0;
  lease.ends_ms = from_ms + static_cast<int64_t>(static_cast<double>(lease.ttl_ms) / rate_);
  lease.revoked_ms = lease.ends_ms + (queue_.Chance(0.5) ? 0 : queue_.Draw(0, 600));
  if (!is_watched) ExpireLater(id);
}

void SimEtcd::ExpireLater(int64_t id) {
  queue_.After(leases_.at(id).revoked_ms - queue_.now_ms(), [this, id] {
    const auto found = leases_.find(id);
    if (found == leases_.end()) return;
    found->second.revoked_ms > queue_.now_ms() ? ExpireLater(id) : Revoke(id);
  });
}

void SimEtcd::Revoke(int64_t id) {
  if (leases_.erase(id) == 0) return;
  std::vector<std::string> gone;
  for (const auto& [key, versions] : keys_) {
    const etcdserverpb::KeyValue* const pair = FindAt(versions, revision_);
    if (pair != nullptr && pair->lease() == id) gone.push_back(key);
  }
  if (gone.empty()) return;
  ++revision_;
  for (const std::string& key : gone) {
    queue_.Trace(absl::StrCat("etcd: ", key, " is gone with its lease"));
    keys_[key].push_back({revision_, std::nullopt});
  }
  Changed();
}

void SimEtcd::Changed() {
  revisions_.emplace_back(queue_.now_ms(), revision_);
  while (revisions_.size() > 1 && revisions_[1].first < queue_.now_ms() - kLagMs)
    revisions_.pop_front();
  for (auto& changed : std::exchange(waiting_, {})) changed();
}

}  // namespace muster::sim
