// Reads the audit.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/problem.h"
#include "coordinator/audit/audit.h"
#include "coordinator/calls/handlers.h"

namespace muster::coordinator {
namespace {

using AuditSink = Sink<v1::AuditEntries>;

// One reader: file after file, as fast as it reads. Works on the pool for reads.
class AuditReading : public std::enable_shared_from_this<AuditReading> {
 public:
  AuditReading(Access& access, Process& process, std::shared_ptr<AuditSink> sink,
               const v1::ReadAuditRequest& request)
      : access_(access), process_(process), sink_(std::move(sink)), head_(access.audit.head()) {
    const uint64_t last = head_.number();
    to_ = request.to() == 0 ? last : std::min(request.to(), last);
    next_ = std::max<uint64_t>(request.from(), 1);
    if (request.newest() > 0 && request.newest() < to_) {
      next_ = std::max(next_, to_ - request.newest() + 1);
    }
  }

  void Start() {
    // The stream keeps the reading until it is over; steps hold it weakly.
    sink_->Observe(
        [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->Post();
        },
        [self = shared_from_this()] { self->Over(); });
    Post();
  }

 private:
  void Post() {
    process_.reads.Post([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Step();
    });
  }
  // Sends as much as the stream takes; continues when it has drained.
  void Step();
  void Send(v1::AuditEntries& part) { sink_->Write(std::exchange(part, {})); }
  void Over() {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  void End(const absl::Status& status) {
    if (!std::exchange(over_, true)) sink_->Close(status);
  }

  Access& access_;
  Process& process_;
  const std::shared_ptr<AuditSink> sink_;
  const v1::AuditHead head_;
  std::mutex mutex_;  // guards what follows
  uint64_t next_ = 1;
  uint64_t to_ = 0;
  bool over_ = false;
};

void AuditReading::Step() {
  std::lock_guard lock(mutex_);
  if (over_ || sink_->Gone()) return;
  const AuditStore& store = access_.audit.store();
  const absl::StatusOr<std::vector<uint64_t>> parts = store.Parts();
  if (!parts.ok()) return End(parts.status());
  for (size_t i = 0; i < parts->size() && next_ <= to_; ++i) {
    const bool is_passed = i + 1 < parts->size() && (*parts)[i + 1] <= next_;
    if (is_passed || (*parts)[i] > to_) continue;
    if (sink_->QueuedBytes() >= AuditSink::kFullBytes) return;
    const absl::StatusOr<AuditPart> read = store.Read((*parts)[i]);
    if (!read.ok()) return End(read.status());
    v1::AuditEntries part;
    size_t bytes = 0;
    for (const v1::AuditEntry& entry : read->entries) {
      if (entry.number() < next_ || entry.number() > to_) continue;
      bytes += entry.ByteSizeLong();
      *part.add_entries() = entry;
      if (bytes < common::kAnswerBytesMax / 4) continue;
      bytes = 0;
      Send(part);
    }
    if (part.entries_size() > 0) Send(part);
    next_ = i + 1 < parts->size() ? std::max(next_, (*parts)[i + 1]) : to_ + 1;
  }
  v1::AuditEntries end;
  *end.mutable_head() = head_;
  Send(end);
  End(absl::OkStatus());
}

}  // namespace

void ReadAudit(Access& access, Process& process, const Caller&, const v1::ReadAuditRequest& request,
               std::shared_ptr<AuditSink> sink) {
  if (!access.audit.IsKept()) {
    return sink->Close(
        common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                            {.code = "JC1330",
                             .what = "a private coordinator keeps no audit, as it has one user",
                             .fix = "jobctl events shows what happened to jobs"}));
  }
  std::make_shared<AuditReading>(access, process, std::move(sink), request)->Start();
}
MUSTER_HANDLER(ReadAudit)

}  // namespace muster::coordinator
