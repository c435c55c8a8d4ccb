// The audit on disk: files of JSON lines below DATA/audit, each named by the number of its first
// entry; docs/formats.md has the format. One writer; any number of readers, also while it writes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/stores/audit_store.h"
#include "muster/v1/identity.pb.h"

namespace muster::coordinator {

// A file is closed once it has this size, and read as a whole.
inline constexpr uint64_t kAuditFileBytes = 4 << 20;

struct AuditFile {
  uint64_t first = 0;
  std::string path;
};
// The audit's files, sorted. Other files in the directory are left out.
absl::StatusOr<std::vector<AuditFile>> ListAuditFiles(const std::string& directory);
std::string AuditFilePath(const std::string& directory, uint64_t first);

// A line with its newline; its texts are valid UTF-8.
std::string AuditLine(const v1::AuditEntry& entry);

// One file's entries, up to the last complete line.
absl::StatusOr<AuditPart> ReadAuditFile(const AuditFile& file);

// After the writer was killed: cuts off the bytes after the last entry, which were never
// acknowledged; if they contain complete lines, they are kept next to the file as cut-FIRST-OFFSET.
// Returns where to continue.
struct AuditEnd {
  v1::AuditHead head;  // number 0: there is no entry yet
  std::string path;    // of the newest file; empty: there is none
  uint64_t size = 0;
  uint64_t cut_bytes = 0;
};
absl::StatusOr<AuditEnd> RecoverAudit(const std::string& directory);

// Reports what is wrong with the audit, one sentence each with the file; reads everything. A later
// beginning is not an error, as old files may be moved away; `first` gets its number.
absl::Status CheckAudit(const std::string& directory,
                        const std::function<void(const std::string& finding)>& found,
                        uint64_t* entries, uint64_t* first);

}  // namespace muster::coordinator
