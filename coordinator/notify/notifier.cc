#include "coordinator/notify/notifier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/core/state/state.h"
#include "coordinator/net/http_call.h"
#include "coordinator/notify/message.h"

namespace muster::coordinator {
namespace {

using common::StrAppend;
using common::StrCat;

// The number of missed events read at a time: an event may be large.
constexpr uint64_t kEventsAtOnce = 256;
// While more of our events than this are on their way to the journal, catching up waits for a while.
constexpr size_t kReportedMost = 1'000;
constexpr std::chrono::milliseconds kJournalPause{20};
constexpr std::chrono::seconds kStoreAgainAfter{5};
// A worker kills a command after a minute, and may have others to run first.
constexpr std::chrono::seconds kAnsweredWithin{90};

// What a command printed, as a part of one sentence.
std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return common::Printable(absl::StrReplaceAll(text, {{"\n", " / "}}));
}

bool IsEnd(const v1::Event& event) {
  return event.has_job_state_changed() && IsFinal(event.job_state_changed().to());
}

// The job has left the state, and another coordinator has its record: to ask again does not help.
bool IsElsewhere(const absl::Status& status) { return common::CodeOf(status) == "JC1632"; }

}  // namespace

Notifier::Notifier(Options options, NoteStore& notes, JobIndex& index, const common::Clock& clock)
    : options_(std::move(options)), notes_(notes), index_(index), clock_(clock) {}

absl::Status Notifier::Start(ControlLoop& loop) {
  loop_ = &loop;
  RETURN_IF_ERROR(Load());
  catches_up_ = true;
  loop.Ask([this](const LoopView& view) -> std::function<void()> {
    WatchToken token = view.watches.WatchEvents([this](const auto& events) {
      // Counted before the loop can report that no job is live any more.
      const bool any_end = std::any_of(events->begin(), events->end(), IsEnd);
      untried_ += any_end ? 1 : 0;
      keeper_.Post([this, events, any_end] {
        TakeEvents(*events);
        untried_ -= any_end ? 1 : 0;
      });
    });
    return [this, token = std::move(token), until = view.state.next_seq - 1] {
      keeper_.Post([this, token, until] {
        token_ = token;
        CatchUp(until);
      });
    };
  });
  return absl::OkStatus();
}

void Notifier::Stop() {
  if (stopping_.exchange(true)) return;
  posts_.Stop();
  keeper_.Stop();
  token_ = nullptr;
  if (has_cursor_) Save();
}

// "cursor 1234", then a line for each delivery.
absl::Status Notifier::Load() {
  const absl::StatusOr<std::string> text = notes_.Read(Note::kNotify);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  RETURN_IF_ERROR(text.status());
  for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    const auto known = ParseLine(common::FromAbsl(line));
    if (words.size() == 2 && words[0] == "cursor" && absl::SimpleAtoi(words[1], &cursor_)) {
      has_cursor_ = true;
    } else if (known.has_value()) {
      if (pending_.Add(known->first, "", known->second)) left_.push_back(known->first);
    } else {
      common::LogWarning(
          StrCat("a line of ", notes_.Place(Note::kNotify), " is not understood and skipped"));
    }
  }
  untried_ = left_.size();
  return absl::OkStatus();
}

void Notifier::Save() {
  std::string text = StrCat("cursor ", cursor_, "\n");
  for (const auto& [delivery, pending] : pending_.all())
    StrAppend(&text, LineOf(delivery, pending.since_ms), "\n");
  const absl::Status saved = notes_.Write(Note::kNotify, text);
  // At least once: what was delivered since the last save is delivered again after a crash.
  if (!saved.ok()) common::LogWarning(std::string(saved.message()));
}

void Notifier::CatchUp(uint64_t until) {
  newest_ = std::max(newest_, until);
  if (!has_cursor_) {
    has_cursor_ = true;
    cursor_ = std::max(cursor_, until);
    return EndCatchingUp();
  }
  // A restored database may end before the last event that was processed.
  cursor_ = std::min(cursor_, until);
  KnowOwnersOfLeft();
  TakeMissed(until);
}

// A few events at a time: years of them may have been missed.
void Notifier::TakeMissed(uint64_t until) {
  if (stopping_) return;
  if (cursor_ >= until) return EndCatchingUp();
  if (pending_.Reported() > kReportedMost)
    return keeper_.PostAfter(kJournalPause, [this, until] { TakeMissed(until); });
  const uint64_t to = std::min(until, cursor_ + kEventsAtOnce);
  const absl::StatusOr<std::vector<v1::Event>> missed =
      index_.Events({.after = cursor_, .until = to, .newest = kEventsAtOnce});
  if (!missed.ok())
    return keeper_.PostAfter(kStoreAgainAfter, [this, until] { TakeMissed(until); });
  TakeEvents(*missed);
  cursor_ = to;
  keeper_.Post([this, until] { TakeMissed(until); });
}

void Notifier::EndCatchingUp() {
  catches_up_ = false;
  cursor_ = std::max(cursor_, newest_);
  Save();
  for (const Delivery& delivery : std::exchange(left_, {})) Try(delivery);
  GiveUpExcess();
}

// So that each delivery counts for its owner, and no other owner's is given up for it.
void Notifier::KnowOwnersOfLeft() {
  for (const Delivery& delivery : left_) {
    if (!delivery.IsEnd()) continue;
    const absl::StatusOr<std::optional<v1::JobRecord>> record = index_.Find(delivery.job);
    if (record.ok() && record->has_value()) pending_.SetOwner(delivery, (*record)->owner());
  }
}

void Notifier::TakeEvents(const std::vector<v1::Event>& events) {
  const size_t before = pending_.all().size();
  for (const v1::Event& event : events) {
    newest_ = std::max(newest_, event.seq());
    if (IsEnd(event)) TakeEnd(event.job(), event.job_state_changed().to());
    if (event.has_finding_noticed()) TakeFinding(event);
    if (event.has_notified()) TakeNotified(event);
  }
  GiveUpExcess();
  // Until then the file must lead the next start to the events that this one has not reached.
  if (!catches_up_) cursor_ = std::max(cursor_, newest_);
  if (pending_.all().size() != before) Save();
}

void Notifier::TakeEnd(uint64_t job, v1::JobState state) {
  const absl::StatusOr<std::optional<v1::JobRecord>> record = index_.Find(job);
  if (IsElsewhere(record.status()))
    return common::LogWarning(StrCat(
        "job=", job, ": no one is notified of its end: ", common::MessageOf(record.status())));
  if (!record.ok()) {
    keeper_.PostAfter(kStoreAgainAfter, [this, job, state] { TakeEnd(job, state); });
    return;
  }
  if (!record->has_value()) return;
  for (int i = 0; i < (*record)->spec().notify_size(); ++i) {
    if (Wants((*record)->spec().notify(i), state))
      Add({.job = job, .entry = static_cast<uint32_t>(i)}, (*record)->owner());
  }
}

void Notifier::TakeFinding(const v1::Event& event) {
  for (const uint32_t entry : event.finding_noticed().entries()) {
    Add({.job = event.job(),
         .entry = entry,
         .finding = event.finding_noticed().finding().code(),
         .attempt = event.attempt()},
        "");
  }
}

void Notifier::TakeNotified(const v1::Event& event) {
  Forget({.job = event.job(),
          .entry = event.notified().entry(),
          .finding = event.notified().finding(),
          .attempt = event.attempt()});
}

void Notifier::Add(const Delivery& delivery, const std::string& owner) {
  if (!pending_.Add(delivery, owner, clock_.Read().wall_ms)) return;
  ++untried_;
  keeper_.Post([this, delivery] { Try(delivery); });
}

void Notifier::GiveUpExcess() {
  while (const std::optional<Backlog::Excess> excess = pending_.FindExcess()) {
    const std::string whose =
        excess->owner.empty() ? std::string("one owner's") : StrCat(excess->owner, "'s");
    Report(excess->delivery,
           StrCat("it was given up: more than ", pending_.most(), " messages wait for receivers, ",
                  excess->of_owner, " of them ", whose));
  }
}

void Notifier::TryLater(const Delivery& delivery, std::chrono::milliseconds pause) {
  keeper_.PostAfter(pause, [this, delivery] { Try(delivery); });
}

void Notifier::Try(const Delivery& delivery) {
  const Pending* pending = pending_.Find(delivery);
  if (pending == nullptr || pending->reported || stopping_) return;
  if (delivery.IsEnd()) return TryFinished(delivery);
  loop_->Ask(
      [this, delivery](const LoopView& view) -> std::function<void()> {
        const auto live = view.state.jobs.find(delivery.job);
        const auto job = live == view.state.jobs.end()
                             ? nullptr
                             : std::make_shared<const v1::JobRecord>(FactsToTell(live->second));
        return [this, delivery, job] {
          keeper_.Post([this, delivery, job] {
            job == nullptr ? TryFinished(delivery) : TryWith(delivery, *job);
          });
        };
      },
      [this, delivery](const absl::Status&) { TryLater(delivery, kStoreAgainAfter); });
}

void Notifier::TryFinished(const Delivery& delivery) {
  const absl::StatusOr<std::optional<v1::JobRecord>> record = index_.Find(delivery.job);
  if (IsElsewhere(record.status()))
    return Report(delivery, StrCat("it was given up: ", common::MessageOf(record.status())));
  if (!record.ok()) return TryLater(delivery, kStoreAgainAfter);
  // The job was removed meanwhile: no one needs the message any more.
  if (!record->has_value()) return Drop(delivery);
  TryWith(delivery, FactsToTell(**record));
}

void Notifier::TryWith(const Delivery& delivery, v1::JobRecord job) {
  pending_.SetOwner(delivery, job.owner());
  const Pending* pending = pending_.Find(delivery);
  if (pending == nullptr || pending->reported) return;
  if (static_cast<uint32_t>(job.spec().notify_size()) <= delivery.entry) return Drop(delivery);
  if (options_.open_environment) {
    const absl::Status opened = options_.open_environment(*job.mutable_spec());
    if (!opened.ok()) return Report(delivery, common::MessageOf(opened));
  }
  const bool is_command = !job.spec().notify(static_cast<int>(delivery.entry)).command().empty();
  is_command ? TryRun(delivery, job) : TryPost(delivery, job);
}

void Notifier::TryPost(const Delivery& delivery, const v1::JobRecord& job) {
  absl::StatusOr<common::HttpCall> request =
      MakePost(job, delivery, NameOf(options_.cluster_id, delivery));
  if (!request.ok()) return Drop(delivery);
  request->may_call = [this, host = request->url.host](const sockaddr* address) {
    return CheckMayCall(host, address, options_.allowed);
  };
  turns_.Add({.delivery = delivery, .owner = job.owner(), .call = *std::move(request)});
  Post();
}

void Notifier::Post() {
  while (std::optional<PostTurns::Post> next = turns_.Next()) {
    Pending* pending = pending_.Find(next->delivery);
    if (pending == nullptr || pending->reported) {  // given up while it waited for its turn
      turns_.End(next->owner, next->Receiver());
      continue;
    }
    pending->is_posting = true;
    posts_.Post([this, post = *std::move(next)] {
      const absl::StatusOr<common::HttpResponse> called = CallOutside(post.call, stopping_);
      absl::StatusOr<int> answer =
          called.ok() ? absl::StatusOr<int>(called->status) : called.status();
      keeper_.Post([this, delivery = post.delivery, owner = post.owner, host = post.Receiver(),
                    answer = std::move(answer)] {
        turns_.End(owner, host);
        Posted(delivery, host, answer);
        Post();
      });
    });
  }
}

void Notifier::CountTry(Pending& pending) {
  if (pending.tries++ == 0) --untried_;
}

void Notifier::Posted(const Delivery& delivery, const std::string& host,
                      const absl::StatusOr<int>& answer) {
  Pending* const found = pending_.Find(delivery);
  if (found == nullptr || absl::IsCancelled(answer.status())) return;
  Pending& pending = *found;
  pending.is_posting = false;
  CountTry(pending);
  if (answer.ok() && IsDelivered(*answer)) return Drop(delivery);
  const std::string why =
      answer.ok() ? StrCat("it answered ", *answer) : common::MessageOf(answer.status());
  const bool for_good = (answer.ok() && IsRefused(*answer)) ||
                        absl::IsPermissionDenied(answer.status()) ||
                        clock_.Read().wall_ms - pending.since_ms > kGiveUpAfterMs;
  if (for_good || pending.tries == 1) {
    common::LogWarning(StrCat("job=", delivery.job, " notify=", delivery.entry, ": the webhook ",
                              for_good ? "is given up: " : "is tried again: ", why));
  }
  if (for_good) return Report(delivery, StrCat("the webhook to ", host, " was given up: ", why));
  TryLater(delivery, std::chrono::milliseconds(PauseMs(pending.tries, options_.first_pause_ms)));
}

void Notifier::TryRun(const Delivery& delivery, const v1::JobRecord& job) {
  absl::StatusOr<v1::RunNotify> run = MakeRun(job, delivery, NameOf(options_.cluster_id, delivery));
  if (!run.ok()) return Drop(delivery);
  std::vector<std::string> nodes = NodesToRunOn(job);
  if (nodes.empty()) return Report(delivery, "the command did not run: the job never had a node");
  if (Pending* const found = pending_.Find(delivery); found != nullptr) found->nodes = nodes;
  loop_->Ask(
      [this, delivery, nodes = std::move(nodes),
       run = std::make_shared<const v1::RunNotify>(*std::move(run))](
          const LoopView& view) -> std::function<void()> {
        std::string node;
        bool any_left = false;
        for (const std::string& name : nodes) {
          const Node* known = FindNode(view.state, name);
          any_left = any_left || known != nullptr;
          if (known == nullptr || !known->record.connected()) continue;
          node = name;
          break;
        }
        v1::CoordinatorMessage message;
        *message.mutable_run_notify() = *run;
        if (!node.empty()) view.send(node, std::move(message));
        return [this, delivery, node, any_left] {
          keeper_.Post([this, delivery, node, any_left] { Asked(delivery, node, any_left); });
        };
      },
      [this, delivery](const absl::Status&) { TryLater(delivery, kStoreAgainAfter); });
}

void Notifier::Asked(const Delivery& delivery, const std::string& node, bool any_left) {
  Pending* const found = pending_.Find(delivery);
  if (found == nullptr || found->reported) return;  // the answer was faster
  if (node.empty() && !any_left) {
    return Report(delivery, "the command did not run: none of the job's nodes is registered now");
  }
  if (node.empty()) return RunAgain(delivery, "none of the job's nodes is connected");
  keeper_.PostAfter(kAnsweredWithin, [this, delivery, node, asked = ++found->asked] {
    const Pending* waiting = pending_.Find(delivery);
    if (waiting == nullptr || waiting->reported || waiting->asked != asked) return;
    RunAgain(delivery, StrCat(node, " did not answer"));
  });
}

void Notifier::RunAgain(const Delivery& delivery, const std::string& why) {
  Pending& pending = *pending_.Find(delivery);
  CountTry(pending);
  if (IsCommandGivenUp(clock_.Read().wall_ms - pending.since_ms, pending.tries))
    return Report(delivery, StrCat("the command was given up: ", why));
  TryLater(delivery, std::chrono::milliseconds(PauseMs(pending.tries, options_.first_pause_ms)));
}

void Notifier::Answered(v1::NotifyEnded ended) {
  keeper_.Post([this, ended = std::move(ended)] {
    const auto& all = pending_.all();
    for (auto each = all.lower_bound({.job = ended.job()});
         each != all.end() && each->first.job == ended.job(); ++each) {
      if (NameOf(options_.cluster_id, each->first) != ended.delivery()) continue;
      const std::vector<std::string>& asked = each->second.nodes;
      if (std::find(asked.begin(), asked.end(), ended.node()) == asked.end()) {
        if (!options_.denied) return;
        return options_.denied({Denied::kNotify, StrCat("the end of a command of job ", ended.job(),
                                                        " from ", common::Printable(ended.node()),
                                                        " was ignored: it was not asked")});
      }
      CountTry(*pending_.Find(each->first));
      const std::string how = ended.problem().empty()
                                  ? " exited with 0"
                                  : StrCat(" failed: ", common::Printable(ended.problem()));
      return Report(each->first, StrCat("the command on ", ended.node(), how),
                    OneLine(ended.output()));
    }
  });
}

void Notifier::Report(const Delivery& delivery, const std::string& outcome,
                      const std::string& output) {
  if (!pending_.MarkReported(delivery)) return;
  NotifiedInput input{.job = delivery.job, .attempt = delivery.attempt, .notified = {}};
  input.notified.set_entry(delivery.entry);
  input.notified.set_finding(delivery.finding);
  input.notified.set_delivery(NameOf(options_.cluster_id, delivery));
  input.notified.set_outcome(outcome);
  input.notified.set_output(output);
  loop_->Say(std::move(input));
}

void Notifier::Forget(const Delivery& delivery) {
  const Pending* found = pending_.Find(delivery);
  if (found == nullptr) return;
  if (found->tries == 0) --untried_;
  pending_.Erase(delivery);
}

void Notifier::Drop(const Delivery& delivery) {
  Forget(delivery);
  Save();
}

}  // namespace muster::coordinator
