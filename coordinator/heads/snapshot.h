// A copy of the whole state in etcd, in chunks, so that the log before it can be removed and a coordinator that
// was away for long, or is new, need not read from the beginning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/etcd/client.h"
#include "coordinator/stores/replica.h"
#include "muster/v1/head.pb.h"

namespace muster::coordinator::heads {

// Nothing: there is none.
absl::StatusOr<std::optional<v1::SnapshotMark>> ReadSnapshotMark(etcd::Client& client);

// As the leader of this term: writes the file, which has the entries up to `position`, and then tells that it is
// there. ABORTED: another one leads.
absl::StatusOr<v1::SnapshotMark> WriteSnapshot(etcd::Client& client, int64_t term_revision,
                                               const std::string& file, uint64_t position);
// As the leader: removes the log's pieces up to `number`, and snapshots older than this one; then lets etcd forget
// what they were. Returns the revision.
absl::Status Trim(etcd::Client& client, int64_t term_revision, const v1::SnapshotMark& newest,
                  uint64_t number);

// Writes the snapshot's bytes into a file. NOT_FOUND: a newer one has replaced it meanwhile. DATA_LOSS: it cannot be
// read.
absl::Status ReadSnapshot(etcd::Client& client, const v1::SnapshotMark& mark,
                          const std::string& file);

}  // namespace muster::coordinator::heads
