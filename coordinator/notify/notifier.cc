#include "coordinator/notify/notifier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "coordinator/core/state.h"
#include "coordinator/notify/message.h"

namespace muster::coordinator {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr uint32_t kEventsMissedMax = 1'000'000;
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

}  // namespace

Notifier::Notifier(Options options, JobIndex& index, const common::Clock& clock)
    : options_(std::move(options)), index_(index), clock_(clock) {}

absl::Status Notifier::Start(ControlLoop& loop) {
  loop_ = &loop;
  RETURN_IF_ERROR(Load());
  loop.Ask([this](const LoopView& view) -> std::function<void()> {
    WatchToken token = view.watches.WatchEvents([this](const auto& events) {
      // Counted before the loop can say that no job is live any more.
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
  if (!common::Exists(options_.path)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(options_.path));
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    const auto known = ParseLine(common::FromAbsl(line));
    if (words.size() == 2 && words[0] == "cursor" && absl::SimpleAtoi(words[1], &cursor_)) {
      has_cursor_ = true;
    } else if (known.has_value() && pending_.size() < kPendingMax) {
      if (pending_.try_emplace(known->first, Pending{.since_ms = known->second}).second)
        left_.push_back(known->first);
    } else {
      common::LogWarning(StrCat("a line of ", options_.path, " is not understood and skipped"));
    }
  }
  untried_ = pending_.size();
  return absl::OkStatus();
}

void Notifier::Save() {
  std::string text = StrCat("cursor ", cursor_, "\n");
  for (const auto& [delivery, pending] : pending_)
    StrAppend(&text, LineOf(delivery, pending.since_ms), "\n");
  const absl::Status saved = common::WriteFileDurably(options_.path, text);
  // What was delivered since the last save is delivered again after a crash: at least once.
  if (!saved.ok()) common::LogWarning(std::string(saved.message()));
}

void Notifier::CatchUp(uint64_t until) {
  if (!has_cursor_) {
    has_cursor_ = true;
    cursor_ = std::max(cursor_, until);
    Save();
  } else {
    // A restored database may end before the event that was looked at last.
    cursor_ = std::min(cursor_, until);
    const absl::StatusOr<std::vector<v1::Event>> missed =
        index_.Events({.after = cursor_, .until = until, .newest = kEventsMissedMax});
    if (!missed.ok()) {
      keeper_.PostAfter(kStoreAgainAfter, [this, until] { CatchUp(until); });
      return;
    }
    TakeEvents(*missed);
  }
  for (const Delivery& delivery : std::exchange(left_, {})) Try(delivery);
}

void Notifier::TakeEvents(const std::vector<v1::Event>& events) {
  const size_t before = pending_.size();
  for (const v1::Event& event : events) {
    cursor_ = std::max(cursor_, event.seq());
    if (IsEnd(event)) TakeEnd(event.job(), event.job_state_changed().to());
    if (event.has_finding_noticed()) TakeFinding(event);
    if (event.has_notified()) TakeNotified(event);
  }
  if (pending_.size() != before) Save();
}

void Notifier::TakeEnd(uint64_t job, v1::JobState state) {
  const absl::StatusOr<std::optional<v1::JobRecord>> record = index_.Find(job);
  if (!record.ok()) {
    keeper_.PostAfter(kStoreAgainAfter, [this, job, state] { TakeEnd(job, state); });
    return;
  }
  if (!record->has_value()) return;
  for (int i = 0; i < (*record)->spec().notify_size(); ++i) {
    if (Wants((*record)->spec().notify(i), state))
      Add({.job = job, .entry = static_cast<uint32_t>(i)});
  }
}

void Notifier::TakeFinding(const v1::Event& event) {
  for (const uint32_t entry : event.finding_noticed().entries()) {
    Add({.job = event.job(),
         .entry = entry,
         .finding = event.finding_noticed().finding().code(),
         .attempt = event.attempt()});
  }
}

void Notifier::TakeNotified(const v1::Event& event) {
  Drop({.job = event.job(),
        .entry = event.notified().entry(),
        .finding = event.notified().finding(),
        .attempt = event.attempt()});
}

void Notifier::Add(const Delivery& delivery) {
  if (pending_.size() == kPendingMax) {
    common::LogWarning(
        StrCat("job=", delivery.job, ": not notified: ", kPendingMax, " others wait"));
    return;
  }
  if (!pending_.try_emplace(delivery, Pending{.since_ms = clock_.Read().wall_ms}).second) return;
  ++untried_;
  keeper_.Post([this, delivery] { Try(delivery); });
}

void Notifier::TryLater(const Delivery& delivery, std::chrono::milliseconds pause) {
  keeper_.PostAfter(pause, [this, delivery] { Try(delivery); });
}

void Notifier::Try(const Delivery& delivery) {
  const auto pending = pending_.find(delivery);
  if (pending == pending_.end() || pending->second.reported || stopping_) return;
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
  if (!record.ok()) return TryLater(delivery, kStoreAgainAfter);
  // Removed meanwhile: nobody asks any more.
  if (!record->has_value()) return Drop(delivery);
  TryWith(delivery, FactsToTell(**record));
}

void Notifier::TryWith(const Delivery& delivery, const v1::JobRecord& job) {
  if (!pending_.contains(delivery)) return;
  if (static_cast<uint32_t>(job.spec().notify_size()) <= delivery.entry) return Drop(delivery);
  const bool is_command = !job.spec().notify(static_cast<int>(delivery.entry)).command().empty();
  is_command ? TryRun(delivery, job) : TryPost(delivery, job);
}

void Notifier::TryPost(const Delivery& delivery, const v1::JobRecord& job) {
  absl::StatusOr<HttpCall> request = MakePost(job, delivery, NameOf(options_.cluster_id, delivery));
  if (!request.ok()) return Drop(delivery);
  request->may_call = [this, host = request->url.host](const sockaddr* address) {
    return CheckMayCall(host, address, options_.allowed);
  };
  posts_.Post([this, delivery, request = *std::move(request)] {
    const absl::StatusOr<common::HttpResponse> called = CallHttp(request, stopping_);
    absl::StatusOr<int> answer =
        called.ok() ? absl::StatusOr<int>(called->status) : called.status();
    keeper_.Post([this, delivery, host = request.url.Authority(), answer = std::move(answer)] {
      Posted(delivery, host, answer);
    });
  });
}

void Notifier::CountTry(Pending& pending) {
  if (pending.tries++ == 0) --untried_;
}

void Notifier::Posted(const Delivery& delivery, const std::string& host,
                      const absl::StatusOr<int>& answer) {
  const auto found = pending_.find(delivery);
  if (found == pending_.end() || absl::IsCancelled(answer.status())) return;
  Pending& pending = found->second;
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
  if (const auto found = pending_.find(delivery); found != pending_.end())
    found->second.nodes = nodes;
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
  const auto found = pending_.find(delivery);
  if (found == pending_.end() || found->second.reported) return;  // the answer was faster
  if (node.empty() && !any_left) {
    return Report(delivery, "the command did not run: none of the job's nodes is registered now");
  }
  if (node.empty()) return RunAgain(delivery, "none of the job's nodes is connected");
  keeper_.PostAfter(kAnsweredWithin, [this, delivery, node, asked = ++found->second.asked] {
    const auto waiting = pending_.find(delivery);
    if (waiting == pending_.end() || waiting->second.reported || waiting->second.asked != asked)
      return;
    RunAgain(delivery, StrCat(node, " did not answer"));
  });
}

void Notifier::RunAgain(const Delivery& delivery, const std::string& why) {
  Pending& pending = pending_.at(delivery);
  CountTry(pending);
  if (IsCommandGivenUp(clock_.Read().wall_ms - pending.since_ms, pending.tries))
    return Report(delivery, StrCat("the command was given up: ", why));
  TryLater(delivery, std::chrono::milliseconds(PauseMs(pending.tries, options_.first_pause_ms)));
}

void Notifier::Answered(v1::NotifyEnded ended) {
  keeper_.Post([this, ended = std::move(ended)] {
    for (auto each = pending_.lower_bound({.job = ended.job()});
         each != pending_.end() && each->first.job == ended.job(); ++each) {
      if (NameOf(options_.cluster_id, each->first) != ended.delivery()) continue;
      const std::vector<std::string>& asked = each->second.nodes;
      if (std::find(asked.begin(), asked.end(), ended.node()) == asked.end()) {
        if (!options_.denied) return;
        return options_.denied({Denied::kNotify, StrCat("the end of a command of job ", ended.job(),
                                                        " from ", common::Printable(ended.node()),
                                                        " was ignored: it was not asked")});
      }
      CountTry(each->second);
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
  const auto found = pending_.find(delivery);
  if (found == pending_.end() || std::exchange(found->second.reported, true)) return;
  NotifiedInput input{.job = delivery.job, .attempt = delivery.attempt, .notified = {}};
  input.notified.set_entry(delivery.entry);
  input.notified.set_finding(delivery.finding);
  input.notified.set_delivery(NameOf(options_.cluster_id, delivery));
  input.notified.set_outcome(outcome);
  input.notified.set_output(output);
  loop_->Say(std::move(input));
}

void Notifier::Drop(const Delivery& delivery) {
  const auto found = pending_.find(delivery);
  if (found == pending_.end()) return;
  if (found->second.tries == 0) --untried_;
  pending_.erase(found);
  Save();
}

}  // namespace muster::coordinator
