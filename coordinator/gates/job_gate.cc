#include "coordinator/gates/job_gate.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "common/base/limits.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/lookup.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kEventsSearchedMax = 100'000;  // of one job, for an old attempt

// The maximum number of ranks that an attempt of this shape can have.
uint32_t RanksOf(const v1::Shape& shape) {
  if (shape.processes() > 0) return std::min(shape.processes(), common::kRanksMax);
  if (shape.per_node() == 0) return common::kRanksMax;
  const uint32_t named = std::max(shape.min_nodes(), shape.max_nodes());
  const uint64_t nodes = named > 0 ? named : common::kNodesMax;
  return static_cast<uint32_t>(
      std::min<uint64_t>(nodes * shape.per_node(), uint64_t{common::kRanksMax}));
}

}  // namespace

JobGate::Started JobGate::LearnAttempt(const v1::Attempt& attempt) {
  Started started{.world_size = attempt.world_size(), .parts = {}};
  started.parts.reserve(static_cast<size_t>(attempt.parts_size()));
  for (const v1::NodePart& part : attempt.parts()) {
    started.parts.push_back(
        {part.first_rank(), part.local_world_size(), part.incarnation(), part.node()});
  }
  std::sort(started.parts.begin(), started.parts.end(),
            [](const Part& a, const Part& b) { return a.first_rank < b.first_rank; });
  return started;
}

JobGate::Known JobGate::Learn(const v1::JobRecord& record) {
  Known known{.attempts = record.next_attempt(),
              .started = {},
              .ranks_max = RanksOf(record.spec().shape())};
  for (const v1::Attempt& attempt : record.attempts()) {
    known.attempts = std::max(known.attempts, attempt.number() + 1);
    known.started[attempt.number()] = LearnAttempt(attempt);
  }
  return known;
}

bool JobGate::Owns(const Started& started, const NodeIdentity& sender, const Subject& subject) {
  const auto is_its_own = [&](const Part& part) {
    return part.node == sender.node &&
           (!sender.incarnation.has_value() || *sender.incarnation == part.incarnation);
  };
  if (!subject.rank.has_value())
    return std::any_of(started.parts.begin(), started.parts.end(), is_its_own);
  const auto after =
      std::upper_bound(started.parts.begin(), started.parts.end(), *subject.rank,
                       [](uint32_t rank, const Part& part) { return rank < part.first_rank; });
  if (after == started.parts.begin()) return false;
  const Part& part = *std::prev(after);
  return *subject.rank - part.first_rank < part.ranks && is_its_own(part);
}

std::optional<JobGate::Verdict> JobGate::Judge(const Known& known, const NodeIdentity& sender,
                                               const Subject& subject) {
  if (subject.attempt >= known.attempts) return Verdict::kUnknown;
  const auto started = known.started.find(subject.attempt);
  const bool is_kept = started != known.started.end();
  const bool has_size = is_kept && started->second.world_size > 0;
  const uint32_t ranks = has_size ? started->second.world_size : known.ranks_max;
  if (subject.rank.has_value() && *subject.rank >= ranks) return Verdict::kUnknown;
  if (sender.node.empty()) return sender.is_certified ? Verdict::kNotItsOwn : Verdict::kMay;
  if (is_kept) return Owns(started->second, sender, subject) ? Verdict::kMay : Verdict::kNotItsOwn;
  // Without a certificate the name proves nothing anyway.
  if (!sender.is_certified) return Verdict::kMay;
  return std::nullopt;
}

JobGate::OlderAttempts::Found JobGate::FindOlder(Jobs& jobs, const Subject& subject) {
  const auto events = jobs.index.Events({.job = subject.job,
                                         .until = std::numeric_limits<int64_t>::max(),
                                         .newest = kEventsSearchedMax});
  if (!events.ok()) return events.status();
  for (const v1::Event& event : *events) {
    const v1::Attempt& attempt = event.attempt_started().attempt();
    if (event.has_attempt_started() && attempt.number() == subject.attempt)
      return std::make_shared<const Started>(LearnAttempt(attempt));
  }
  return std::make_shared<const Started>();
}

JobGate::JobGate()
    : jobs_({.entries = kJobsMax,
             .weight = kPartsMax,
             .weigh =
                 [](const Known& known) {
                   size_t parts = 0;
                   for (const auto& [number, started] : known.started)
                     parts += started.parts.size();
                   return parts;
                 }}),
      older_({.entries = kJobsMax, .weight = kPartsMax, .weigh = [](const Started& started) {
                return started.parts.size();
              }}) {}

void JobGate::JudgeKnown(Jobs& jobs, Process& process, const Known& known,
                         const NodeIdentity& sender, const Subject& subject, const Answer& answer) {
  if (const auto verdict = Judge(known, sender, subject); verdict.has_value())
    return answer(*verdict);
  older_.Get(
      {subject.job, subject.attempt},
      [&jobs, &process, subject](std::function<void(OlderAttempts::Found)> done) {
        process.pool.Post(
            [&jobs, subject, done = std::move(done)] { done(FindOlder(jobs, subject)); });
      },
      [sender, subject, answer](const OlderAttempts::Found& started) {
        const bool owns = started.ok() && Owns(**started, sender, subject);
        answer(owns ? Verdict::kMay : Verdict::kNotItsOwn);
      });
}

void JobGate::Check(Jobs& jobs, Process& process, const NodeIdentity& sender,
                    const Subject& subject, Answer answer) {
  jobs_.Get(
      subject.job,
      [&jobs, &process, job = subject.job](std::function<void(KnownJobs::Found)> done) {
        FindJob(jobs, process, Caller{}, std::to_string(job),
                [done = std::move(done)](const absl::StatusOr<FoundJob>& found) {
                  if (!found.ok()) return done(found.status());
                  done(std::make_shared<const Known>(Learn(*found->record)));
                });
      },
      [this, &jobs, &process, sender, subject,
       answer = std::move(answer)](const KnownJobs::Found& known) {
        if (!known.ok()) return answer(Verdict::kUnknown);
        JudgeKnown(jobs, process, **known, sender, subject, answer);
      },
      // An attempt that is not known may have started since.
      [attempt = subject.attempt](const KnownJobs::Found& known) {
        return known.ok() && attempt < (*known)->attempts;
      });
}

void JobGate::Forget(uint64_t job) {
  jobs_.Forget(job);
  older_.Forget({job, 0}, {job, UINT32_MAX});
}

}  // namespace muster::coordinator
