#include "coordinator/election/pieces.h"

#include <utility>

#include "coordinator/election/election.h"
#include "coordinator/etcd/requests.h"

namespace muster::coordinator::election {

etcdserverpb::TxnRequest AddPieceTxn(const std::string& leader_key, int64_t term,
                                     const std::string& piece_key, const std::string& value) {
  etcdserverpb::TxnRequest request;
  *request.add_compare() = IsStillLeader(leader_key, term);
  *request.add_compare() = IsAbsent(piece_key);
  etcd::AddPut(request, piece_key, value);
  request.add_failure()->mutable_request_range()->set_key(piece_key);
  return request;
}

bool IsAdded(const etcdserverpb::TxnResponse& answer, const std::string& value) {
  if (answer.succeeded()) return true;
  // Ours, by an earlier try without an answer: each leader's pieces have their own number of the writer.
  return answer.responses_size() == 1 && answer.responses(0).response_range().kvs_size() == 1 &&
         answer.responses(0).response_range().kvs(0).value() == value;
}

std::optional<std::string> Gathering::Add(const v1::CommitPiece& piece) {
  if (piece.first()) {
    // What was gathered is from a leader that died before its last piece.
    gathered_.clear();
    is_gathering_ = true;
  }
  if (!is_gathering_) return std::nullopt;
  gathered_ += piece.changes();
  if (!piece.last()) return std::nullopt;
  is_gathering_ = false;
  return std::exchange(gathered_, {});
}

}  // namespace muster::coordinator::election
