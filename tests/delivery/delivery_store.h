// The coordinator's side of a delivery test: a real store in simulated time.
#pragma once

#include <cstdint>
#include <functional>

#include "coordinator/stores/log_store.h"
#include "tests/delivery/spooled_stream.h"

namespace muster::delivery {

class DeliveryStore {
 public:
  using Acknowledge = std::function<void(uint64_t link, const v1::LogAck&)>;
  virtual ~DeliveryStore() = default;

  virtual void Append(const v1::LogChunk& chunk, uint64_t link) = 0;
  // `power`: of what was not synced any part may be lost.
  virtual void Crash(bool power) = 0;
  // Reopens every stream; each must have everything that was ever acknowledged.
  virtual void Reopen() = 0;
  virtual bool EndIsDurable(const coordinator::LogKey& key, uint64_t end) const = 0;
  // What a client that follows the job receives of the stream. `has_end`: all of it must be there. Else it is asked while
  // the stream grows and faults happen: whatever can be read now.
  virtual Content Read(const coordinator::LogKey& key, bool has_end) const = 0;
  // No more faults.
  virtual void Calm() {}
};

// Of what this reader has.
Content ReadStream(const coordinator::LogReader& reader, const coordinator::LogKey& key,
                   bool has_end);

}  // namespace muster::delivery
