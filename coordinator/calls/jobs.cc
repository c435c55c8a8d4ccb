#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/job/labels.h"
#include "common/job/validate.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/hiding.h"
#include "coordinator/calls/secrets.h"
#include "coordinator/calls/submit.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/forecast.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/views/views.h"
#include "coordinator/core/why.h"
#include "coordinator/identity/directory.h"
#include "coordinator/periodic/assessor.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kListedByDefault = 1'000;
constexpr uint32_t kListedMax = 10'000;  // per page
// Running jobs of a page that are assessed immediately; the others show what the last round found.
constexpr size_t kAssessedMax = 64;
constexpr int64_t kRecentMs = 24 * 3'600'000;

using LabelTerms = std::vector<job::LabelTerm>;

// `mine`: only jobs of this OwnerKey; empty: all.
bool Matches(const v1::JobRecord& job, const v1::ListJobsRequest& request, const std::string& mine,
             const LabelTerms& labels) {
  if (request.before_id() != 0 && job.id() >= request.before_id()) return false;
  if (!mine.empty() && OwnerKey(job) != mine) return false;
  if (!request.owner().empty() && job.owner() != request.owner()) return false;
  if (job.name().find(request.name_has()) == std::string::npos) return false;
  if (!request.project().empty() && request.project() != ProjectOf(job)) return false;
  if (!job::MeetsLabelTerms(job.spec().labels(), labels)) return false;
  if (request.states().empty()) return true;
  return std::find(request.states().begin(), request.states().end(), job.state()) !=
         request.states().end();
}

uint32_t PageLimitOf(const v1::ListJobsRequest& request) {
  return std::min(request.limit() == 0 ? kListedByDefault : request.limit(), kListedMax);
}

// A job that cannot be read now shows no finding.
void AssessFinished(Jobs& jobs, Process& process, uint64_t id) {
  if (jobs.assessor.IsFinal(id)) return;
  const auto record = jobs.index.Find(id);
  if (!record.ok() || !record->has_value()) return;
  (void)jobs.assessor.Assess(FactsOf(**record), process.clock.Read());
}

// On a pool thread: adds finished jobs, newest first, up to the limit.
absl::StatusOr<v1::ListJobsResponse> WithFinished(Jobs& jobs, JobStores& stores, Access& access,
                                                  Process& process,
                                                  const v1::ListJobsRequest& request,
                                                  const std::string& mine, const LabelTerms& labels,
                                                  std::vector<v1::JobSummary> live,
                                                  int64_t now_ms) {
  JobIndex::Filter filter;
  for (const int state : request.states())
    filter.states.push_back(static_cast<v1::JobState>(state));
  filter.owner = request.owner();
  filter.owner_key = mine;
  filter.labels = labels;
  filter.name_has = request.name_has();
  filter.project = request.project();
  filter.before_id = request.before_id();
  filter.limit = PageLimitOf(request) + 1;
  if (!request.all() && request.states().empty()) filter.finished_since_ms = now_ms - kRecentMs;
  absl::StatusOr<std::vector<v1::JobSummary>> finished = jobs.index.List(filter);
  if (!finished.ok()) return finished.status();
  std::set<uint64_t> listed;
  for (const v1::JobSummary& job : live) listed.insert(job.id());
  for (v1::JobSummary& job : *finished) {
    if (!listed.contains(job.id())) live.push_back(std::move(job));
  }
  std::sort(live.begin(), live.end(),
            [](const v1::JobSummary& a, const v1::JobSummary& b) { return a.id() > b.id(); });
  v1::ListJobsResponse response;
  response.set_labels_met(true);
  size_t bytes = 0;
  for (v1::JobSummary& job : live) {
    bytes += job.ByteSizeLong();
    if (response.jobs_size() >= static_cast<int>(PageLimitOf(request)) ||
        bytes > common::kAnswerBytesMax) {
      response.set_more(true);
      break;
    }
    if (job.finished_ms() > 0) {
      stores.metrics.DecorateFinished(job);
    } else {
      stores.metrics.Decorate(job);
    }
    if (request.assess() && job.finished_ms() > 0) AssessFinished(jobs, process, job.id());
    jobs.assessor.Decorate(job);
    job.set_owner_is_gone(access.directory.IsGone(job.owner(), job.owner_id()));
    *response.add_jobs() = std::move(job);
  }
  return response;
}

}  // namespace

void ListJobs(Jobs& jobs, JobStores& stores, Access& access, Process& process, const Caller& caller,
              const v1::ListJobsRequest& asked, Answer<v1::ListJobsResponse> answer) {
  v1::ListJobsRequest request = asked;
  request.set_owner(asked.mine() ? caller.principal : PrincipalOfUser(asked.owner()));
  const std::string mine = asked.mine() ? OwnerKey(caller) : "";
  const absl::StatusOr<LabelTerms> labels =
      job::ParseLabelTerms({request.labels().begin(), request.labels().end()});
  if (!labels.ok()) return answer(labels.status());
  jobs.loop.Ask(
      [&jobs, &stores, &access, &process, request, mine, answer,
       labels = *labels](const LoopView& view) {
        std::vector<v1::JobSummary> live;
        const auto facts = std::make_shared<std::vector<v1::JobRecord>>();
        const uint32_t limit = PageLimitOf(request);
        const auto& kept = view.state.jobs;
        const auto first =
            request.before_id() == 0 ? kept.end() : kept.lower_bound(request.before_id());
        for (auto job = std::make_reverse_iterator(first);
             job != kept.rend() && live.size() <= limit; ++job) {
          if (!Matches(job->second, request, mine, labels)) continue;
          live.push_back(Summarize(job->second));
          const bool runs = job->second.state() == v1::JOB_STATE_RUNNING;
          if (request.assess() && runs && facts->size() < kAssessedMax) {
            facts->push_back(FactsOf(job->second));
          }
        }
        return [&jobs, &stores, &access, &process, request, mine, answer, labels, facts,
                live = std::move(live), now_ms = view.now.wall_ms] {
          // Reading metrics may take long, so it must not delay the short reads.
          WorkPool& pool = request.assess() ? process.reads : process.pool;
          pool.Post([&jobs, &stores, &access, &process, request, mine, answer, labels, facts, live,
                     now_ms] {
            for (const v1::JobRecord& job : *facts) {
              (void)jobs.assessor.Assess(job, process.clock.Read());
            }
            answer(
                WithFinished(jobs, stores, access, process, request, mine, labels, live, now_ms));
          });
        };
      },
      answer);
}
MUSTER_HANDLER(ListJobs)

void GetJob(Jobs& jobs, JobStores& stores, Access& access, Process& process, const Caller& caller,
            const v1::JobReference& request, Answer<v1::GetJobResponse> answer) {
  FindJob(jobs, process, caller, request.job(),
          [&stores, &access, caller, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            v1::GetJobResponse response;
            v1::JobSummary& summary = *response.mutable_summary();
            summary = Summarize(*found->record);
            summary.set_owner_is_gone(access.directory.IsGone(summary.owner(), summary.owner_id()));
            found->live ? stores.metrics.Decorate(summary)
                        : stores.metrics.DecorateFinished(summary);
            *response.mutable_record() = RecordForPeople(std::move(*found->record));
            HideFromCaller(access, caller, *response.mutable_record());
            answer(std::move(response));
          });
}
MUSTER_HANDLER(GetJob)

namespace {

// Of a job that waits. The passes that it takes are not for the loop's thread.
void WhyItWaits(Jobs& jobs, Process& process, const Caller& caller, v1::JobRecord job,
                const Answer<v1::WhyResponse>& answer) {
  jobs.plans.Look(
      jobs, process,
      {.owner = caller.principal,
       .look =
           [job = std::move(job), answer](const Planner::View& view) {
             const auto waits = view.state.jobs.find(job.id());
             if (waits != view.state.jobs.end() &&
                 view.state.queue.contains(PlaceOf(waits->second))) {
               return answer(WhyWaiting(view.state, waits->second, *view.Starts(), view.now));
             }
             // It has started meanwhile, or very many are ahead of it.
             v1::WhyResponse response;
             response.set_state(job.state());
             response.set_text(common::StrCat(StateName(job.state()), ": ", job.reason()));
             answer(std::move(response));
           },
       .refuse = answer});
}

}  // namespace

void WhyJob(Jobs& jobs, Process& process, const Caller& caller, const v1::JobReference& request,
            Answer<v1::WhyResponse> answer) {
  FindJob(jobs, process, caller, request.job(),
          [&jobs, &process, caller, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            jobs.loop.Ask(
                [&jobs, &process, caller, answer,
                 job = found->record](const LoopView& view) -> std::function<void()> {
                  const auto live = view.state.jobs.find(job->id());
                  const v1::JobRecord& now_is = live != view.state.jobs.end() ? live->second : *job;
                  if (view.state.queue.contains(PlaceOf(now_is))) {
                    return [&jobs, &process, caller, answer, now_is] {
                      WhyItWaits(jobs, process, caller, now_is, answer);
                    };
                  }
                  return
                      [answer, response = Why(view.state, now_is, view.now)] { answer(response); };
                },
                answer);
          });
}
MUSTER_HANDLER(WhyJob)

void ListQueue(Jobs& jobs, Access& access, Process& process, const Caller& caller,
               const v1::ListQueueRequest& request, Answer<v1::ListQueueResponse> answer) {
  jobs.plans.Look(
      jobs, process,
      {.owner = caller.principal,
       .look =
           [&access, answer, limit = request.limit()](const Planner::View& view) {
             v1::ListQueueResponse response =
                 ViewQueue(view.state, *view.Starts(), limit, view.now);
             for (v1::QueuedJob& job : *response.mutable_jobs())
               job.set_owner_is_gone(access.directory.IsGone(job.owner(), job.owner_id()));
             answer(std::move(response));
           },
       .refuse = answer});
}
MUSTER_HANDLER(ListQueue)

void PlanJob(Jobs& jobs, JobStores& stores, JobCode& job_code, Access& access, Process& process,
             const Caller& caller, const v1::PlanJobRequest& request,
             Answer<v1::PlanJobResponse> answer) {
  // Checked before it takes space in the loop's queue.
  if (const absl::Status size = job::CheckSize(request.spec()); !size.ok()) return answer(size);
  v1::SubmitRequest submit;
  *submit.mutable_spec() = request.spec();
  const auto plan = [&jobs, &process, input = InputOf(access, caller, submit),
                     answer = std::move(answer)](const absl::Status& may) {
    if (!may.ok()) return answer(may);
    jobs.plans.Plan(jobs, process, input, answer);
  };
  if (!request.spec().has_code()) return plan(absl::OkStatus());
  CheckMayUseCode(stores, job_code, access, process, caller, request.spec(), plan);
}
MUSTER_HANDLER(PlanJob)

}  // namespace muster::coordinator
