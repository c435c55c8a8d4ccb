#include "coordinator/http/pages/job_updates.h"

#include <chrono>
#include <utility>

#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"

namespace muster::coordinator::http {
namespace {

constexpr std::chrono::milliseconds kUpdateInterval{250};

std::string StoredEvent(std::string_view what, uint64_t job) {
  const common::JsonText data = common::JsonObject(common::JsonObject::Style::kCompact)
                                    .Add("job", std::to_string(job))
                                    .Done();
  return common::StrCat("event: ", what, "\ndata: ", data.text, "\n\n");
}

}  // namespace

JobUpdates::JobUpdates(Daemon& daemon, uint64_t job, std::shared_ptr<TextSource> events,
                       std::function<void()> news)
    : daemon_(daemon), job_(job), events_(std::move(events)), news_(std::move(news)) {}

std::shared_ptr<JobUpdates> JobUpdates::Open(Daemon& daemon, uint64_t job,
                                             std::shared_ptr<TextSource> events,
                                             std::function<void()> news) {
  std::shared_ptr<JobUpdates> pulse(
      new JobUpdates(daemon, job, std::move(events), std::move(news)));
  pulse->Watch();
  return pulse;
}

void JobUpdates::Watch() {
  metric_token_ =
      daemon_.stores.metrics.Watch(job_, [weak = weak_from_this()](const v1::MetricBatch&) {
        if (const auto self = weak.lock()) self->Hear(self->metrics_);
      });
  log_token_ = daemon_.stores.logs.Watch(job_, [weak = weak_from_this()](const LogNews&) {
    if (const auto self = weak.lock()) self->Hear(self->logs_);
  });
}

void JobUpdates::Hear(std::atomic<bool>& what) {
  what = true;
  if (waits_.exchange(true)) return;
  daemon_.process.pool.PostAfter(kUpdateInterval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->waits_ = false;
    self->is_due_ = true;
    self->news_();
  });
}

std::string JobUpdates::Take() {
  std::string text = events_->Take();
  if (!is_due_.exchange(false)) return text;
  if (metrics_.exchange(false)) text += StoredEvent("metrics", job_);
  if (logs_.exchange(false)) text += StoredEvent("logs", job_);
  return text;
}

}  // namespace muster::coordinator::http
