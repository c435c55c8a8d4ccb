// Stores the entries of the audit: appended in order, in parts that are read as a whole. One writer; any
// number of readers, also while it writes. The layer above chains the entries (audit/audit.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

struct AuditPart {
  std::vector<v1::AuditEntry> entries;
  std::vector<std::string> damaged;  // lines that are not entries: "FILE, line N"
  uint64_t sound_bytes = 0;          // up to the end of the last entry
  uint64_t bytes = 0;
};

class AuditStore {
 public:
  virtual ~AuditStore() = default;

  struct End {
    v1::AuditHead head;  // number 0: there is no entry yet
    uint64_t cut_bytes = 0;
  };
  // Call it before everything else. After the writer was killed, cuts what follows the last entry,
  // which was never acknowledged.
  virtual absl::StatusOr<End> Recover() = 0;
  // Call it before each Append. If another process has removed, replaced or changed the newest part,
  // entries continue in a new one, which begins with number `next`: no reader would find what is written
  // to the old one. Returns what was done to it; empty: nothing.
  virtual absl::StatusOr<std::string> LeaveTouched(uint64_t next) = 0;
  // Durable when it returns: all of them, or none. They follow the last one.
  virtual absl::Status Append(const std::vector<const v1::AuditEntry*>& entries) = 0;
  // Where the newest entries are, for people.
  virtual std::string Place() const = 0;

  // By the numbers of their first entries, in order. Any thread, like Read.
  virtual absl::StatusOr<std::vector<uint64_t>> Parts() const = 0;
  virtual absl::StatusOr<AuditPart> Read(uint64_t first) const = 0;
};

}  // namespace muster::coordinator
