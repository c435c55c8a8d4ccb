#include "worker/sampling/sample_forwarder.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace muster::worker {
namespace {

int64_t ThreadCpuUs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * 1'000'000 + used.tv_nsec / 1'000;
}

}  // namespace

SampleForwarder::SampleForwarder(std::string node, JobThreads* threads, Callbacks callbacks)
    : node_(std::move(node)), threads_(threads), callbacks_(std::move(callbacks)) {}

void SampleForwarder::Open(const AttemptKey& key, const v1::NodePart& part, uint32_t master_port,
                           const std::string& account_path,
                           std::function<void(v1::RankSample*)> look_at_store) {
  Watched& watched = attempts_[key];
  watched.sampler =
      std::make_shared<AttemptSampler>(key, node_, part, master_port, account_path, meters_);
  if (look_at_store) watched.sampler->LookAtStore(std::move(look_at_store));
}

void SampleForwarder::RankStarted(const AttemptKey& key, const SampleOrder::Process& process) {
  const auto found = attempts_.find(key);
  if (found == attempts_.end()) return;
  found->second.order.started.push_back(process);
  if (found->second.next_ms == kNotStarted) found->second.next_ms = 0;
}

void SampleForwarder::NoteStep(const AttemptKey& key, uint32_t rank, int64_t step, int64_t now_ms) {
  const auto found = attempts_.find(key);
  if (found != attempts_.end()) found->second.steps[rank].Note(step, now_ms);
}

void SampleForwarder::Close(const AttemptKey& key) { attempts_.erase(key); }

std::optional<int64_t> SampleForwarder::NextMs() const {
  std::optional<int64_t> next;
  for (const auto& [key, watched] : attempts_) {
    if (watched.is_sampling || watched.next_ms == kNotStarted) continue;
    next = std::min(next.value_or(watched.next_ms), watched.next_ms);
  }
  return next;
}

void SampleForwarder::OnTime(int64_t now_ms) {
  for (auto& [key, watched] : attempts_) {
    if (watched.is_sampling || now_ms < watched.next_ms) continue;
    watched.is_sampling = true;
    for (auto& [rank, clock] : watched.steps) {
      watched.order.steps[rank] = {clock.step(), clock.TakeStepMs()};
    }
    const auto sample = [this, key = key, now_ms, sampler = watched.sampler,
                         order = std::exchange(watched.order, {})] {
      const int64_t began_us = ThreadCpuUs();
      auto batch = std::make_shared<std::optional<v1::SampleBatch>>(
          sampler->Take(order, common::SystemClock().Read()));
      const auto framework = sampler->TakeFramework();
      const int64_t used_us = ThreadCpuUs() - began_us;
      callbacks_.in_loop([this, key, batch, framework, now_ms, used_us] {
        if (framework.has_value() && callbacks_.framework) callbacks_.framework(key, *framework);
        OnSampled(key, std::move(*batch), now_ms, used_us);
      });
    };
    threads_->Post(key, Work::kSample, sample);
  }
}

void SampleForwarder::OnSampled(const AttemptKey& key, std::optional<v1::SampleBatch> batch,
                                int64_t began_ms, int64_t used_us) {
  const auto found = attempts_.find(key);
  if (found != attempts_.end()) {
    found->second.is_sampling = false;
    found->second.next_ms = began_ms + std::max(kEveryMs, used_us * kShareOfCore / 1'000);
  }
  if (!batch.has_value()) return;
  if (waiting_.size() == kWaitingMax) waiting_.pop_front();
  waiting_.push_back(*std::move(batch));
}

void SampleForwarder::Pump() {
  while (!waiting_.empty() && callbacks_.can_send()) {
    callbacks_.send(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

}  // namespace muster::worker
