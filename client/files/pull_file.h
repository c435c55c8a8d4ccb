// Downloads one file into a directory: an interrupted download resumes, and only bytes that match the announced
// SHA-256 get the file's name. Blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/connection/connection.h"
#include "client/files/pull_target.h"
#include "common/http/transfers.h"

namespace muster::client {

enum class Pulled { kPresent, kFetched };

// The bytes of a file from an offset on, as long as `take` returns true.
using TakeBytes = std::function<bool(std::string_view)>;
using ReadFrom = std::function<absl::Status(uint64_t offset, const TakeBytes& take)>;

// Reads files of checkpoints and outputs through the coordinator, or from the object store where the coordinator names a
// URL; what cannot be read there comes through the coordinator. One thread.
class SavedFiles {
 public:
  explicit SavedFiles(Connection& connection) : connection_(connection) {}
  // `request`: everything but the offset. This outlives what it returns.
  ReadFrom Reader(const v1::PullFileRequest& request);

 private:
  // After so many errors in a row the store is left alone.
  static constexpr int kStoreFailuresMax = 3;

  // `was_direct`: set if the store was read.
  absl::Status Read(v1::PullFileRequest request, const TakeBytes& take, bool* was_direct);
  absl::Status ReadFromStore(const std::string& url, uint64_t offset, const TakeBytes& take);

  Connection& connection_;
  int store_failures_ = 0;
  std::unique_ptr<common::Transfers> store_;  // opened by the first URL
};

// Errors: JC1504 if the file's name, size or bytes are not as announced (`verify` is then the fix),
// JC1601 if it cannot be written. `name`: below the target.
absl::StatusOr<Pulled> PullOne(const ReadFrom& read, const v1::CheckpointFile& file,
                               const PullTarget& target, const std::string& name,
                               const std::string& verify);

}  // namespace muster::client
