// What has left the database for the archive (stores/archive.h): the table `archive`, the rows that go, and the
// blobs that have them.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/stores/blob_store.h"
#include "muster/v1/event.pb.h"

namespace muster::coordinator {

inline constexpr char kArchiveTable[] = "archive";

// As the table has them.
enum class ArchivedKind : int64_t {
  kJob = 1,    // key: its id; last: the last of its events that is there
  kAudit = 2,  // key: the first entry; last: the last one
};

struct ArchivedPart {
  ArchivedKind kind = ArchivedKind::kJob;
  int64_t key = 0;
  int64_t last = 0;
  std::string sha256;
  int64_t bytes = 0;
  std::string head;  // the coordinator that moved it; empty: one that was alone
};

// The audit is read, and leaves, in parts of so many entries.
inline constexpr int64_t kAuditPartEntries = 1'000;
constexpr int64_t LastOfAuditPart(int64_t first) {
  return (first / kAuditPartEntries + 1) * kAuditPartEntries - 1;
}

// A job with more stays where it is.
// limit: several coordinators: a finished job that leaves etcd, with its events; a larger one stays there
inline constexpr int64_t kArchivedBytesMost = 64 << 20;

// nullopt: it is not archived.
absl::StatusOr<std::optional<ArchivedPart>> FindArchived(Database& database, ArchivedKind kind,
                                                         int64_t key);

// All parts; an error of `each` ends it.
absl::Status ForEachArchived(Database& database,
                             const std::function<absl::Status(const ArchivedPart&)>& each);

// The part's bytes, from its rows. nullopt: they are not there, or have about kArchivedBytesMost or more.
absl::StatusOr<std::optional<std::string>> PackRows(Database& database, ArchivedKind kind,
                                                    int64_t key, int64_t last);
// In a transaction: the rows go, and the table tells where they are.
absl::Status MoveRows(Database& database, const ArchivedPart& part);

// Why its blob is not here: FAILED_PRECONDITION, JC1632, another coordinator has it; DATA_LOSS, none has.
absl::Status ArchivedElsewhere(const ArchivedPart& part);
// Reads the blob of a part into its message. ArchivedElsewhere. DATA_LOSS: it is not what was put.
absl::Status ReadArchived(const BlobStore& blobs, const ArchivedPart& part,
                          google::protobuf::MessageLite* message);

// Its events above `after`, up to `until`, of the node if one is named; in order, as many as have `bytes`, and one more.
// 0: all.
struct EventsWanted {
  std::string node;
  uint64_t after = 0;
  uint64_t until = 0;
  size_t bytes = 0;
};
absl::StatusOr<std::vector<v1::Event>> ReadArchivedEvents(const BlobStore& blobs,
                                                          const ArchivedPart& part,
                                                          const EventsWanted& wanted);

}  // namespace muster::coordinator
