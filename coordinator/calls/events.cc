#include <deque>
#include <mutex>
#include <utility>

#include "common/base/limits.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/hiding.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kPastEventsDefault = 10'000;
// limit: calls: events that a slow follower has not read; it is told to reconnect
constexpr size_t kEventsWaitingBytesMax = 8 << 20;  // not yet read by a slow follower

using EventSink = Sink<v1::EventBatch>;

// One reader of the event log: past events from the index, then new ones, without gaps or repeats.
class EventFeed : public std::enable_shared_from_this<EventFeed> {
 public:
  EventFeed(Jobs& jobs, Access& access, Process& process, const Caller& caller,
            std::shared_ptr<EventSink> sink, const v1::ListEventsRequest& request, uint64_t job)
      : jobs_(jobs),
        access_(access),
        process_(process),
        caller_(caller),
        sink_(std::move(sink)),
        request_(request),
        job_(job) {
    past_.job = job;
    past_.node = request.node();
    past_.after = request.after_seq();
    past_.newest = request.limit() == 0 ? kPastEventsDefault : request.limit();
    past_.bytes = common::kAnswerBytesMax / 2;
  }

  void Start();

 private:
  void BeginPast();
  void SayPast();
  void OnEvents(const std::vector<v1::Event>& events);
  bool Wants(const v1::Event& event) const {
    return (job_ == 0 || event.job() == job_) &&
           (request_.node().empty() || event.node() == request_.node());
  }
  void Flush();

  Jobs& jobs_;
  Access& access_;
  Process& process_;
  const Caller caller_;
  const std::shared_ptr<EventSink> sink_;
  const v1::ListEventsRequest request_;
  const uint64_t job_;
  JobIndex::EventRange past_;  // what is still to be sent; one reader at a time

  std::mutex mutex_;  // guards what follows
  WatchToken token_;
  std::deque<v1::EventBatch> waiting_;
  size_t waiting_bytes_ = 0;
  bool past_said_ = false;
  bool reading_past_ = true;
};

// An older release could write an event that fits into no answer: keeps what happened, without the rest.
v1::Event Fitting(v1::Event event) {
  if (event.ByteSizeLong() <= common::kAnswerBytesMax) return event;
  v1::Event rest;
  rest.set_seq(event.seq());
  rest.set_job(event.job());
  rest.set_node(event.node());
  rest.set_attempt(event.attempt());
  rest.set_at_ms(event.at_ms());
  rest.set_skippable(true);
  return rest;
}

std::string TextOf(const v1::Event& event) {
  std::string text = DescribeEvent(event);
  if (text.size() <= common::kAnswerBytesMax / 2) return text;
  return common::Printable(text.substr(0, common::kReasonBytesMax)) + "…";
}

// Splits them into as many batches as needed.
std::vector<v1::EventBatch> BatchesOf(const Access& access, const Caller& caller,
                                      std::vector<v1::Event> events) {
  std::vector<v1::EventBatch> batches;
  size_t bytes = common::kAnswerBytesMax;
  for (v1::Event& event : events) {
    if (bytes >= common::kAnswerBytesMax) {
      batches.emplace_back();
      bytes = 0;
    }
    batches.back().add_texts(TextOf(event));
    v1::Event& shown = *batches.back().add_events() = Fitting(EventForPeople(std::move(event)));
    HideFromCaller(access, caller, shown);
    bytes += shown.ByteSizeLong() + batches.back().texts().rbegin()->size();
  }
  return batches;
}

void EventFeed::Start() {
  sink_->Observe(
      [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        std::lock_guard lock(self->mutex_);
        self->Flush();
      },
      [self = shared_from_this()] {
        std::lock_guard lock(self->mutex_);
        self->token_ = nullptr;
      });
  jobs_.loop.Ask(
      [self = shared_from_this()](const LoopView& view) -> std::function<void()> {
        if (self->request_.follow()) {
          std::lock_guard lock(self->mutex_);
          self->token_ =
              view.watches.WatchEvents([weak = self->weak_from_this()](const auto& events) {
                if (const auto alive = weak.lock()) alive->OnEvents(*events);
              });
        }
        return [self, until = view.state.next_seq - 1] {
          self->past_.until = until;
          self->process_.reads.Post([self] { self->BeginPast(); }, self->caller_.principal);
        };
      },
      [self = shared_from_this()](const absl::Status& why) { self->sink_->Close(why); });
}

void EventFeed::BeginPast() {
  const absl::StatusOr<uint64_t> before = jobs_.index.BeforeNewest(past_);
  if (!before.ok()) return sink_->Close(before.status());
  past_.after = *before;
  SayPast();
}

// Sends one piece of the past events; the next one follows once the reader has read this one.
void EventFeed::SayPast() {
  absl::StatusOr<std::vector<v1::Event>> piece = jobs_.index.Events(past_);
  if (!piece.ok()) return sink_->Close(piece.status());
  const bool is_last = piece->empty() || piece->back().seq() >= past_.until;
  if (!piece->empty()) past_.after = piece->back().seq();
  for (v1::EventBatch& batch : BatchesOf(access_, caller_, *std::move(piece)))
    sink_->Write(std::move(batch));
  if (is_last && !request_.follow()) return sink_->Close(absl::OkStatus());
  std::lock_guard lock(mutex_);
  past_said_ = is_last;
  reading_past_ = false;
  Flush();
}

void EventFeed::OnEvents(const std::vector<v1::Event>& events) {
  std::vector<v1::Event> wanted;
  for (const v1::Event& event : events) {
    if (Wants(event)) wanted.push_back(event);
  }
  if (wanted.empty()) return;
  size_t bytes = 0;
  for (const v1::Event& event : wanted) bytes += event.ByteSizeLong();
  std::unique_lock lock(mutex_);
  waiting_bytes_ += bytes;
  if (waiting_bytes_ >= kEventsWaitingBytesMax) {
    lock.unlock();
    // The reader continues from its last event, so nothing is skipped silently.
    return sink_->Close(
        common::MakeProblem(absl::StatusCode::kResourceExhausted,
                            {.code = "JC1308",
                             .what = "events arrive faster than this follower reads them",
                             .fix = "follow again from the last one seen"}));
  }
  for (v1::EventBatch& batch : BatchesOf(access_, caller_, std::move(wanted)))
    waiting_.push_back(std::move(batch));
  Flush();
}

void EventFeed::Flush() {
  if (!past_said_ && !reading_past_ && sink_->QueuedBytes() < EventSink::kFullBytes &&
      !sink_->Gone()) {
    reading_past_ = true;
    process_.reads.Post([self = shared_from_this()] { self->SayPast(); }, caller_.principal);
  }
  while (past_said_ && !waiting_.empty() && sink_->QueuedBytes() < EventSink::kFullBytes) {
    sink_->Write(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  if (waiting_.empty()) waiting_bytes_ = 0;
}

}  // namespace

void ListEvents(Jobs& jobs, Access& access, Process& process, const Caller& caller,
                const v1::ListEventsRequest& request, std::shared_ptr<EventSink> sink) {
  if (request.job().empty()) {
    return std::make_shared<EventFeed>(jobs, access, process, caller, std::move(sink), request, 0)
        ->Start();
  }
  FindJob(jobs, process, caller, request.job(),
          [&jobs, &access, &process, caller, request, sink](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return sink->Close(found.status());
            std::make_shared<EventFeed>(jobs, access, process, caller, sink, request,
                                        found->record->id())
                ->Start();
          });
}
MUSTER_HANDLER(ListEvents)

}  // namespace muster::coordinator
