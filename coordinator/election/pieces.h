// The log in etcd: what adds a piece to it, and how pieces become entries. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "etcd/rpc.pb.h"
#include "muster/v1/head.pb.h"

namespace muster::coordinator::election {

// Adds a piece as the leader of a term, once, however often it is tried.
etcdserverpb::TxnRequest AddPieceTxn(const std::string& leader_key, int64_t term,
                                     const std::string& piece_key, const std::string& value);
// False: another coordinator leads, and the piece is not in the log.
bool IsAdded(const etcdserverpb::TxnResponse& answer, const std::string& value);

// Collects pieces, in the order of the log, into entries.
class Gathering {
 public:
  // The changes of the entry that is whole with this piece.
  std::optional<std::string> Add(const v1::CommitPiece& piece);

  // Of the entry that lacks its last piece.
  size_t Bytes() const { return gathered_.size(); }

 private:
  std::string gathered_;
  bool is_gathering_ = false;
};

}  // namespace muster::coordinator::election
