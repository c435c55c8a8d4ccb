// The audit in files of JSON lines (audit_files.h): a new one every few MiB.
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
  // Cuts what a write that failed has left behind the last entry.
  absl::Status CutRest();
  // Keeps disk space for the next entries, so that a full disk can be freed by those who must be
  // recorded.
  void KeepRoom();

  const std::string directory_;
  // The writer's.
  common::UniqueFd file_;
  std::string path_;
  uint64_t size_ = 0;
  uint64_t room_until_ = 0;  // space is kept up to here
  bool has_rest_ = false;    // behind size_
};

}  // namespace muster::coordinator
