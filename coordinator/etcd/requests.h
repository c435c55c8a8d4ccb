// The parts of etcd's transactions that several rooms put together. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "etcd/rpc.pb.h"

namespace muster::coordinator::etcd {

// If the compares hold: writes the key, which goes with `lease`; 0: it stays.
inline void AddPut(etcdserverpb::TxnRequest& request, const std::string& key,
                   const std::string& value, int64_t lease = 0) {
  etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(value);
  put.set_lease(lease);
}

// If the compares hold: removes the keys from `begin` on that are before `end`; empty: only `begin`.
inline void AddRemoval(etcdserverpb::TxnRequest& request, const std::string& begin,
                       const std::string& end = {}) {
  etcdserverpb::DeleteRangeRequest& removal =
      *request.add_success()->mutable_request_delete_range();
  removal.set_key(begin);
  removal.set_range_end(end);
}

}  // namespace muster::coordinator::etcd
