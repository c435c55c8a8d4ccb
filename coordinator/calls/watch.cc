#include "coordinator/calls/watch.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "common/base/limits.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/hiding.h"
#include "coordinator/calls/secrets.h"
#include "coordinator/calls/submit.h"
#include "coordinator/contexts/attached_runs.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/views/views.h"
#include "coordinator/identity/directory.h"
#include "coordinator/periodic/lifetime.h"

namespace muster::coordinator {
namespace {

// How long the client of an attached job has for coming back after a restart.
constexpr std::chrono::seconds kReattachWithin{20};
constexpr uint32_t kPastEventsMax = 10'000;
constexpr int kMergedEventsMax = 4'096;
constexpr size_t kEventBytesPerUpdate = common::kAnswerBytesMax / 2;  // in addition to the record

using UpdateSink = Sink<v1::JobUpdate>;

// One client's view of one job. A slow client gets merged updates: the newest record, all events.
class JobFeed : public std::enable_shared_from_this<JobFeed> {
 public:
  JobFeed(Jobs& jobs, Access& access, Process& process, Caller caller,
          std::shared_ptr<UpdateSink> sink, bool past_end)
      : jobs_(jobs),
        access_(access),
        process_(process),
        caller_(std::move(caller)),
        sink_(std::move(sink)),
        past_end_(past_end) {}

  // `with_past`: the first update carries all events so far.
  void Start(uint64_t job, bool with_past, std::function<void()> gone);

 private:
  void OnChange(const JobChange& change);
  // Starts with what was known when the watch began; changes wait until that is sent.
  void SayFirst(std::shared_ptr<const v1::JobRecord> record, std::vector<v1::Event> past);
  // Events beyond a message's size follow in separate updates, each with the record.
  void WriteInPieces(v1::JobUpdate update);
  void Flush(std::unique_lock<std::mutex>& lock);

  Jobs& jobs_;
  Access& access_;
  Process& process_;
  const Caller caller_;
  const std::shared_ptr<UpdateSink> sink_;
  const bool past_end_;

  std::mutex mutex_;  // guards what follows
  WatchToken token_;
  v1::JobUpdate pending_;
  bool has_pending_ = false;
  bool began_ = false;
  bool over_ = false;
  bool closed_ = false;
};

void JobFeed::Start(uint64_t job, bool with_past, std::function<void()> gone) {
  sink_->Observe(
      [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        std::unique_lock lock(self->mutex_);
        self->Flush(lock);
      },
      // Keeps this feed alive as long as the stream is.
      [self = shared_from_this(), gone = std::move(gone)] {
        {
          std::lock_guard lock(self->mutex_);
          self->token_ = nullptr;
          self->closed_ = true;
        }
        if (gone) gone();
      });
  jobs_.loop.Ask([self = shared_from_this(), job, with_past](const LoopView& view) {
    const auto live = view.state.jobs.find(job);
    std::shared_ptr<const v1::JobRecord> record;
    if (live != view.state.jobs.end()) {
      record = std::make_shared<const v1::JobRecord>(live->second);
      std::lock_guard lock(self->mutex_);
      self->token_ =
          view.watches.WatchJob(job, [weak = self->weak_from_this()](const JobChange& change) {
            if (const auto alive = weak.lock()) alive->OnChange(change);
          });
    }
    const uint64_t until = view.state.next_seq - 1;
    return std::function<void()>([self, job, record, until, with_past] {
      self->process_.pool.Post([self, job, record, until, with_past]() mutable {
        std::vector<v1::Event> past;
        JobIndex& index = self->jobs_.index;
        if (record == nullptr) {
          auto finished = index.Find(job);
          if (!finished.ok()) return self->sink_->Close(finished.status());
          if (!finished->has_value()) {
            return self->sink_->Close(common::MakeProblem(
                absl::StatusCode::kNotFound,
                {.code = "JC1201", .what = common::StrCat("job ", job, " was removed")}));
          }
          record = std::make_shared<const v1::JobRecord>(**finished);
        }
        if (with_past) {
          auto events = index.Events({.job = job, .until = until, .newest = kPastEventsMax});
          if (events.ok()) past = *std::move(events);
        }
        self->SayFirst(std::move(record), std::move(past));
      });
    });
  });
}

void JobFeed::SayFirst(std::shared_ptr<const v1::JobRecord> record, std::vector<v1::Event> past) {
  std::unique_lock lock(mutex_);
  v1::JobUpdate first;
  *first.mutable_record() = RecordForPeople(*record);
  for (v1::Event& event : past) *first.add_events() = std::move(event);
  WriteInPieces(std::move(first));
  began_ = true;
  if (IsFinal(record->state())) over_ = true;
  Flush(lock);
}

void JobFeed::OnChange(const JobChange& change) {
  std::unique_lock lock(mutex_);
  if (change.record == nullptr) {
    over_ = true;
  } else {
    *pending_.mutable_record() = RecordForPeople(*change.record);
    if (IsFinal(change.record->state())) over_ = true;
    has_pending_ = true;
  }
  for (const v1::Event& event : change.events) {
    if (pending_.events_size() >= kMergedEventsMax) pending_.mutable_events()->DeleteSubrange(0, 1);
    *pending_.add_events() = event;
  }
  Flush(lock);
}

void JobFeed::WriteInPieces(v1::JobUpdate update) {
  HideFromCaller(access_, caller_, *update.mutable_record());
  v1::JobUpdate piece;
  *piece.mutable_record() = update.record();
  size_t bytes = 0;
  for (v1::Event& event : *update.mutable_events()) {
    v1::Event& shown = *piece.add_events() = EventForPeople(std::move(event));
    HideFromCaller(access_, caller_, shown);
    bytes += shown.ByteSizeLong();
    if (bytes < kEventBytesPerUpdate) continue;
    sink_->Write(std::exchange(piece, {}));
    *piece.mutable_record() = update.record();
    bytes = 0;
  }
  sink_->Write(std::move(piece));
}

void JobFeed::Flush(std::unique_lock<std::mutex>& lock) {
  if (!began_ || closed_) return;
  if (has_pending_ && sink_->QueuedBytes() < UpdateSink::kFullBytes) {
    WriteInPieces(std::exchange(pending_, {}));
    has_pending_ = false;
  }
  if (!over_ || has_pending_ || past_end_) return;
  closed_ = true;
  lock.unlock();
  sink_->Close(absl::OkStatus());
}

void CancelGone(Jobs& jobs, uint64_t job) {
  CancelInput cancel{.caller = {"coordinator"}, .jobs = {job}};
  cancel.cause = v1::STOP_CAUSE_CLIENT_GONE;
  cancel.reason = "the attached jobctl run disconnected";
  jobs.loop.Say(std::move(cancel));
}

// If a stream ended because its certificate expired, the client reopens it once it has renewed the
// certificate; every other end counts as the client leaving.
void OnClientGone(Jobs& jobs, Process& process, const Caller& caller, uint64_t job) {
  const bool has_expired = caller.until_ms != 0 && process.clock.Read().wall_ms >= caller.until_ms;
  if (!has_expired) return CancelGone(jobs, job);
  process.pool.PostAfter(kReattachWithin, [&jobs, job] {
    if (!jobs.attached.Has(job)) CancelGone(jobs, job);
  });
}

// For a run that does not begin: its client leaves when the stream is over.
void EndRun(Instance& instance, UpdateSink& sink, const absl::Status& why) {
  sink.Observe(nullptr, [&instance] { instance.lifetime.ClientLeft(); });
  sink.Close(why);
}

// The client counts already; it leaves when the stream is over.
void BeginRun(Jobs& jobs, JobStores& stores, Access& access, Instance& instance, Process& process,
              const Caller& caller, SubmitInput input, std::shared_ptr<UpdateSink> sink) {
  const absl::Status queued = EnqueueSubmit(
      jobs, stores, access, std::move(input),
      [&jobs, &access, &instance, &process, caller, sink](const Reply& reply) {
        if (!reply.status.ok()) return EndRun(instance, *sink, reply.status);
        const uint64_t job = reply.submit.job();
        jobs.attached.Came(job);
        std::make_shared<JobFeed>(jobs, access, process, caller, sink, /*past_end=*/false)
            ->Start(job, /*with_past=*/true, [&jobs, &instance, &process, caller, job] {
              if (jobs.attached.Left(job) && !instance.stopping)
                OnClientGone(jobs, process, caller, job);
              instance.lifetime.ClientLeft();
            });
      });
  if (!queued.ok()) EndRun(instance, *sink, queued);
}

}  // namespace

void Run(Jobs& jobs, JobStores& stores, JobCode& job_code, Access& access, Instance& instance,
         Process& process, const Caller& caller, const v1::SubmitRequest& request,
         std::shared_ptr<UpdateSink> sink) {
  instance.lifetime.ClientCame();
  const auto input = std::make_shared<SubmitInput>(InputOf(access, caller, request));
  input->attached = true;
  CheckMayUse(
      stores, job_code, access, process, caller, request.spec(),
      [&jobs, &stores, &access, &instance, &process, caller, sink, input](const absl::Status& may) {
        if (may.ok())
          return BeginRun(jobs, stores, access, instance, process, caller, std::move(*input), sink);
        EndRun(instance, *sink, may);
      });
}
MUSTER_HANDLER(Run)

void WatchJob(Jobs& jobs, Access& access, Process& process, const Caller& caller,
              const v1::WatchJobRequest& request, std::shared_ptr<UpdateSink> sink) {
  FindJob(jobs, process, caller, request.job(),
          [&jobs, &access, &process, caller, request, sink](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return sink->Close(found.status());
            std::make_shared<JobFeed>(jobs, access, process, caller, sink, request.past_end())
                ->Start(found->record->id(), /*with_past=*/false, nullptr);
          });
}
MUSTER_HANDLER(WatchJob)

void CancelAbandonedRuns(Jobs& jobs, Instance& instance, Process& process) {
  process.pool.PostAfter(kReattachWithin, [&jobs, &instance] {
    jobs.loop.Ask([&jobs, &instance](const LoopView& view) -> std::function<void()> {
      std::vector<uint64_t> abandoned;
      for (const auto& [id, job] : view.state.jobs) {
        if (job.attached() && job.submitted_ms() < instance.started_ms && !jobs.attached.Has(id)) {
          abandoned.push_back(id);
        }
      }
      return [&jobs, abandoned] {
        for (const uint64_t job : abandoned) CancelGone(jobs, job);
      };
    });
  });
}

}  // namespace muster::coordinator
