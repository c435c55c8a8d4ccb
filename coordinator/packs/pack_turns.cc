#include "coordinator/packs/pack_turns.h"

namespace muster::coordinator {

void PackThreads::Begin(std::function<int64_t()> after_tasks) {
  after_tasks_ = std::move(after_tasks);
  thread_ = std::thread([this] { Run(); });
}

void PackThreads::Run() {
  std::vector<std::function<void()>> batch;
  int64_t due_ms = 0;
  while (queue_.Take(batch, due_ms)) {
    for (const auto& task : batch) task();
    batch.clear();
    due_ms = after_tasks_();
  }
}

void PackThreads::PostTo(Pool pool, std::function<void()> task, std::chrono::milliseconds after) {
  WorkPool& to = pool == Pool::kStore ? store_ : pool == Pool::kState ? state_ : merge_;
  if (after.count() == 0) return to.Post(std::move(task));
  to.PostAfter(after, std::move(task));
}

void PackThreads::Stop() {
  queue_.Stop();
  if (thread_.joinable()) thread_.join();
  store_.Stop();
  state_.Stop();
  merge_.Stop();
}

}  // namespace muster::coordinator
