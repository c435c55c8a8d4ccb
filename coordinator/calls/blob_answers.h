// A blob as the answer to a call: its bytes, or where the object store has them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/sink.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

struct WantedBlob {
  uint64_t job = 0;  // whose file it is (BlobStore::ReadFor); 0: of no job, as code
  std::string sha256;
  uint64_t offset = 0;
  bool may_be_url = false;  // the caller takes a URL, and may have one
  std::string owner = {};   // of WorkPool: the person who wants it
};

// Sends the bytes, from the offset on.
void SendBlob(JobStores& stores, Process& process, const WantedBlob& wanted,
              std::shared_ptr<Sink<v1::BlobChunk>> sink);
// Instead of the bytes, sends a URL of the whole blob where that may be and the object store has it.
void SendOrSign(JobStores& stores, Process& process, const WantedBlob& wanted,
                const std::shared_ptr<Sink<v1::BlobChunk>>& sink);

// The store's error with its code; workers try again after it. A plain UNAVAILABLE would mean that the
// coordinator cannot be reached.
absl::Status BlobNotReadableNow(const std::string& what, const absl::Status& shortage);

}  // namespace muster::coordinator
