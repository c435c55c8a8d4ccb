// Threads, queues and moments; see streams.h.
#include "streams.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace remote {
namespace {

constexpr c10::StreamId kPooledStreams = 4;
constexpr std::chrono::seconds kStopWithin{1};

// The first task that threw.
struct Failure {
  std::mutex mutex;
  std::string text;
};
Failure& failure() {
  static auto* const only = new Failure;
  return *only;
}

void note_failure(const std::string& text) {
  const std::lock_guard lock(failure().mutex);
  if (failure().text.empty()) failure().text = text;
}

// MUSTER_REMOTE_DELAY_US: tasks begin up to this much later, to widen races.
int64_t delay_max_us() {
  static const int64_t delay = [] {
    const char* const text = std::getenv("MUSTER_REMOTE_DELAY_US");
    return text == nullptr ? int64_t{0} : std::atoll(text);
  }();
  return delay;
}

// The delay is what the tests ask for: nothing ends it early.
void pass(int64_t microseconds) {
  if (microseconds == 0) return;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable never;
  never.wait_for(lock, std::chrono::microseconds(microseconds), [] { return false; });
}

class Worker {
 public:
  void add(Task task) {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        tasks_.push_back(std::move(task));
        if (!started_) std::thread([this] { run(); }).detach();
        started_ = true;
        wake = sleeping_;
      }
    }
    if (wake) has_tasks_.notify_one();
    if (task) task();  // static objects that are destroyed after finalize
  }
  bool is_idle() const {
    const std::lock_guard lock(mutex_);
    return tasks_.empty() && !running_;
  }
  void stop() {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    became_idle_.wait_for(lock, kStopWithin, [this] { return tasks_.empty() && !running_; });
  }

 private:
  void run() {
    at::init_num_threads();
    std::minstd_rand random;
    while (true) {
      Task task = next();
      pass(delay_max_us() > 0 ? static_cast<int64_t>(random()) % (delay_max_us() + 1) : 0);
      try {
        task();
      } catch (const c10::Error& error) {
        note_failure(error.what_without_backtrace());
      } catch (const std::exception& error) {
        note_failure(error.what());
      }
      task = nullptr;  // what it holds is released before the stream counts as idle
      const std::lock_guard lock(mutex_);
      running_ = false;
      if (stopped_) became_idle_.notify_all();
    }
  }
  Task next() {
    std::unique_lock lock(mutex_);
    sleeping_ = true;
    has_tasks_.wait(lock, [this] { return !tasks_.empty(); });
    sleeping_ = false;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    running_ = true;
    return task;
  }

  mutable std::mutex mutex_;
  std::condition_variable has_tasks_, became_idle_;
  std::deque<Task> tasks_;
  bool started_ = false, sleeping_ = false, running_ = false, stopped_ = false;
};

// Never destroyed: the threads use it until the process exits.
class Workers {
 public:
  static Workers& all() {
    static auto* const only = new Workers;
    return *only;
  }
  Worker& of(c10::Stream stream) {
    const std::lock_guard lock(mutex_);
    return *devices_.at(static_cast<size_t>(stream.device_index()))
                .at(static_cast<size_t>(stream.id()));
  }
  c10::StreamId add(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    auto& workers = devices_.at(static_cast<size_t>(device));
    workers.push_back(std::make_unique<Worker>());
    return static_cast<c10::StreamId>(workers.size()) - 1;
  }
  std::vector<c10::Stream> streams(c10::DeviceIndex device) {
    const std::lock_guard lock(mutex_);
    std::vector<c10::Stream> streams;
    const auto count = static_cast<c10::StreamId>(devices_[static_cast<size_t>(device)].size());
    for (c10::StreamId id = 0; id < count; ++id) {
      streams.emplace_back(c10::Stream::UNSAFE, c10::Device(kType, device), id);
    }
    return streams;
  }
  c10::StreamId next_pooled() {
    const std::lock_guard lock(mutex_);
    return 1 + pooled_++ % kPooledStreams;
  }

 private:
  Workers() {
    for (auto& workers : devices_) {
      for (c10::StreamId id = 0; id <= kPooledStreams; ++id) {
        workers.push_back(std::make_unique<Worker>());
      }
    }
  }

  std::mutex mutex_;
  std::array<std::vector<std::unique_ptr<Worker>>, kDevices> devices_;
  c10::StreamId pooled_ = 0;
};

thread_local c10::DeviceIndex current_index = 0;
thread_local std::array<c10::StreamId, kDevices> current_ids{};

}  // namespace

void Moment::reach() {
  {
    const std::lock_guard lock(mutex_);
    reached_ = true;
  }
  changed_.notify_all();
}
bool Moment::reached() const {
  const std::lock_guard lock(mutex_);
  return reached_;
}
void Moment::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return reached_; });
}

void require_no_failure() {
  const std::lock_guard lock(failure().mutex);
  TORCH_CHECK(failure().text.empty(), "the device failed: ", failure().text);
}

c10::Device current_device() { return {kType, current_index}; }

c10::Device exchange_device(c10::DeviceIndex index) {
  TORCH_CHECK(index < kDevices, "there is no device ", static_cast<int>(index));
  return {kType, std::exchange(current_index, index)};
}

c10::Stream stream_of(c10::DeviceIndex device, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, device), id);
}
c10::Stream default_stream(c10::DeviceIndex device) { return stream_of(device, 0); }
c10::Stream current_stream(c10::DeviceIndex device) {
  return stream_of(device, current_ids.at(static_cast<size_t>(device)));
}
c10::Stream exchange_stream(c10::Stream stream) {
  const auto place = static_cast<size_t>(stream.device_index());
  return stream_of(stream.device_index(), std::exchange(current_ids.at(place), stream.id()));
}
c10::Stream pooled_stream(c10::DeviceIndex device) {
  return stream_of(device, Workers::all().next_pooled());
}
c10::Stream new_stream(c10::DeviceIndex device) {
  return stream_of(device, Workers::all().add(device));
}

void enqueue(c10::Stream stream, Task task) { Workers::all().of(stream).add(std::move(task)); }

MomentPtr record(c10::Stream stream) {
  auto moment = std::make_shared<Moment>();
  enqueue(stream, [moment] { moment->reach(); });
  return moment;
}

void wait_on_stream(c10::Stream stream, MomentPtr moment) {
  if (!moment->reached()) enqueue(stream, [moment = std::move(moment)] { moment->wait(); });
}

bool is_idle(c10::Stream stream) { return Workers::all().of(stream).is_idle(); }

void synchronize(c10::Stream stream) {
  if (!is_idle(stream)) record(stream)->wait();
  require_no_failure();
}

void synchronize_device(c10::DeviceIndex device) {
  for (const c10::Stream stream : Workers::all().streams(device)) synchronize(stream);
}

void run_and_wait(c10::Stream stream, const Task& task) {
  std::exception_ptr error;
  const auto done = std::make_shared<Moment>();
  enqueue(stream, [&, done] {
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    done->reach();
  });
  done->wait();
  if (error) std::rethrow_exception(error);
  require_no_failure();
}

void stop_streams() {
  for (c10::DeviceIndex device = 0; device < kDevices; ++device) {
    for (const c10::Stream stream : Workers::all().streams(device))
      Workers::all().of(stream).stop();
  }
}

}  // namespace remote
