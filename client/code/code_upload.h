// Sends a directory to the coordinator: takes a snapshot of it (tree/), and sends only the objects
// that the coordinator does not have. One thread; blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/v1/job_service.pb.h"
#include "tree/snapshot.h"

namespace muster::client {

// limit: code: objects per question; asked again
inline constexpr size_t kObjectsPerRequest = 50'000;
inline constexpr size_t kObjectChunkBytes = 256 * 1024;

// Fills the next chunk; false: there is none. An error ends the stream.
using NextChunk = std::function<absl::StatusOr<bool>(v1::ObjectChunk*)>;

// The calls that an upload makes.
struct CodeTransport {
  std::function<absl::StatusOr<v1::PrepareObjectsResponse>(const v1::PrepareObjectsRequest&)>
      prepare;
  std::function<absl::StatusOr<v1::PushObjectsResponse>(const NextChunk&)> push;
  // After UNAVAILABLE: waits and reconnects. `tries`: attempts in a row without any progress, from 1. An error
  // ends the upload.
  std::function<absl::Status(const absl::Status& lost, int tries)> again;
};

struct UploadProgress {
  uint64_t files_read = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_to_send = 0;  // 0: not known yet
};

struct UploadOptions {
  std::string root;             // an absolute path
  std::string project;          // as JobSpec.project
  std::string cache_directory;  // of the snapshots' indexes, exists; empty: all files are read
  size_t objects_per_request = kObjectsPerRequest;
  std::function<int64_t()> now_ms;
  std::function<void(const UploadProgress&)> on_progress;  // optional
};

struct UploadedTree {
  tree::Snapshot snapshot;
  uint64_t placement_bytes = 0;
  tree::Digest placement;
  uint64_t sent_bytes = 0;
};

// Errors: JC1710 for entries that cannot be sent, JC1711 for too much, JC1712 for a file that
// changed while it was sent, each time; JC1713 if the directory cannot be read; JC1716 for answers
// that make no sense. Others are the coordinator's.
absl::StatusOr<UploadedTree> UploadTree(const CodeTransport& transport,
                                        const UploadOptions& options);

}  // namespace muster::client
