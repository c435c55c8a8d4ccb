// What tests put into Blobs without a worker.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "coordinator/store_parts/blobs.h"

namespace muster::coordinator {

// Its name.
inline absl::StatusOr<std::string> PutBlob(Blobs& store, const std::string& bytes) {
  const std::string sha256 = common::Sha256Hex(bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<Blobs::Upload> upload,
                   store.OpenUpload({.owner = "test", .sha256 = sha256, .size = bytes.size()}));
  RETURN_IF_ERROR(upload->Append(bytes));
  RETURN_IF_ERROR(upload->Commit());
  return sha256;
}

}  // namespace muster::coordinator
