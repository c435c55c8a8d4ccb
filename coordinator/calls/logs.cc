#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/lines/line_matcher.h"
#include "common/text/strings.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/state.h"
#include "coordinator/logs/log_merge.h"
#include "coordinator/logs/log_search.h"

namespace muster::coordinator {
namespace {

using common::StrAppend;
using common::StrCat;

// A job is over when nothing of it is alive, but its last output may still be in transit. A reader that
// arrives then still gets all of it, as a follower does: each stream has an explicit end, so missing output
// is visible without a timeout. This limits the wait for the next byte (a lost node's never arrives).
constexpr std::chrono::seconds kLogRestWithin{5};
// After this many bytes the next work on the pool gets its turn.
constexpr size_t kBytesPerPump = 1 << 20;
// limit: searching logs: searched per turn on the pool; others take turns
constexpr uint64_t kSearchedBytesPerPump = 8 << 20;
// How often the client learns the progress of a search that finds nothing.
constexpr uint64_t kSearchedBytesPerMessage = 64 << 20;

using LogSink = Sink<v1::LogRecord>;

common::LineQuery QueryOf(const v1::LineFilter& filter) {
  common::LineQuery query{.grep = filter.grep(),
                          .ignore_case = filter.ignore_case(),
                          .invert = filter.invert(),
                          .errors = filter.errors(),
                          .lines_before = filter.lines_before(),
                          .lines_after = filter.lines_after(),
                          .count_only = filter.count_only()};
  if (filter.least_level() != v1::LOG_LEVEL_UNSPECIFIED) {
    query.least_level = static_cast<common::LineLevel>(filter.least_level());
  }
  return query;
}

// One reader of a job's logs. Pumps on the pool, one pump at a time, woken by new bytes, new facts
// about the job, or room in the client's stream.
class LogFeed : public std::enable_shared_from_this<LogFeed> {
 public:
  LogFeed(Jobs& jobs, JobStores& stores, Process& process, std::shared_ptr<LogSink> sink,
          const v1::StreamLogsRequest& request, std::shared_ptr<const common::LineMatcher> matcher,
          std::shared_ptr<const v1::JobRecord> record, std::string owner, std::string head)
      : jobs_(jobs),
        stores_(stores),
        process_(process),
        owner_(std::move(owner)),
        head_(std::move(head)),
        sink_(std::move(sink)),
        request_(request),
        job_(record->id()),
        follow_(request.follow() || IsFinal(record->state())),
        search_(matcher == nullptr ? nullptr
                                   : std::make_unique<LogSearch>(matcher, request.since_ms())),
        merge_(stores.logs.Reader(), job_, request, search_.get()),
        record_(std::move(record)) {
    if (search_ != nullptr && !follow_) search_->EndOpenLines();
  }

  void Start();

 private:
  void Wake(bool discover);
  void TakeNews(const LogNews& news);
  void Pump();
  // False: the client's stream is full.
  bool SendWhatThereIs(bool* more);
  size_t Send(v1::LogRecord record);
  // For a search: whether nothing in the record is urgent for the client. Then it is kept back.
  bool Withhold(v1::LogRecord& record);
  void SendWithheld();
  void Close();
  void RetryAfterShortage(const absl::Status& status);
  void SayAttempt(uint32_t attempt);
  void SendOpenLines();
  void MaybeEnd(bool is_over);
  std::string WhyIncomplete() const;
  // "attempt 0 is at h1, attempt 1 at h2": output that came only while others led; empty: none.
  std::string Elsewhere();

  Jobs& jobs_;
  JobStores& stores_;
  Process& process_;
  const std::string owner_;  // its work on the pool counts as this person's
  const std::string head_;   // this coordinator among several; empty: it is alone
  const std::shared_ptr<LogSink> sink_;
  const v1::StreamLogsRequest request_;
  const uint64_t job_;
  const bool follow_;

  // Used by the pump only, one at a time.
  const std::unique_ptr<LogSearch> search_;
  LogMerge merge_;
  int64_t attempt_said_ = -1;
  std::map<LogKey, v1::LogRecord> withheld_;
  uint64_t searched_told_ = 0;

  std::mutex mutex_;  // guards what follows
  std::shared_ptr<const v1::JobRecord> record_;
  WatchToken job_token_;
  WatchToken log_token_;
  bool pumping_ = false;
  bool again_ = false;
  bool discover_ = true;
  bool gone_ = false;
  std::set<LogKey> news_;  // streams with bytes that no pump has looked at
  std::chrono::steady_clock::time_point last_byte_ = std::chrono::steady_clock::now();
};

void LogFeed::Start() {
  sink_->Observe(
      [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Wake(false);
      },
      [self = shared_from_this()] {
        std::lock_guard lock(self->mutex_);
        self->gone_ = true;
        self->job_token_ = nullptr;
        self->log_token_ = nullptr;
      });
  if (!follow_) return Wake(true);
  {
    std::lock_guard lock(mutex_);
    log_token_ = stores_.logs.Watch(job_, [weak = weak_from_this()](const LogNews& news) {
      if (const auto self = weak.lock()) self->TakeNews(news);
    });
  }
  if (IsFinal(record_->state())) return Wake(true);
  jobs_.loop.Ask([self = shared_from_this()](const LoopView& view) -> std::function<void()> {
    const auto live = view.state.jobs.find(self->job_);
    std::lock_guard lock(self->mutex_);
    if (live != view.state.jobs.end()) {
      self->record_ = std::make_shared<const v1::JobRecord>(live->second);
      self->job_token_ = view.watches.WatchJob(
          self->job_, [weak = self->weak_from_this()](const JobChange& change) {
            const auto alive = weak.lock();
            if (alive == nullptr || change.record == nullptr) return;
            {
              std::lock_guard guard(alive->mutex_);
              alive->record_ = change.record;
              alive->last_byte_ = std::chrono::steady_clock::now();
            }
            alive->Wake(true);
          });
      return [self] { self->Wake(true); };
    }
    // It ended since the lookup: the index has its final record.
    return [self] {
      self->process_.pool.Post([self] {
        auto finished = self->jobs_.index.Find(self->job_);
        if (finished.ok() && finished->has_value()) {
          std::lock_guard guard(self->mutex_);
          self->record_ = std::make_shared<const v1::JobRecord>(**finished);
        }
        self->Wake(true);
      });
    };
  });
}

void LogFeed::Wake(bool discover) {
  {
    std::lock_guard lock(mutex_);
    if (gone_) return;
    discover_ = discover_ || discover;
    if (pumping_) {
      again_ = true;
      return;
    }
    pumping_ = true;
  }
  process_.reads.Post([self = shared_from_this()] { self->Pump(); }, owner_);
}

void LogFeed::TakeNews(const LogNews& news) {
  {
    std::lock_guard lock(mutex_);
    news_.insert(news.key);
  }
  Wake(news.is_new);
}

void LogFeed::Pump() {
  std::shared_ptr<const v1::JobRecord> record;
  std::set<LogKey> news;
  bool discover = false;
  {
    std::lock_guard lock(mutex_);
    again_ = false;
    record = record_;
    discover = std::exchange(discover_, false);
    news.swap(news_);
  }
  const bool is_over = IsFinal(record->state());
  absl::Status looked;
  if (discover || merge_.IsLooking()) {
    merge_.Know(*record);
    looked = merge_.Discover();
  }
  merge_.HaveNews(news);
  bool more = merge_.IsLooking();
  const bool has_room = looked.ok() && !more ? SendWhatThereIs(&more) : true;
  if (looked.ok()) looked = merge_.Trouble();
  if (!looked.ok()) {
    RetryAfterShortage(looked);
  } else if (has_room && !more) {
    MaybeEnd(is_over || !follow_);
  }
  std::unique_lock lock(mutex_);
  pumping_ = false;
  if (gone_ || (!again_ && !more)) return;
  if (!has_room && !again_) return;  // `drained` wakes it
  lock.unlock();
  Wake(false);
}

bool LogFeed::SendWhatThereIs(bool* more) {
  size_t sent = 0;
  const uint64_t searched = search_ == nullptr ? 0 : search_->SearchedBytes();
  *more = false;
  while (sink_->QueuedBytes() < LogSink::kFullBytes) {
    if (sent >= kBytesPerPump ||
        (search_ != nullptr && search_->SearchedBytes() - searched >= kSearchedBytesPerPump)) {
      *more = true;
      return true;
    }
    std::optional<v1::LogRecord> record = merge_.Next();
    if (!record.has_value()) return true;
    sent += Send(*std::move(record));
  }
  *more = true;
  return false;
}

size_t LogFeed::Send(v1::LogRecord record) {
  {
    std::lock_guard lock(mutex_);
    last_byte_ = std::chrono::steady_clock::now();
  }
  if (search_ != nullptr && Withhold(record)) return 0;
  if (static_cast<int64_t>(record.attempt()) > attempt_said_) SayAttempt(record.attempt());
  const size_t bytes = record.data().size() + 64;
  sink_->Write(std::move(record));
  return bytes;
}

bool LogFeed::Withhold(v1::LogRecord& record) {
  const LogKey key{job_, record.attempt(), record.rank(), record.stream()};
  const auto earlier = withheld_.find(key);
  if (earlier != withheld_.end()) record.set_matches(record.matches() + earlier->second.matches());
  if (record.data().empty() && record.dropped() + record.damaged() == 0 && !record.end()) {
    withheld_[key] = record;
    if (search_->SearchedBytes() - searched_told_ >= kSearchedBytesPerMessage) SendWithheld();
    return true;
  }
  if (earlier != withheld_.end()) withheld_.erase(earlier);
  return false;
}

void LogFeed::SendWithheld() {
  searched_told_ = search_->SearchedBytes();
  for (auto& [key, record] : withheld_) sink_->Write(std::move(record));
  withheld_.clear();
}

void LogFeed::Close() {
  if (search_ != nullptr) SendWithheld();
  sink_->Close(absl::OkStatus());
}

void LogFeed::RetryAfterShortage(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return sink_->Close(status);
  process_.reads.PostAfter(kShortageRetry, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Wake(true);
  });
}

void LogFeed::SayAttempt(uint32_t attempt) {
  const bool is_change = attempt_said_ >= 0;
  attempt_said_ = attempt;
  if (!is_change) return;
  v1::LogRecord notice;
  notice.set_attempt(attempt);
  std::string from = "from the beginning";
  std::lock_guard lock(mutex_);
  for (const v1::Attempt& known : record_->attempts()) {
    if (known.number() == attempt && known.resume_step() >= 0) {
      from = StrCat("from step ", known.resume_step());
    }
  }
  notice.set_notice(StrCat("attempt ", attempt, " starts ", from));
  sink_->Write(std::move(notice));
}

std::string LogFeed::Elsewhere() {
  std::string text;
  if (head_.empty()) return text;
  std::lock_guard lock(mutex_);
  for (const v1::Attempt& attempt : record_->attempts()) {
    const bool is_newest = &attempt == &*record_->attempts().rbegin();
    const bool is_asked = request_.attempt() == -1 || (request_.attempt() == -2 && is_newest) ||
                          request_.attempt() == static_cast<int64_t>(attempt.number());
    const auto& heads = attempt.heads();
    if (!is_asked || heads.empty() || std::count(heads.begin(), heads.end(), head_) > 0) continue;
    // Else it came before there was a store that all read.
    const auto is_here = [&] {
      const auto streams = stores_.logs.Reader().Streams(job_, attempt.number());
      return !streams.ok() || !streams->empty();
    };
    if (stores_.logs.IsShared() && is_here()) continue;
    StrAppend(&text, text.empty() ? "" : ", ", "attempt ", attempt.number(), " at ",
              absl::StrJoin(heads, " and "));
  }
  return text;
}

std::string LogFeed::WhyIncomplete() const {
  const uint64_t unreadable = merge_.UnreadableBytes();
  if (unreadable == 0) {
    return "some ranks' output is incomplete: their node is unreachable";
  }
  return StrCat("the end of some ranks' output is damaged on the coordinator's disk: ", unreadable,
                " bytes there cannot be read");
}

// Sends the lines whose end never arrived.
void LogFeed::SendOpenLines() {
  if (search_ == nullptr) return;
  search_->EndOpenLines();
  merge_.LookAgain();
  while (std::optional<v1::LogRecord> record = merge_.Next()) Send(*std::move(record));
}

void LogFeed::MaybeEnd(bool is_over) {
  if (!is_over) return;
  if (!follow_) return Close();
  if (const absl::Status looked = merge_.Discover(); !looked.ok()) {
    return RetryAfterShortage(looked);
  }
  if (const std::string elsewhere = Elsewhere(); !elsewhere.empty()) {
    SendOpenLines();
    v1::LogRecord notice;
    notice.set_notice(StrCat("output came while another coordinator led, and is there: ", elsewhere,
                             "; ask again when it leads"));
    sink_->Write(std::move(notice));
    return Close();
  }
  if (merge_.Complete()) return Close();
  const auto now = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  const auto waited = now - last_byte_;
  lock.unlock();
  if (waited >= kLogRestWithin || stores_.logs.IsRestGivenUp(job_)) {
    stores_.logs.GiveUpRest(job_);
    SendOpenLines();
    v1::LogRecord notice;
    notice.set_notice(WhyIncomplete());
    sink_->Write(std::move(notice));
    return Close();
  }
  process_.pool.PostAfter(
      std::chrono::duration_cast<std::chrono::milliseconds>(kLogRestWithin - waited) +
          std::chrono::milliseconds(1),
      [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Wake(true);
      });
}

}  // namespace

void StreamLogs(Jobs& jobs, JobStores& stores, const Instance& instance, Process& process,
                const Caller& caller, const v1::StreamLogsRequest& request,
                std::shared_ptr<LogSink> sink) {
  std::shared_ptr<const common::LineMatcher> matcher;
  const common::LineQuery query = QueryOf(request.filter());
  if (query.SelectsLines()) {
    auto made = common::LineMatcher::Make(query);
    if (!made.ok()) return sink->Close(made.status());
    matcher = *std::move(made);
  }
  FindJob(jobs, process, caller, request.job(),
          [&jobs, &stores, &process, request, matcher, sink, owner = caller.principal,
           head = instance.leading == nullptr ? "" : instance.leading->name](
              absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return sink->Close(found.status());
            std::make_shared<LogFeed>(jobs, stores, process, sink, request, matcher, found->record,
                                      owner, head)
                ->Start();
          });
}
MUSTER_HANDLER(StreamLogs)

}  // namespace muster::coordinator
