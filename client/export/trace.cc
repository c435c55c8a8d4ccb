#include "client/export/trace.h"

#include <algorithm>
#include <map>
#include <set>

#include "client/text/record_text.h"
#include "common/outputs.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::JsonObject;
using common::StrCat;

// Threads in the job's own trace process; a rank's thread in its node's process is its number + 1.
enum Track { kStates = 1, kAttempts, kCheckpoints, kEvents };
constexpr std::string_view kTrackNames[] = {"", "state", "attempts", "checkpoints", "events"};

struct TracePlace {
  int process = 0;
  int64_t thread = 0;
};

class TraceText {
 public:
  explicit TraceText(int64_t base_ms) : base_ms_(base_ms) {}

  void Slice(const TracePlace& place, std::string_view name, int64_t from_ms, int64_t to_ms,
             std::string_view detail) {
    JsonObject slice = Begin('X', place, name);
    slice.Add("ts", Micros(from_ms)).Add("dur", std::max<int64_t>(to_ms - from_ms, 0) * 1000);
    End(std::move(slice), detail);
  }
  void Instant(const TracePlace& place, std::string_view name, int64_t at_ms,
               std::string_view detail) {
    End(Begin('i', place, name).Add("s", "t").Add("ts", Micros(at_ms)), detail);
  }
  void NameProcess(int process, std::string_view name) { Name("process_name", {process, 0}, name); }
  void NameThread(const TracePlace& place, std::string_view name) {
    Name("thread_name", place, name);
  }

  std::string Take() {
    return JsonObject().Add("displayTimeUnit", "ms").Add("traceEvents", events_.Done("\n")).Line();
  }

 private:
  int64_t Micros(int64_t at_ms) const { return std::max<int64_t>(at_ms - base_ms_, 0) * 1000; }
  static JsonObject Begin(char phase, const TracePlace& place, std::string_view name) {
    JsonObject event;
    event.Add("ph", std::string(1, phase)).Add("pid", place.process).Add("tid", place.thread);
    return std::move(event.Add("name", name));
  }
  void End(JsonObject event, std::string_view detail) {
    if (!detail.empty()) event.Add("args", JsonObject().Add("detail", detail).Done());
    events_.Add(event.Done());
  }
  void Name(std::string_view what, const TracePlace& place, std::string_view name) {
    End(Begin('M', place, what).Add("args", JsonObject().Add("name", name).Done()), "");
  }

  const int64_t base_ms_;
  common::JsonArray events_{"\n"};
};

class JobTrace {
 public:
  JobTrace(const TracedJob& job, int64_t now_ms, int* next_process, TraceText* text)
      : job_(job), record_(job.record), next_process_(next_process), text_(text) {
    end_ms_ = record_.finished_ms() > 0 ? record_.finished_ms() : now_ms;
    process_ = (*next_process_)++;
    text_->NameProcess(process_, record_.name());
    for (const Track track : {kStates, kAttempts, kCheckpoints, kEvents}) {
      text_->NameThread({process_, track}, kTrackNames[track]);
    }
  }

  void Write() {
    WriteStates();
    for (const v1::Attempt& attempt : record_.attempts()) WriteAttempt(attempt);
    WriteCheckpoints();
    for (size_t i = 0; i < job_.events.size() && i < job_.texts.size(); ++i) {
      text_->Instant({process_, kEvents}, job_.texts[i], job_.events[i].at_ms(), "");
    }
  }

 private:
  void WriteStates() {
    std::string state = StateName(v1::JOB_STATE_QUEUED);
    std::string reason;
    int64_t since_ms = record_.submitted_ms();
    for (const v1::Event& event : job_.events) {
      if (!event.has_job_state_changed()) continue;
      text_->Slice({process_, kStates}, state, since_ms, event.at_ms(), reason);
      state = StateName(event.job_state_changed().to());
      reason = event.job_state_changed().reason();
      since_ms = event.at_ms();
    }
    if (IsOver(record_.state())) {
      text_->Instant({process_, kStates}, StateName(record_.state()), end_ms_, record_.reason());
    } else {
      text_->Slice({process_, kStates}, state, since_ms, end_ms_, reason);
    }
  }

  void WriteAttempt(const v1::Attempt& attempt) {
    const int64_t end_ms = attempt.ended_ms() > 0 ? attempt.ended_ms() : end_ms_;
    text_->Slice({process_, kAttempts}, StrCat("attempt ", attempt.number()), attempt.started_ms(),
                 end_ms, attempt.reason());
    // Before that its ranks were not all running; the record has no time for each.
    const int64_t begin_ms = attempt.running_ms() > 0 ? attempt.running_ms() : attempt.started_ms();
    for (const v1::NodePart& part : attempt.parts()) {
      std::map<uint32_t, const v1::RankExit*> exits;
      for (const v1::RankExit& exit : part.exits()) exits[exit.rank()] = &exit;
      for (uint32_t i = 0; i < part.local_world_size(); ++i) {
        const uint32_t rank = part.first_rank() + i;
        const auto exit = exits.find(rank);
        const bool ended = exit != exits.end() && exit->second->ended_ms() > 0;
        text_->Slice(RankPlace(part.node(), rank), StrCat("attempt ", attempt.number()), begin_ms,
                     ended ? exit->second->ended_ms() : end_ms,
                     ended ? ExitText(*exit->second) : "");
      }
    }
  }

  static std::string ExitText(const v1::RankExit& exit) {
    return exit.signal() > 0 ? StrCat("killed by signal ", exit.signal())
                             : StrCat("exited with ", exit.exit_code());
  }

  TracePlace RankPlace(const std::string& node, uint32_t rank) {
    const auto [process, is_new] = nodes_.emplace(node, *next_process_);
    if (is_new) text_->NameProcess((*next_process_)++, StrCat(record_.name(), " on ", node));
    const TracePlace place{process->second, static_cast<int64_t>(rank) + 1};
    if (named_.emplace(process->second, rank).second) {
      text_->NameThread(place, StrCat("rank ", rank));
    }
    return place;
  }

  // The record has only kept checkpoints, the events also removed ones.
  void WriteCheckpoints() {
    std::map<int64_t, int64_t> committed_ms;  // by step
    for (const v1::Event& event : job_.events) {
      if (event.has_checkpoint_committed() &&
          event.checkpoint_committed().step() != common::kOutputsStep) {
        committed_ms[event.checkpoint_committed().step()] = event.at_ms();
      }
    }
    for (const v1::Checkpoint& checkpoint : record_.checkpoints()) {
      if (checkpoint.committed_ms() > 0) {
        committed_ms.emplace(checkpoint.step(), checkpoint.committed_ms());
      }
    }
    for (const auto& [step, at_ms] : committed_ms) {
      text_->Instant({process_, kCheckpoints}, StrCat("step ", step), at_ms, "");
    }
  }

  const TracedJob& job_;
  const v1::JobRecord& record_;
  int* const next_process_;
  TraceText* const text_;
  int process_ = 0;
  int64_t end_ms_ = 0;
  std::map<std::string, int> nodes_;  // their processes
  std::set<std::pair<int, uint32_t>> named_;
};

}  // namespace

std::string TraceOf(const std::vector<TracedJob>& jobs, int64_t now_ms) {
  int64_t base_ms = now_ms;
  for (const TracedJob& job : jobs) base_ms = std::min<int64_t>(base_ms, job.record.submitted_ms());
  TraceText text(base_ms);
  int next_process = 1;
  for (const TracedJob& job : jobs) JobTrace(job, now_ms, &next_process, &text).Write();
  return text.Take();
}

}  // namespace muster::client
