#include "coordinator/calls/assess.h"

// AssessJob, and the rounds that keep the newest assessments of running jobs for `jobctl ls`.
//
// A round costs something only for jobs that report: it asks the control loop once for the ids of
// running jobs, then briefly for a few records at a time. All reading and assessing happens on the work
// pool.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "common/log.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/decide/notices.h"
#include "coordinator/periodic/assessor.h"

namespace muster::coordinator {
namespace {

// We promise a finding within a minute of its cause; rules look at half a minute. Where shorter losses
// are worth a sentence, rounds are more frequent.
std::chrono::milliseconds RoundEvery(const Jobs& jobs) {
  return std::chrono::milliseconds(std::clamp<int64_t>(jobs.assessor.FloorMs() / 6, 1'000, 10'000));
}
constexpr size_t kRecordsPerQuestion = 32;

void AssessSoon(Jobs& jobs, Process& process, std::shared_ptr<const v1::JobRecord> job,
                const std::string& owner, Answer<v1::Assessment> answer,
                std::chrono::milliseconds after = std::chrono::milliseconds(0)) {
  const auto assess = [&jobs, &process, job, owner, answer = std::move(answer)] {
    absl::StatusOr<v1::Assessment> assessment =
        jobs.assessor.Assess(FactsOf(*job), process.clock.Read());
    if (absl::IsUnavailable(assessment.status())) {
      return AssessSoon(jobs, process, job, owner, answer, kShortageRetry);
    }
    answer(std::move(assessment));
  };
  process.reads.PostAfter(after, assess, owner);
}

// The jobs of one round, a few records at a time.
class Round : public std::enable_shared_from_this<Round> {
 public:
  Round(Jobs& jobs, JobStores& stores, Traffic& traffic, Process& process,
        std::vector<uint64_t> ids)
      : jobs_(jobs), stores_(stores), traffic_(traffic), process_(process), ids_(std::move(ids)) {}

  // On a pool thread. Drops jobs that report nothing before any record is copied.
  void Begin() {
    std::erase_if(ids_, [this](uint64_t job) { return !Reports(job); });
    Next();
  }

 private:
  bool Reports(uint64_t job) const {
    v1::JobSummary summary;
    summary.set_id(job);
    summary.set_step(-1);
    stores_.metrics.Decorate(summary);
    return summary.step() >= 0 || jobs_.assessor.IsMeasured(job);
  }

  void Next() {
    if (at_ >= ids_.size()) {
      return process_.reads.PostAfter(RoundEvery(jobs_), [self = shared_from_this()] {
        KeepAssessing(self->jobs_, self->stores_, self->traffic_, self->process_);
      });
    }
    jobs_.loop.Ask(
        [self = shared_from_this()](const LoopView& view) -> std::function<void()> {
          auto facts = std::make_shared<std::vector<v1::JobRecord>>();
          const size_t end = std::min(self->ids_.size(), self->at_ + kRecordsPerQuestion);
          for (; self->at_ < end; ++self->at_) {
            const auto job = view.state.jobs.find(self->ids_[self->at_]);
            if (job != view.state.jobs.end()) facts->push_back(FactsOf(job->second));
          }
          return
              [self, facts] { self->process_.reads.Post([self, facts] { self->Judge(*facts); }); };
        },
        // The disk is full: try again later, like everything else.
        [self = shared_from_this()](const absl::Status&) {
          self->process_.reads.PostAfter(RoundEvery(self->jobs_), [self] {
            KeepAssessing(self->jobs_, self->stores_, self->traffic_, self->process_);
          });
        });
  }

  void Judge(const std::vector<v1::JobRecord>& records) {
    for (const v1::JobRecord& record : records) {
      // A job that cannot be read now is read in the next round.
      const auto assessed = jobs_.assessor.Assess(record, process_.clock.Read());
      if (assessed.ok()) {
        NoticeNew(record, *assessed);
        TellProgress(record, *assessed);
      } else {
        traffic_.refusals.Warn(std::string(assessed.status().message()));
      }
    }
    Next();
  }

  // So that the scheduler knows when its devices are free again.
  void TellProgress(const v1::JobRecord& record, const v1::Assessment& assessment) {
    if (!assessment.has_eta_ms() || record.attempts().empty()) return;
    jobs_.loop.Say(
        ProgressInput{record.id(), record.attempts().rbegin()->number(), assessment.eta_ms()});
  }

  // For findings that `notify` sends. The control loop decides what is new; this only spares it the rest.
  void NoticeNew(const v1::JobRecord& record, const v1::Assessment& assessment) {
    if (!WantsFindings(record.spec()) || record.noticed_size() >= kNoticedMax) return;
    for (const v1::Finding& finding : assessment.findings()) {
      if (!IsNoticed(record, finding.code(), finding.attempt()))
        jobs_.loop.Say(FindingInput{record.id(), finding});
    }
  }

  Jobs& jobs_;
  JobStores& stores_;
  Traffic& traffic_;
  Process& process_;
  std::vector<uint64_t> ids_;
  size_t at_ = 0;
};

}  // namespace

void AssessJob(Jobs& jobs, Process& process, const Caller& caller, const v1::JobReference& request,
               Answer<v1::Assessment> answer) {
  FindJob(jobs, process, caller, request.job(),
          [&jobs, &process, owner = caller.principal,
           answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            AssessSoon(jobs, process, found->record, owner, answer);
          });
}
MUSTER_HANDLER(AssessJob)

void KeepAssessing(Jobs& jobs, JobStores& stores, Traffic& traffic, Process& process) {
  jobs.loop.Ask(
      [&jobs, &stores, &traffic, &process](const LoopView& view) -> std::function<void()> {
        std::vector<uint64_t> running;
        for (const uint64_t id : view.state.active) {
          const v1::JobRecord& job = view.state.jobs.at(id);
          // Between two attempts, the failed one may still have new findings.
          if (job.state() == v1::JOB_STATE_RUNNING || WantsFindings(job.spec()))
            running.push_back(id);
        }
        const auto round =
            std::make_shared<Round>(jobs, stores, traffic, process, std::move(running));
        return [&process, round] { process.reads.Post([round] { round->Begin(); }); };
      },
      [&jobs, &stores, &traffic, &process](const absl::Status&) {
        process.reads.PostAfter(RoundEvery(jobs), [&jobs, &stores, &traffic, &process] {
          KeepAssessing(jobs, stores, traffic, process);
        });
      });
}

}  // namespace muster::coordinator
