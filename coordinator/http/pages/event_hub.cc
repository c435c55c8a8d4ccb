#include "coordinator/http/pages/event_hub.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/text/strings.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/http/pages/job_updates.h"

namespace muster::coordinator::http {
namespace {

using common::StrCat;

// How many events behind a page may be after a restart.
constexpr uint32_t kPastEvents = 1'000;
constexpr size_t kEventsPerPiece = 64;
constexpr std::chrono::seconds kSubscribeAgainAfter{1};

std::string Resync(uint64_t newest) {
  return StrCat("id: ", newest, "\nevent: resync\ndata: {}\n\n");
}

// A client's position in the hub's ring.
class RingReader final : public TextSource {
 public:
  RingReader(std::shared_ptr<const EventHub> hub, const EventRing& ring, uint64_t number)
      : hub_(std::move(hub)), ring_(ring), number_(number) {}
  std::string Take() override { return ring_.Take(&number_); }

 private:
  const std::shared_ptr<const EventHub> hub_;  // owns the ring
  const EventRing& ring_;
  uint64_t number_;
};

uint64_t OldestOf(const v1::EventBatch& batch) {
  uint64_t oldest = 0;
  for (const v1::Event& event : batch.events()) {
    if (event.seq() != 0 && (oldest == 0 || event.seq() < oldest)) oldest = event.seq();
  }
  return oldest;
}

uint64_t NewestOf(const v1::EventBatch& batch) {
  uint64_t newest = 0;
  for (const v1::Event& event : batch.events()) newest = std::max(newest, event.seq());
  return newest;
}

}  // namespace

void EventRing::Add(uint64_t first, uint64_t last, std::string text) {
  std::lock_guard lock(mutex_);
  if (pieces_.empty()) forgotten_ = std::max(forgotten_, first - 1);
  bytes_ += text.size();
  pieces_.push_back({.number = last, .text = std::move(text)});
  while (bytes_ > kBytesMax && pieces_.size() > 1) {
    bytes_ -= pieces_.front().text.size();
    forgotten_ = pieces_.front().number;
    pieces_.pop_front();
  }
}

std::string EventRing::Take(uint64_t* number) const {
  std::lock_guard lock(mutex_);
  if (pieces_.empty() || pieces_.back().number == *number) return "";
  const uint64_t newest = pieces_.back().number;
  // Also for a number in the future: it is from another data directory.
  if (*number < forgotten_ || *number > newest) {
    *number = newest;
    return Resync(newest);
  }
  auto at = pieces_.end();
  while (at != pieces_.begin() && std::prev(at)->number > *number) --at;
  std::string text;
  for (; at != pieces_.end() && text.size() < kPieceBytes; ++at) {
    text += at->text;
    *number = at->number;
  }
  return text;
}

void EventRing::Forget() {
  std::lock_guard lock(mutex_);
  if (!pieces_.empty()) forgotten_ = pieces_.back().number + 1;
  pieces_.clear();
  bytes_ = 0;
}

std::string ServerSentEvent(const v1::EventBatch& batch) {
  v1::EventBatch shown;
  for (int at = 0; at < batch.events_size(); ++at) {
    if (batch.events(at).seq() == 0) continue;
    v1::Event& event = *shown.add_events();
    event.set_seq(batch.events(at).seq());
    event.set_at_ms(batch.events(at).at_ms());
    event.set_job(batch.events(at).job());
    event.set_attempt(batch.events(at).attempt());
    event.set_node(batch.events(at).node());
    shown.add_texts(at < batch.texts_size() ? batch.texts(at) : "");
  }
  std::string json;
  if (shown.events_size() == 0 || !google::protobuf::util::MessageToJsonString(shown, &json).ok()) {
    return "";
  }
  return StrCat("id: ", NewestOf(shown), "\nevent: change\ndata: ", json, "\n\n");
}

// Never full: the hub queues what arrives at once.
class EventHub::Subscription final : public Sink<v1::EventBatch> {
 public:
  explicit Subscription(std::weak_ptr<EventHub> hub) : hub_(std::move(hub)) {}
  void Write(v1::EventBatch batch) override {
    if (const auto hub = hub_.lock()) hub->Receive(std::move(batch));
  }
  // The coordinator ended it: its further events are lost.
  void Close(const absl::Status&) override {
    End();
    const auto hub = hub_.lock();
    if (hub == nullptr || hub->daemon_.instance.stopping) return;
    hub->ring_.Forget();
    hub->daemon_.process.pool.PostAfter(kSubscribeAgainAfter, [weak = hub_] {
      if (const auto alive = weak.lock()) alive->Subscribe();
    });
  }
  void End() {
    std::function<void()> gone;
    {
      std::lock_guard lock(mutex_);
      is_gone_ = true;
      gone.swap(gone_);
    }
    if (gone) gone();
  }
  size_t QueuedBytes() const override { return 0; }
  bool Gone() const override {
    std::lock_guard lock(mutex_);
    return is_gone_;
  }
  void Observe(std::function<void()>, std::function<void()> gone) override {
    std::lock_guard lock(mutex_);
    gone_ = std::move(gone);
  }

 private:
  const std::weak_ptr<EventHub> hub_;
  mutable std::mutex mutex_;    // guards what follows
  std::function<void()> gone_;  // keeps the feed alive, as the feed keeps this
  bool is_gone_ = false;
};

std::shared_ptr<TextSource> EventHub::Reader(uint64_t number) {
  bool begins = false;
  {
    std::lock_guard lock(mutex_);
    begins = !std::exchange(began_, true);
  }
  if (begins) Subscribe();
  return std::make_shared<RingReader>(shared_from_this(), ring_, number);
}

std::shared_ptr<TextSource> EventHub::ReaderOfJob(uint64_t number, uint64_t job) {
  return JobUpdates::Open(daemon_, job, Reader(number), news_);
}

void EventHub::End() {
  std::shared_ptr<Subscription> subscription;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    subscription.swap(subscription_);
  }
  if (subscription != nullptr) subscription->End();
}

void EventHub::Subscribe() {
  auto subscription = std::make_shared<Subscription>(weak_from_this());
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    subscription_ = subscription;
  }
  v1::ListEventsRequest request;
  request.set_follow(true);
  request.set_limit(kPastEvents);
  call::ListEvents::Handle(daemon_, Caller{"http"}, request, subscription);
}

void EventHub::Receive(v1::EventBatch batch) {
  {
    std::lock_guard lock(mutex_);
    if (waiting_.size() == kWaitingMax) {
      waiting_.clear();
      ring_.Forget();
    }
    waiting_.push_back(std::move(batch));
    if (std::exchange(is_writing_, true)) return;
  }
  daemon_.process.pool.Post([self = shared_from_this()] { self->WriteWaiting(); });
}

void EventHub::WriteWaiting() {
  while (true) {
    v1::EventBatch batch;
    {
      std::lock_guard lock(mutex_);
      if (waiting_.empty()) {
        is_writing_ = false;
        break;
      }
      batch = std::move(waiting_.front());
      waiting_.pop_front();
    }
    v1::EventBatch piece;
    for (int at = 0; at < batch.events_size(); ++at) {
      piece.mutable_events()->Add(std::move(*batch.mutable_events(at)));
      piece.add_texts(at < batch.texts_size() ? batch.texts(at) : "");
      const bool is_last = at + 1 == batch.events_size();
      if (!is_last && static_cast<size_t>(piece.events_size()) < kEventsPerPiece) continue;
      std::string text = ServerSentEvent(piece);
      if (!text.empty()) ring_.Add(OldestOf(piece), NewestOf(piece), std::move(text));
      piece.Clear();
    }
  }
  news_();
}

}  // namespace muster::coordinator::http
