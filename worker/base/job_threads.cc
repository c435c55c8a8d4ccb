// job_threads: lanes that are ready queue for a thread.
#include "worker/base/job_threads.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

namespace muster::worker {
namespace {

using WorkLane = std::pair<AttemptKey, Work>;
constexpr std::chrono::seconds kIdle{10};

}  // namespace

struct JobThreads::Shared {
  explicit Shared(size_t max) : threads_max(max) {}
  const size_t threads_max;
  std::mutex mutex;  // guards what follows
  std::condition_variable posted;
  std::condition_variable left;
  std::map<WorkLane, std::deque<std::function<void()>>>
      tasks;  // of lanes that are ready or running
  std::deque<WorkLane> ready;
  size_t threads = 0;
  size_t idle = 0;
  bool stopping = false;
};

JobThreads::JobThreads(size_t threads_max) : shared_(std::make_shared<Shared>(threads_max)) {}
JobThreads::~JobThreads() { Shutdown(std::chrono::milliseconds(0)); }

void JobThreads::Post(const AttemptKey& key, Work work, std::function<void()> task) {
  std::lock_guard<std::mutex> lock(shared_->mutex);
  if (shared_->stopping) return;
  const auto [lane, is_new] = shared_->tasks.try_emplace(WorkLane{key, work});
  lane->second.push_back(std::move(task));
  if (!is_new) return;
  shared_->ready.push_back(lane->first);
  if (shared_->idle >= shared_->ready.size()) return shared_->posted.notify_one();
  if (shared_->threads >= shared_->threads_max) return;
  try {
    std::thread([shared = shared_] { Run(shared); }).detach();
    ++shared_->threads;
  } catch (const std::system_error&) {
    // No thread can be created now: a running one will take it, or the next Post tries again.
  }
}

void JobThreads::Run(const std::shared_ptr<Shared>& shared) {
  std::unique_lock<std::mutex> lock(shared->mutex);
  while (true) {
    ++shared->idle;
    const bool called = shared->posted.wait_for(
        lock, kIdle, [&] { return shared->stopping || !shared->ready.empty(); });
    --shared->idle;
    if (!called || shared->stopping) break;
    const WorkLane lane = shared->ready.front();
    shared->ready.pop_front();
    auto& tasks = shared->tasks[lane];
    std::function<void()> task = std::move(tasks.front());
    tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // releases what it holds before others may believe that it is gone
    lock.lock();
    const auto found = shared->tasks.find(lane);
    if (found == shared->tasks.end()) continue;  // stopping
    if (found->second.empty()) {
      shared->tasks.erase(found);
    } else {
      shared->ready.push_back(lane);  // behind the others
    }
  }
  --shared->threads;
  shared->left.notify_all();
}

bool JobThreads::Shutdown(std::chrono::milliseconds wait) {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->stopping = true;
  shared_->ready.clear();
  shared_->tasks.clear();
  shared_->posted.notify_all();
  return shared_->left.wait_for(lock, wait, [this] { return shared_->threads == 0; });
}

}  // namespace muster::worker
