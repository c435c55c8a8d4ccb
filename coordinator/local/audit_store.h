// The audit in files of JSON lines (audit_files.h), with a new file every few MiB.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/files/files.h"
#include "coordinator/stores/audit_store.h"

namespace muster::coordinator {

class LocalAuditStore final : public AuditStore {
 public:
  explicit LocalAuditStore(std::string directory) : directory_(std::move(directory)) {}

  absl::StatusOr<End> Recover() override;
  absl::StatusOr<std::string> LeaveTouched(uint64_t next) override;
  absl::Status Append(const std::vector<const v1::AuditEntry*>& entries) override;
  std::string Place() const override { return path_; }
  absl::StatusOr<std::vector<uint64_t>> Parts() const override;
  absl::StatusOr<AuditPart> Read(uint64_t first) const override;

 private:
  bool IsTouched() const;
  absl::Status OpenNext(uint64_t first);
  // Cuts off what a failed write has left after the last entry.
  absl::Status CutRest();
  // Reserves disk space for the next entries, so that on a full disk the actions that free space
  // can still be recorded.
  void KeepRoom();

  const std::string directory_;
  // Used only by the writer.
  common::UniqueFd file_;
  std::string path_;
  uint64_t size_ = 0;
  uint64_t room_until_ = 0;  // space is reserved up to here
  bool has_rest_ = false;    // a failed write left bytes after size_
};

}  // namespace muster::coordinator
