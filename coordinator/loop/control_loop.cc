#include "coordinator/loop/control_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/headroom.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {

using common::Now;

namespace {

// The caller for whose turn the request waits.
std::string CallerOf(const Input& input) {
  const std::string* caller = std::visit(
      [](const auto& request) -> const std::string* {
        if constexpr (requires { request.caller.principal; }) return &request.caller.principal;
        return nullptr;
      },
      input);
  return caller == nullptr || caller->empty() ? "the coordinator" : *caller;
}

}  // namespace

ControlLoop::ControlLoop(Journal& journal, const common::Clock& clock, Settings settings)
    : journal_(journal), clock_(clock) {
  state_.settings = settings;
}

ControlLoop::~ControlLoop() { Stop(); }

absl::Status ControlLoop::Recover(JobIndex* finished) {
  const Now now = clock_.Read();
  ReplayCallbacks sink;
  sink.snapshot = [&](const v1::Snapshot& snapshot) {
    bytes_of_snapshot_ = snapshot.ByteSizeLong();
    return ReplaySnapshot(state_, snapshot, now);
  };
  sink.event = [&](const v1::Event& event) {
    ++events_since_snapshot_;
    bytes_since_snapshot_ += event.ByteSizeLong();
    return ReplayEvent(state_, event, now);
  };
  RETURN_IF_ERROR(journal_.Replay(sink));
  if (const absl::Status sound = CheckReplayed(state_); !sound.ok()) {
    return common::MakeProblem(
        absl::StatusCode::kDataLoss,
        {.code = "JC1602",
         .what = common::StrCat("the journal in ", journal_.Place(), " is damaged"),
         .why = common::MessageOf(sound),
         .fix = "restore the data directory from a backup"});
  }
  // The index has these jobs, and knows which of them were removed or rewritten since.
  TakeFinished(state_);
  if (finished != nullptr) {
    RETURN_IF_ERROR(finished->Keys(
        [&](const std::string& owner, const std::string& key, uint64_t job, uint64_t spec_hash) {
          RestoreKey(state_, owner, key, job, spec_hash);
        }));
  }
  for (const auto& [id, job] : state_.jobs) {
    live_names_[job.name()] = id;
    names_of_live_[id] = job.name();
  }
  Finish(ResumeAfterReplay(state_, now), nullptr, now);
  return absl::OkStatus();
}

void ControlLoop::Start(LoopCallbacks callbacks) {
  callbacks_ = std::move(callbacks);
  thread_ = std::thread([this] { Run(); });
}

void ControlLoop::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

absl::Status ControlLoop::MaySubmit() const {
  if (!disk_full_) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1605",
       .what = "the coordinator's disk is full, so new jobs cannot be recorded; running jobs "
               "continue",
       .fix = FixOfFullDisk(journal_.Place())});
}

absl::Status ControlLoop::Submit(Input input, Done done) {
  if (std::holds_alternative<SubmitInput>(input)) RETURN_IF_ERROR(MaySubmit());
  const std::string caller = CallerOf(input);
  Entry entry{.what = std::move(input), .done = std::move(done)};
  {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(MayQueue(caller));
    queued_requests_.Take(caller);
    queue_.Push(caller, std::move(entry));
  }
  wake_.notify_one();
  return absl::OkStatus();
}

absl::Status ControlLoop::MayQueue(const std::string& caller) const {
  const auto refused = [](std::string what) {
    return common::MakeProblem(
        absl::StatusCode::kResourceExhausted,
        {.code = "JC1308", .what = std::move(what), .fix = "try again in a moment"});
  };
  const FairShare::Verdict verdict = queued_requests_.Ask(caller);
  if (verdict == FairShare::Verdict::kOverShare) {
    return refused(common::StrCat(queued_requests_.Of(caller), " requests of ", caller,
                                  " are queued, which is its share (of ", kQueuedRequests.most,
                                  " for all callers)"));
  }
  if (verdict == FairShare::Verdict::kRoom && journal_.PendingBytes() <= kPendingJournalBytesMax)
    return absl::OkStatus();
  return refused(common::StrCat("the coordinator is overloaded: ", queued_requests_.taken(),
                                " requests are queued (the limit is ", kQueuedRequests.most, ")"));
}

void ControlLoop::Say(Input input, std::function<void()> taken) {
  Push(Entry{.what = std::move(input), .taken = std::move(taken)});
}

void ControlLoop::Register(WorkerRegisteredInput input, std::shared_ptr<CommandSink> sink) {
  Registrant registrant{input.message.facts().name(), input.session, std::move(sink)};
  Push(Entry{.what = Input(std::move(input)), .registrant = std::move(registrant)});
}

void ControlLoop::Ask(Question question, Refused refused) {
  Push(Entry{.what = std::move(question), .refused = std::move(refused)});
}

void ControlLoop::RewriteFinished(std::shared_ptr<const v1::JobRecord> record,
                                  std::function<void()> done) {
  Push(Entry{.what = Rewrite{std::move(record), std::move(done)}});
}

void ControlLoop::RewriteRow(Rewrite rewrite) {
  TurnFacts facts{.finished = {RowOf(rewrite.record)}, .lived_ms = clock_.Read().lived_ms};
  JournalRecord record;
  record.facts = std::make_shared<const TurnFacts>(std::move(facts));
  last_appended_ = record.turn = next_turn_++;
  journal_.Append(std::move(record));
  Release release;
  release.turn = last_appended_;
  release.effects.push_back(std::move(rewrite.done));
  releases_.push_back(std::move(release));
}

void ControlLoop::Push(Entry entry) {
  {
    std::lock_guard lock(mutex_);
    queue_.Push({}, std::move(entry));
  }
  wake_.notify_one();
}

void ControlLoop::OnDurable(uint64_t turn) {
  {
    std::lock_guard lock(mutex_);
    durable_turn_ = turn;
  }
  wake_.notify_one();
}

void ControlLoop::OnStuck(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    // Called again with each retry.
    got_stuck_ = !why.ok();
    stuck_tries_ = why.ok() ? 0 : stuck_tries_ + 1;
    why_stuck_ = why;
  }
  wake_.notify_one();
}

absl::Status ControlLoop::WhyStuck() const {
  std::lock_guard lock(mutex_);
  return why_stuck_;
}

void ControlLoop::Run() {
  std::vector<Entry> entries;
  while (TakeEntries(entries)) {
    ReleaseDurable();
    TakeInputs(entries);
    AnswerQuestions(entries);
    ReleaseDurable();
    RefuseWhatIsStuck();
    entries.clear();
  }
  // Last record: a snapshot, so that the next start has nothing to replay.
  JournalRecord record;
  record.turn = next_turn_;
  record.snapshot = std::make_shared<const v1::Snapshot>(MakeSnapshot(state_));
  journal_.Append(std::move(record));
}

// Waits for work. False: stopping, and everything taken so far has been released or never can be.
bool ControlLoop::TakeEntries(std::vector<Entry>& entries) {
  std::unique_lock lock(mutex_);
  const uint64_t seen_durable = releases_.empty() ? UINT64_MAX : releases_.front().turn;
  const auto ready = [&] {
    return !queue_.empty() || stopping_ || durable_turn_ >= seen_durable || got_stuck_;
  };
  if (!ready()) {
    const std::optional<int64_t> deadline = NextDeadlineMonoMs(state_);
    if (deadline.has_value()) {
      const int64_t wait_ms = std::clamp<int64_t>(*deadline - clock_.Read().mono_ms, 0, 3'600'000);
      wake_.wait_for(lock, std::chrono::milliseconds(wait_ms), ready);
    } else {
      wake_.wait(lock, ready);
    }
  }
  if (stopping_ && queue_.empty()) return false;
  while (!queue_.empty() && entries.size() < kInputsPerTurn) {
    auto next = *queue_.Take();
    if (!next.owner.empty()) queued_requests_.Release(next.owner);
    entries.push_back(std::move(next.item));
  }
  return true;
}

void ControlLoop::TakeInputs(std::vector<Entry>& entries) {
  const Now now = clock_.Read();
  std::vector<Input> inputs;
  std::vector<Entry> sources;
  for (Entry& entry : entries) {
    Input* input = std::get_if<Input>(&entry.what);
    if (input == nullptr) continue;
    if (entry.taken) entry.taken();
    inputs.push_back(std::move(*input));
    sources.push_back(std::move(entry));
  }
  std::erase_if(entries,
                [](const Entry& entry) { return std::holds_alternative<Input>(entry.what); });
  const std::optional<int64_t> deadline = NextDeadlineMonoMs(state_);
  if (deadline.has_value() && *deadline <= now.mono_ms) {
    inputs.emplace_back(TickInput{});
    sources.emplace_back();
  }
  if (inputs.empty()) return;
  for (const Input& input : inputs) {
    const auto* gone = std::get_if<WorkerGoneInput>(&input);
    if (gone == nullptr) continue;
    const auto stream = streams_.find(gone->node);
    if (stream != streams_.end() && stream->second.session == gone->session) streams_.erase(stream);
  }
  Finish(TakeTurn(state_, inputs, now), &sources, now);
}

void ControlLoop::AnswerQuestions(std::vector<Entry>& entries) {
  for (Entry& entry : entries) {
    if (Rewrite* rewrite = std::get_if<Rewrite>(&entry.what)) {
      RewriteRow(std::move(*rewrite));
      continue;
    }
    const LoopView view{state_, live_names_, clock_.Read(), watches_,
                        [this](const std::string& node, v1::CoordinatorMessage message) {
                          SendCommand(node, std::move(message));
                        }};
    std::function<void()> answer = std::get<Question>(entry.what)(view);
    if (!answer) continue;
    Release release;
    release.turn = last_appended_;
    release.effects.push_back(std::move(answer));
    release.refused = std::move(entry.refused);
    releases_.push_back(std::move(release));
  }
}

void ControlLoop::Finish(Turn turn, std::vector<Entry>* entries, Now now) {
  SayAlarm();
  if (callbacks_.denied) {
    for (const Denial& denial : turn.denials) callbacks_.denied(denial);
  }
  Release release;
  JournalRecord record = RecordOf(turn, now);
  const bool has_facts = !record.events->empty() || record.facts != nullptr;
  if (entries != nullptr) QueueReplies(turn, *entries, release);
  QueueCommands(turn, release);
  QueueWatches(turn, record, release);
  QueueObserver(turn, release);
  if (has_facts) {
    TakeSnapshotIfDue(record);
    last_appended_ = record.turn = next_turn_++;
    journal_.Append(std::move(record));
  }
  release.turn = last_appended_;
  releases_.push_back(std::move(release));
}

// A snapshot costs what the state has, so the events' bytes grow with it before the next one.
void ControlLoop::TakeSnapshotIfDue(JournalRecord& record) {
  events_since_snapshot_ += record.events->size();
  bytes_since_snapshot_ += EventBytesOf(record);
  const bool is_due =
      events_since_snapshot_ >= kEventsPerSnapshot ||
      bytes_since_snapshot_ >= std::max<size_t>(kEventBytesPerSnapshot, bytes_of_snapshot_);
  if (!is_due) return;
  auto snapshot = std::make_shared<const v1::Snapshot>(MakeSnapshot(state_));
  bytes_of_snapshot_ = snapshot->ByteSizeLong();
  record.snapshot = std::move(snapshot);
  events_since_snapshot_ = bytes_since_snapshot_ = 0;
}

void ControlLoop::SayAlarm() {
  std::string alarm = ClusterAlarm(state_);
  if (alarm.empty() != alarm_.empty()) {
    common::LogWarning(
        alarm.empty() ? "half of the nodes are in contact again: lost ones are replaced" : alarm);
  }
  alarm_ = std::move(alarm);
}

FinishedJob ControlLoop::RowOf(std::shared_ptr<const v1::JobRecord> record) const {
  FinishedJob row{record, Summarize(*record)};
  if (callbacks_.decorate) callbacks_.decorate(row.summary);
  return row;
}

JournalRecord ControlLoop::RecordOf(Turn& turn, Now now) {
  for (const uint64_t id : turn.changed_jobs) {
    const auto job = state_.jobs.find(id);
    if (job == state_.jobs.end() || names_of_live_.contains(id)) continue;
    names_of_live_[id] = job->second.name();
    live_names_[job->second.name()] = id;
  }
  JournalRecord record;
  std::erase_if(turn.events, [](const v1::Event& event) { return !IsJournaled(event); });
  record.events = std::make_shared<const std::vector<v1::Event>>(std::move(turn.events));
  if (turn.finished.empty() && turn.removed_jobs.empty()) return record;
  TurnFacts facts{.lived_ms = now.lived_ms, .removed_jobs = std::move(turn.removed_jobs)};
  for (v1::JobRecord& job : turn.finished) {
    live_names_.erase(job.name());
    names_of_live_.erase(job.id());
    facts.finished.push_back(RowOf(std::make_shared<const v1::JobRecord>(std::move(job))));
  }
  record.facts = std::make_shared<const TurnFacts>(std::move(facts));
  return record;
}

void ControlLoop::QueueReplies(Turn& turn, std::vector<Entry>& entries, Release& release) {
  for (size_t i = 0; i < turn.replies.size() && i < entries.size(); ++i) {
    Entry& entry = entries[i];
    if (entry.registrant.has_value()) {
      release.effects.push_back([this, registrant = *std::move(entry.registrant),
                                 verdict = std::move(turn.replies[i].status)]() mutable {
        TakeOver(std::move(registrant), verdict);
      });
    } else if (entry.done) {
      release.effects.push_back(
          [done = std::move(entry.done), reply = std::move(turn.replies[i])] { done(reply); });
    }
  }
}

void ControlLoop::TakeOver(Registrant registrant, const absl::Status& verdict) {
  if (!verdict.ok()) return registrant.sink->Close(verdict);
  Stream& stream = streams_[registrant.node];
  if (stream.sink != nullptr && stream.sink != registrant.sink) {
    stream.sink->Close(absl::AbortedError(
        common::StrCat("node ", registrant.node, " has opened a newer control stream")));
  }
  stream = Stream{registrant.session, std::move(registrant.sink)};
}

void ControlLoop::QueueCommands(Turn& turn, Release& release) {
  for (Command& command : turn.commands) {
    if (command.message.has_heartbeat_reply()) {
      SendCommand(command.node, std::move(command.message));
      continue;
    }
    release.effects.push_back([this, command = std::move(command)]() mutable {
      SendCommand(command.node, std::move(command.message));
    });
  }
}

void ControlLoop::SendCommand(const std::string& node, v1::CoordinatorMessage message) {
  const auto stream = streams_.find(node);
  if (stream == streams_.end()) return;
  message.set_epoch(journal_.Epoch());
  stream->second.sink->Send(std::move(message));
}

void ControlLoop::QueueWatches(const Turn& turn, const JournalRecord& record, Release& release) {
  for (const uint64_t id : turn.changed_jobs) {
    WatchHub::JobWatchers watchers = watches_.WatchersOf(id);
    if (watchers.empty()) continue;
    JobChange change;
    if (record.facts != nullptr) {
      for (const FinishedJob& job : record.facts->finished) {
        if (job.record->id() == id) change.record = job.record;
      }
    }
    const auto live = state_.jobs.find(id);
    if (change.record == nullptr && live != state_.jobs.end()) {
      change.record = std::make_shared<const v1::JobRecord>(live->second);
    }
    for (const v1::Event& event : *record.events) {
      if (event.job() == id) change.events.push_back(event);
    }
    release.effects.push_back([watchers = std::move(watchers), change = std::move(change)] {
      for (const auto& watcher : watchers) {
        if (const auto alive = watcher.lock()) (*alive)(change);
      }
    });
  }
  WatchHub::EventWatchers watchers = watches_.WatchersOfEvents();
  if (watchers.empty() || record.events->empty()) return;
  release.effects.push_back([watchers = std::move(watchers), events = record.events] {
    for (const auto& watcher : watchers) {
      if (const auto alive = watcher.lock()) (*alive)(events);
    }
  });
}

void ControlLoop::QueueObserver(Turn& turn, Release& release) {
  release.effects.push_back(
      [this, live = state_.jobs.size(), blobs = std::move(turn.unused_blobs)] {
        if (callbacks_.live_jobs) callbacks_.live_jobs(live);
        if (!blobs.empty() && callbacks_.unused_blobs) callbacks_.unused_blobs(blobs);
      });
}

void ControlLoop::ReleaseDurable() {
  uint64_t durable = 0;
  {
    std::lock_guard lock(mutex_);
    durable = durable_turn_;
  }
  while (!releases_.empty() && releases_.front().turn <= durable) {
    Release release = std::move(releases_.front());
    releases_.pop_front();
    for (const std::function<void()>& effect : release.effects) effect();
  }
}

// The last reserve is for waiting requests: it is used before they are refused.
void ControlLoop::RefuseWhatIsStuck() {
  absl::Status why;
  uint64_t tries = 0;
  {
    std::lock_guard lock(mutex_);
    why = why_stuck_;
    tries = stuck_tries_;
    got_stuck_ = false;
  }
  if (why.ok()) {
    asked_at_try_.reset();
    return;
  }
  if (std::none_of(releases_.begin(), releases_.end(),
                   [](const Release& release) { return release.refused != nullptr; })) {
    return;
  }
  if (!asked_at_try_.has_value()) {
    asked_at_try_ = tries;
    return journal_.UseLastReserve();
  }
  // One attempt may have been in progress when the reserve was requested.
  if (tries < *asked_at_try_ + 2) return;
  std::erase_if(releases_, [&](const Release& release) {
    if (release.refused) release.refused(why);
    return release.refused != nullptr;
  });
}

}  // namespace muster::coordinator
