// AssessJob, and the rounds that keep the newest assessments of running jobs for `jobctl ls`.
//
// A round costs only for jobs that report something: one question to the control loop for the ids
// of running jobs, then short ones for a few records at a time. All reading and judging happens on
// the work pool.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "common/log.h"
#include "coordinator/assessor.h"
#include "coordinator/core/notices.h"
#include "coordinator/descriptors.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {
namespace {

// A finding is promised within a minute of its cause; rules look at half a minute. Where shorter
// losses are worth a sentence, rounds come faster.
std::chrono::milliseconds RoundEvery(const Daemon& daemon) {
  return std::chrono::milliseconds(
      std::clamp<int64_t>(daemon.assessor.FloorMs() / 6, 1'000, 10'000));
}
constexpr size_t kRecordsPerQuestion = 32;

void AssessSoon(Daemon& daemon, std::shared_ptr<const v1::JobRecord> job, const std::string& owner,
                Answer<v1::Assessment> answer,
                std::chrono::milliseconds after = std::chrono::milliseconds(0)) {
  const auto assess = [&daemon, job, owner, answer = std::move(answer)] {
    absl::StatusOr<v1::Assessment> assessment =
        daemon.assessor.Assess(FactsOf(*job), daemon.clock.Read());
    if (absl::IsUnavailable(assessment.status())) {
      return AssessSoon(daemon, job, owner, answer, kShortageRetry);
    }
    answer(std::move(assessment));
  };
  daemon.reads.PostAfter(after, assess, owner);
}

// The jobs of one round, a few records at a time.
class Round : public std::enable_shared_from_this<Round> {
 public:
  Round(Daemon& daemon, std::vector<uint64_t> jobs) : daemon_(daemon), jobs_(std::move(jobs)) {}

  // On a pool thread. Drops jobs that report nothing before any record is copied.
  void Begin() {
    std::erase_if(jobs_, [this](uint64_t job) { return !Reports(job); });
    Next();
  }

 private:
  bool Reports(uint64_t job) const {
    v1::JobSummary summary;
    summary.set_id(job);
    summary.set_step(-1);
    daemon_.metrics.Decorate(summary);
    return summary.step() >= 0 || daemon_.assessor.IsMeasured(job);
  }

  void Next() {
    if (at_ >= jobs_.size()) {
      return daemon_.reads.PostAfter(RoundEvery(daemon_),
                                     [&daemon = daemon_] { KeepAssessing(daemon); });
    }
    daemon_.loop.Ask(
        [self = shared_from_this()](const LoopView& view) -> std::function<void()> {
          auto facts = std::make_shared<std::vector<v1::JobRecord>>();
          const size_t end = std::min(self->jobs_.size(), self->at_ + kRecordsPerQuestion);
          for (; self->at_ < end; ++self->at_) {
            const auto job = view.state.jobs.find(self->jobs_[self->at_]);
            if (job != view.state.jobs.end()) facts->push_back(FactsOf(job->second));
          }
          return
              [self, facts] { self->daemon_.reads.Post([self, facts] { self->Judge(*facts); }); };
        },
        // The disk is full: try again later, like everything else.
        [&daemon = daemon_](const absl::Status&) {
          daemon.reads.PostAfter(RoundEvery(daemon), [&daemon] { KeepAssessing(daemon); });
        });
  }

  void Judge(const std::vector<v1::JobRecord>& records) {
    for (const v1::JobRecord& record : records) {
      // A job that cannot be read now is read in the next round.
      const auto assessed = daemon_.assessor.Assess(record, daemon_.clock.Read());
      if (assessed.ok()) {
        NoticeNew(record, *assessed);
      } else {
        daemon_.refusals.Warn(std::string(assessed.status().message()));
      }
    }
    Next();
  }

  // For those that `notify` tells. The control loop decides what is new; this only spares it the rest.
  void NoticeNew(const v1::JobRecord& record, const v1::Assessment& assessment) {
    if (!WantsFindings(record.spec()) || record.noticed_size() >= kNoticedMax) return;
    for (const v1::Finding& finding : assessment.findings()) {
      if (!IsNoticed(record, finding.code(), finding.attempt()))
        daemon_.loop.Say(FindingInput{record.id(), finding});
    }
  }

  Daemon& daemon_;
  std::vector<uint64_t> jobs_;
  size_t at_ = 0;
};

}  // namespace

void AssessJob(Daemon& daemon, const Caller& caller, const v1::JobReference& request,
               Answer<v1::Assessment> answer) {
  FindJob(daemon, caller, request.job(),
          [&daemon, owner = caller.principal,
           answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            AssessSoon(daemon, found->record, owner, answer);
          });
}

void KeepAssessing(Daemon& daemon) {
  daemon.loop.Ask(
      [&daemon](const LoopView& view) -> std::function<void()> {
        std::vector<uint64_t> running;
        for (const uint64_t id : view.state.active) {
          const v1::JobRecord& job = view.state.jobs.at(id);
          // Between two attempts, the one that failed may still have something to tell.
          if (job.state() == v1::JOB_STATE_RUNNING || WantsFindings(job.spec()))
            running.push_back(id);
        }
        const auto round = std::make_shared<Round>(daemon, std::move(running));
        return [&daemon, round] { daemon.reads.Post([round] { round->Begin(); }); };
      },
      [&daemon](const absl::Status&) {
        daemon.reads.PostAfter(RoundEvery(daemon), [&daemon] { KeepAssessing(daemon); });
      });
}

}  // namespace muster::coordinator
