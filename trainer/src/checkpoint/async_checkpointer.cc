// See async_checkpointer.h.
#include "checkpoint/async_checkpointer.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/lost_saves.h"
#include "checkpoint/joint_step.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// Hashing and writing yield to training if cores are scarce; otherwise the nice value has no
// effect.
constexpr int kNice = 10;

void give_way_to_training() {
  // Linux keeps the nice value per thread.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
}

// What is copied: global tensors and the values of shards.
TensorMap state_of(const CheckpointContent& content) {
  TensorMap state = content.global;
  for (const auto& [name, shard] : content.shards) {
    if (!state.emplace(name, shard.values).second) {
      throw CheckpointError("'" + name + "' is both a global tensor and a shard");
    }
  }
  return state;
}

}  // namespace

AsyncCheckpointer::AsyncCheckpointer(CheckpointWriterOptions options, ProcessGroupPtr side_group,
                                     std::chrono::milliseconds wait_timeout)
    : writer_(remembering(std::move(options)), std::move(side_group)),
      wait_timeout_(wait_timeout) {}

AsyncCheckpointer::~AsyncCheckpointer() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (error_.empty()) return;
  std::fprintf(stderr, "muster: %s\n", error_.c_str());
  note_lost_save(error_);
}

CheckpointWriterOptions AsyncCheckpointer::remembering(CheckpointWriterOptions options) {
  auto tell = std::move(options.on_published);
  options.on_published = [this, tell = std::move(tell)](int64_t step, const std::string& path) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      published_.insert(step);
    }
    if (tell) tell(step, path);
  };
  return options;
}

bool AsyncCheckpointer::published(int64_t step) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return published_.contains(step);
}

bool AsyncCheckpointer::saving() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return job_.has_value();
}

void AsyncCheckpointer::wait() { finish_previous(); }

void AsyncCheckpointer::finish_previous() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!changed_.wait_for(lock, wait_timeout_, [this] { return !job_.has_value(); })) {
    throw CheckpointError("rank " + std::to_string(writer_.options().topology.rank) +
                          ": the save of step " + std::to_string(job_->content.manifest.step) +
                          " did not finish within " + std::to_string(wait_timeout_.count()) +
                          " ms: is the disk of " + writer_.options().directory +
                          " stuck? If it is only slow, raise CheckpointOptions::wait_timeout");
  }
  if (!error_.empty()) throw CheckpointError(std::exchange(error_, ""));
}

std::string AsyncCheckpointer::save(const CheckpointContent& content, int64_t removable_up_to) {
  finish_previous();
  Job job;
  job.removable_up_to = removable_up_to;
  job.content.manifest = content.manifest;
  job.content.error = content.error;
  if (job.content.error.empty()) {
    // The other ranks have started this save, or will: they learn of a failure through it.
    job.content.error = error_of([&] {
      copy_state(content, job.content);
      job.content.own = own_buffer_.take(content.own);
    });
  }
  if (writer_.options().on_stage) writer_.options().on_stage("snapshot");
  const std::string path = writer_.path_of(content.manifest.step);
  begin(std::move(job));
  return path;
}

// Copies global tensors and shards together, into one block.
void AsyncCheckpointer::copy_state(const CheckpointContent& from, CheckpointContent& to) {
  TensorMap copies = state_buffer_.take(state_of(from));
  for (const auto& [name, shard] : from.shards) {
    to.shards[name] = {copies.at(name), shard.shape, shard.begin};
    copies.erase(name);
  }
  to.global = std::move(copies);
}

void AsyncCheckpointer::reserve(const CheckpointContent& like) {
  const TensorMap state = state_of(like);
  const bool pinned = std::any_of(state.begin(), state.end(),
                                  [](const auto& named) { return !named.second.is_cpu(); });
  reserve(SnapshotBuffer::bytes_for(state), pinned);
}

void AsyncCheckpointer::reserve(int64_t bytes, bool pinned) {
  if (bytes <= 0) return;
  finish_previous();
  Job job;
  job.reserve_bytes = bytes;
  job.pinned = pinned;
  begin(std::move(job));
}

void AsyncCheckpointer::begin(Job job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    job_ = std::move(job);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

std::string AsyncCheckpointer::save_now(const CheckpointContent& content, int64_t removable_up_to) {
  finish_previous();
  return writer_.save(content, removable_up_to);
}

void AsyncCheckpointer::run() {
  give_way_to_training();
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return job_.has_value() || ending_; });
    if (!job_) return;
    lock.unlock();
    // Only this thread removes the job, so it may read it without the lock.
    std::string error = perform(*job_);
    lock.lock();
    job_.reset();
    error_ = std::move(error);
    changed_.notify_all();
  }
}

std::string AsyncCheckpointer::perform(const Job& job) {
  if (job.reserve_bytes > 0) {
    // If memory is short, the save itself will report it.
    error_of([&] { state_buffer_.reserve(job.reserve_bytes, job.pinned); });
    return "";
  }
  const std::string error = error_of([&] { writer_.save(job.content, job.removable_up_to); });
  return error.empty() ? "" : "an asynchronous save failed: " + error;
}

}  // namespace muster
