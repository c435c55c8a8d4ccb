// Reads a job's code back from the coordinator: its manifest, its placement, single files. Everything
// received is checked against its hash. One thread; blocks.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "muster/v1/job_service.pb.h"
#include "tree/manifest.h"
#include "tree/placement.h"

namespace muster::client {

class Connection;

class CodeFetch {
 public:
  CodeFetch(Connection& connection, const v1::JobRecord& record);

  // Errors: JC1717 for bytes other than those that the job names, and the coordinator's errors.
  absl::StatusOr<tree::Manifest> Manifest() const;
  absl::StatusOr<tree::Placement> Placement(const tree::Manifest& manifest) const;
  // The content of an entry that is a file.
  absl::StatusOr<std::string> File(const tree::Manifest& manifest, const tree::Placement& placement,
                                   const tree::Entry& file) const;

 private:
  // `size` bytes of an object, from `offset` on.
  absl::StatusOr<std::string> Read(const std::string& sha256, uint64_t offset, uint64_t size) const;
  absl::Status Differs(const std::string& what) const;

  Connection& connection_;
  const std::string job_;
  const v1::CodeTree code_;
};

}  // namespace muster::client
