// The write end of a streaming response: the handlers' view of a gRPC stream. Any thread; never
// blocks.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

template <typename T>
class Sink {
 public:
  // From here on, a producer should wait for `drained`.
  static constexpr size_t kFullBytes = 1 << 20;

  virtual ~Sink() = default;
  // Queues the message; dropped if the client is gone or the stream is closed.
  virtual void Write(T message) = 0;
  // Ends the stream after what was written.
  virtual void Close(const absl::Status& status) = 0;
  virtual size_t QueuedBytes() const = 0;
  virtual bool Gone() const = 0;
  // Set both before the first Write. `drained`: the queue fell below half of kFullBytes after it
  // was full. `gone`: the stream is over, whichever side ended it; called once. Both are released
  // afterwards.
  virtual void Observe(std::function<void()> drained, std::function<void()> gone) = 0;
};

// The answer to a unary call: called once, on any thread.
template <typename T>
using Answer = std::function<void(absl::StatusOr<T>)>;

}  // namespace muster::coordinator
