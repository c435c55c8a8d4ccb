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
#include "coordinator/descriptors.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {
namespace {

// A finding is promised within a minute of its cause; rules look at half a minute.
constexpr std::chrono::seconds kRoundEvery{10};
constexpr size_t kRecordsPerQuestion = 32;

void AssessSoon(Daemon& daemon, std::shared_ptr<const v1::JobRecord> job,
                Answer<v1::Assessment> answer,
                std::chrono::milliseconds after = std::chrono::milliseconds(0)) {
  daemon.reads.PostAfter(after, [&daemon, job, answer = std::move(answer)] {
    absl::StatusOr<v1::Assessment> assessment =
        daemon.assessor.Assess(FactsOf(*job), daemon.clock.Read());
    if (absl::IsUnavailable(assessment.status())) {
      return AssessSoon(daemon, job, answer, kShortageRetry);
    }
    answer(std::move(assessment));
  });
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
      return daemon_.reads.PostAfter(kRoundEvery, [&daemon = daemon_] { KeepAssessing(daemon); });
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
          daemon.reads.PostAfter(kRoundEvery, [&daemon] { KeepAssessing(daemon); });
        });
  }

  void Judge(const std::vector<v1::JobRecord>& records) {
    for (const v1::JobRecord& record : records) {
      // A job that cannot be read now is read in the next round.
      const auto assessed = daemon_.assessor.Assess(record, daemon_.clock.Read());
      if (!assessed.ok()) daemon_.refusals.Warn(std::string(assessed.status().message()));
    }
    Next();
  }

  Daemon& daemon_;
  std::vector<uint64_t> jobs_;
  size_t at_ = 0;
};

}  // namespace

void AssessJob(Daemon& daemon, const Caller& caller, const v1::JobReference& request,
               Answer<v1::Assessment> answer) {
  FindJob(daemon, caller, request.job(),
          [&daemon, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            AssessSoon(daemon, found->record, answer);
          });
}

void KeepAssessing(Daemon& daemon) {
  daemon.loop.Ask(
      [&daemon](const LoopView& view) -> std::function<void()> {
        std::vector<uint64_t> running;
        for (const uint64_t id : view.state.active) {
          if (view.state.jobs.at(id).state() == v1::JOB_STATE_RUNNING) running.push_back(id);
        }
        const auto round = std::make_shared<Round>(daemon, std::move(running));
        return [&daemon, round] { daemon.reads.Post([round] { round->Begin(); }); };
      },
      [&daemon](const absl::Status&) {
        daemon.reads.PostAfter(kRoundEvery, [&daemon] { KeepAssessing(daemon); });
      });
}

}  // namespace muster::coordinator
