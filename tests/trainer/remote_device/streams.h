// Streams of the device: each is a thread that runs its tasks in order, so whatever is queued runs
// later than the call that queues it. Any thread.
#pragma once

#include <c10/core/Stream.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace remote {

constexpr c10::DeviceIndex kDevices = 4;
constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

using Task = std::function<void()>;

// A point in the work of a stream: what an event has recorded.
class Moment {
 public:
  void reach();
  bool reached() const;
  void wait() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool reached_ = false;
};
using MomentPtr = std::shared_ptr<Moment>;

// A task that throws is reported where the host waits next, as on other devices.
void require_no_failure();

c10::Device current_device();
c10::Device exchange_device(c10::DeviceIndex index);

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id);
c10::Stream default_stream(c10::DeviceIndex device);
// Of this thread.
c10::Stream current_stream(c10::DeviceIndex device);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream pooled_stream(c10::DeviceIndex device);
c10::Stream new_stream(c10::DeviceIndex device);

void enqueue(c10::Stream stream, Task task);
MomentPtr record(c10::Stream stream);
// The stream's later tasks wait; the host does not.
void wait_on_stream(c10::Stream stream, MomentPtr moment);

bool is_idle(c10::Stream stream);
void synchronize(c10::Stream stream);
void synchronize_device(c10::DeviceIndex device);

// Runs the task on the stream and waits for it; its exception is thrown here.
void run_and_wait(c10::Stream stream, const Task& task);

// Lets the streams finish and takes no more tasks. A stream that a lost peer holds up is left.
void stop_streams();

}  // namespace remote
