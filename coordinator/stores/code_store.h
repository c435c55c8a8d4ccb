// Which objects of jobs' code (tree/placement.h) each project uploaded, which of them a placement
// uses, and when each was last used. The bytes are in the BlobStore, once for all projects; who may
// use them is only here. Every change is durable when its call returns, and atomic unless noted.
// Times are the coordinator's lived time. Any thread; every call may wait for a disk.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::coordinator {

// An object: its SHA-256 in hex digits, and its size.
struct CodeObject {
  std::string sha256;
  uint64_t size = 0;
};

// The code that a job's spec names.
struct CodeName {
  std::string project;  // never empty
  std::string tree;
  std::string placement;
  auto operator<=>(const CodeName&) const = default;
};
// Only for a spec that has code.
CodeName CodeNameOf(const v1::JobSpec& spec);
// "default" for none.
std::string ProjectName(std::string_view project);

class CodeStore {
 public:
  // An object counts as at least this, as it does on a disk: so a quota bounds the number of objects, too.
  static constexpr uint64_t kLeastBytes = 4'096;
  // A use is recorded again only this long after the last one, so that most lookups cost no write.
  static constexpr int64_t kUseRecordedEveryMs = 3'600'000;

  virtual ~CodeStore() = default;

  static uint64_t Charge(uint64_t size) { return std::max(size, kLeastBytes); }

  // For each object, whether the project has it with this size. Records those that it has as used now.
  virtual absl::StatusOr<std::vector<bool>> Use(const std::string& project,
                                                const std::vector<CodeObject>& objects,
                                                int64_t now_ms) = 0;
  // `giver`: OwnerKey of the uploader, whose usage includes it while the project has it.
  virtual absl::Status Add(const std::string& project, const CodeObject& object,
                           const std::string& giver, int64_t now_ms) = 0;
  // The total that its objects count as (Charge).
  virtual absl::StatusOr<uint64_t> UsedBytes(const std::string& project) = 0;
  // The total that the objects this giver uploaded count as, over all projects; and the totals of all
  // givers. Empty: objects from before givers were recorded.
  virtual absl::StatusOr<uint64_t> GivenBytes(const std::string& giver) = 0;
  virtual absl::StatusOr<std::map<std::string, uint64_t>> Given() = 0;

  // Records that the code consists of these objects: its manifest, its placement and what that names. It
  // was used now. NOT_FOUND: the project lacks one. Not atomic: until all are recorded, ObjectsOf has none.
  virtual absl::Status PutCode(const CodeName& code, const std::vector<std::string>& objects,
                               int64_t now_ms) = 0;
  // Ascending; empty: the code is not known.
  virtual absl::StatusOr<std::vector<std::string>> ObjectsOf(const CodeName& code) = 0;

  // The blobs among these that any project has.
  virtual absl::StatusOr<std::vector<std::string>> Referenced(
      const std::vector<std::string>& blobs) = 0;

  // Code that was last used before `before_ms`, least recently used first.
  virtual absl::StatusOr<std::vector<CodeName>> OldCode(int64_t before_ms, uint32_t most) = 0;
  // Records it as used now, because a job has it.
  virtual absl::Status KeepCode(const CodeName& code, int64_t now_ms) = 0;
  // Does nothing if it was used since `before_ms`. Its objects stay.
  virtual absl::Status RemoveCode(const CodeName& code, int64_t before_ms) = 0;
  // Looks at the `most` least recently used objects that were last used before `before_ms`: those that
  // belong to any code count as used now, the others are removed. Returns what was removed.
  virtual absl::StatusOr<std::vector<std::string>> RemoveObjects(int64_t before_ms, int64_t now_ms,
                                                                 uint32_t most) = 0;
};

}  // namespace muster::coordinator
