// CompareJobs: the comparison of `jobctl compare`, from all points of the jobs. Reads job by job and then
// compares pair by pair, in pieces; everything that it holds is within the cost of its row (common/calls.h).
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "compare/comparison.h"
#include "compare/run.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/curves/comparison_message.h"
#include "coordinator/curves/followed_reader.h"

namespace muster::coordinator {
namespace {

using common::StrCat;
using compare::By;

// limit: comparing jobs: jobs; refused (JC1004)
constexpr int kJobsCompared = 16;
// limit: comparing jobs: names or patterns; refused (JC1004)
constexpr int kMetricsNamed = 64;
// limit: comparing jobs: metrics; the rest is counted
constexpr size_t kMetricsCompared = 1'000;  // more than an answer has room for
constexpr int kLeftOutNamed = 100;
constexpr size_t kComparedBytesPerTurn = 1 << 20;
// A point takes up to 72 bytes while its epoch is looked for and its series grows.
// limit: comparing jobs: points; refused (JC1544)
constexpr size_t kComparedPoints = 1'000'000;
// limit: comparing jobs: metrics' names; refused (JC1544)
constexpr size_t kComparedNamesBytes = 8 << 20;

absl::Status BadRequest(std::string what, std::string fix) {
  return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                             {.code = "JC1004", .what = std::move(what), .fix = std::move(fix)});
}

absl::StatusOr<double> ToleranceIn(const std::string& text, std::string_view field,
                                   std::string_view example) {
  if (text.empty()) return 0.0;
  const absl::StatusOr<double> value = compare::ParseTolerance(text);
  if (value.ok()) return value;
  return BadRequest(
      StrCat(field, " takes a number of at least 0, not \"", common::Printable(text), "\""),
      StrCat("for example ", example));
}

// The parsed request.
struct ComparePlan {
  compare::WantedMetrics wanted;
  compare::ComparisonSetup setup;
  bool by_given = false;
};

absl::StatusOr<ComparePlan> PlanOf(const v1::CompareJobsRequest& request) {
  if (request.jobs_size() < 2 || request.jobs_size() > kJobsCompared) {
    return BadRequest(StrCat("jobs has ", request.jobs_size(), " jobs, and 2 to ", kJobsCompared,
                             " are compared"),
                      "name a baseline and what is compared with it");
  }
  if (request.metrics_size() > kMetricsNamed) {
    return BadRequest(
        StrCat("metrics has ", request.metrics_size(), " entries, ", kMetricsNamed, " at most"),
        "ask for the others separately");
  }
  ComparePlan plan;
  plan.wanted.keys = {request.metrics().begin(), request.metrics().end()};
  if (request.has_rank()) plan.wanted.rank = request.rank();
  compare::ComparisonSetup& setup = plan.setup;
  plan.by_given = request.by() != v1::COMPARE_BY_UNSPECIFIED;
  setup.by = request.by() == v1::COMPARE_BY_STEP ? By::kStep : By::kEpoch;
  setup.steps_per_epoch = request.steps_per_epoch();
  setup.limit.given = !request.rtol().empty() || !request.atol().empty();
  ASSIGN_OR_RETURN(setup.limit.rtol, ToleranceIn(request.rtol(), "rtol", "0.02 or 2%"));
  ASSIGN_OR_RETURN(setup.limit.atol, ToleranceIn(request.atol(), "atol", "1e-6"));
  return plan;
}

struct NamedJob {
  uint64_t id = 0;
  std::string name;
};

class CompareTask : public std::enable_shared_from_this<CompareTask> {
 public:
  CompareTask(JobStores& stores, Process& process, std::string owner, std::vector<NamedJob> jobs,
              ComparePlan plan, Answer<v1::CompareJobsResponse> answer)
      : stores_(stores),
        process_(process),
        owner_(std::move(owner)),
        jobs_(std::move(jobs)),
        plan_(std::move(plan)),
        answer_(std::move(answer)) {}

  void Go(std::chrono::milliseconds after = std::chrono::milliseconds(0)) {
    process_.reads.PostAfter(
        after, [self = shared_from_this()] { self->Turn(); }, owner_);
  }

 private:
  void Turn() {
    const absl::StatusOr<bool> more = runs_.size() < jobs_.size() ? ReadOn() : CompareNext();
    if (absl::IsUnavailable(more.status())) return Go(kShortageRetry);
    if (!more.ok()) return answer_(more.status());
    if (*more) return Go();
    answer_(std::move(response_));
  }

  // Reads a piece of the next job.
  absl::StatusOr<bool> ReadOn() {
    const NamedJob& job = jobs_[runs_.size()];
    if (!reader_) {
      reader_.emplace(stores_.metrics, job.id);
      builder_.emplace(plan_.wanted, &budget_);
    }
    v1::MetricBatch batch;
    for (size_t bytes = 0; bytes < kComparedBytesPerTurn; bytes += batch.ByteSizeLong()) {
      ASSIGN_OR_RETURN(const FollowedReader::Read read, reader_->Next(batch));
      if (read == FollowedReader::Read::kPoints) RETURN_IF_ERROR(Add(batch));
      if (read != FollowedReader::Read::kEnd) continue;
      names_bytes_ += builder_->NameBytes();
      runs_.push_back(builder_->Finish(job.name));
      reader_.reset();
      if (runs_.size() == jobs_.size()) RETURN_IF_ERROR(Choose());
      return true;
    }
    return true;
  }

  absl::Status Add(const v1::MetricBatch& batch) {
    for (const v1::MetricPoint& point : batch.points()) {
      if (reader_->IsReplaced(batch, point)) continue;
      RETURN_IF_ERROR(builder_->Add(point.name(), batch.rank(), point.step(), point.value()));
    }
    if (names_bytes_ + builder_->NameBytes() <= kComparedNamesBytes) return absl::OkStatus();
    return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                               {.code = "JC1544",
                                .what = "the jobs to compare have too many metrics",
                                .fix = "compare fewer jobs at once, or with jobctl compare"});
  }

  // Everything has been read: chooses which metrics to compare, and how.
  absl::Status Choose() {
    std::vector<std::string> left_out;
    ASSIGN_OR_RETURN(keys_, compare::KeysOf(plan_.wanted.keys, runs_, &left_out));
    if (keys_.size() > kMetricsCompared) {
      return BadRequest(StrCat("the jobs have ", keys_.size(), " such metrics in common, and ",
                               kMetricsCompared, " at most are compared"),
                        "name fewer of them");
    }
    for (size_t i = 0; i < left_out.size() && i < kLeftOutNamed; ++i) {
      response_.add_metrics_left_out(std::move(left_out[i]));
    }
    compare::ComparisonSetup& setup = plan_.setup;
    if (!plan_.by_given) setup.by = compare::DefaultBy(keys_, runs_, setup.steps_per_epoch);
    response_.set_by(CompareByOf(setup.by));
    return absl::OkStatus();
  }

  // Compares one metric of one job.
  absl::StatusOr<bool> CompareNext() {
    const size_t others = runs_.size() - 1;
    const std::string& key = keys_[next_ / others];
    const compare::ComparedRun& run = runs_[1 + next_ % others];
    const absl::StatusOr<compare::Comparison> pair =
        compare::CompareRuns(key, runs_[0], run, plan_.setup);
    v1::JobComparison message;
    if (pair.ok()) message = MessageOf(*pair, plan_.setup);
    if (!pair.ok() && !common::CopyDetail(pair.status(), message.mutable_problem())) {
      return pair.status();
    }
    message.set_metric(key);
    message.set_job(run.name);
    message.set_baseline(runs_[0].name);
    response_bytes_ += message.ByteSizeLong();
    *response_.add_comparisons() = std::move(message);
    const size_t all = keys_.size() * others;
    if (++next_ < all && response_bytes_ <= common::kAnswerBytesMax) return true;
    response_.set_comparisons_left_out(static_cast<uint32_t>(all - next_));
    return false;
  }

  JobStores& stores_;
  Process& process_;
  const std::string owner_;  // its work on the pool counts as this person's
  const std::vector<NamedJob> jobs_;
  ComparePlan plan_;
  const Answer<v1::CompareJobsResponse> answer_;
  compare::PointBudget budget_{kComparedPoints,
                               "compare fewer metrics or jobs at once, or with jobctl compare"};
  std::optional<FollowedReader> reader_;  // of the next job
  std::optional<compare::RunBuilder> builder_;
  size_t names_bytes_ = 0;
  std::vector<compare::ComparedRun> runs_;  // the jobs of jobs_ that have been read
  std::vector<std::string> keys_;
  size_t next_ = 0;  // comparison: metric by metric, run by run
  v1::CompareJobsResponse response_;
  size_t response_bytes_ = 0;
};

}  // namespace

void CompareJobs(Jobs& jobs, JobStores& stores, Process& process, const Caller& caller,
                 const v1::CompareJobsRequest& request, Answer<v1::CompareJobsResponse> answer) {
  absl::StatusOr<ComparePlan> plan = PlanOf(request);
  if (!plan.ok()) return answer(plan.status());
  FindJobs(
      jobs, process, caller, {request.jobs().begin(), request.jobs().end()},
      [&stores, &process, owner = caller.principal, plan = *std::move(plan),
       answer = std::move(answer)](const std::vector<absl::StatusOr<FoundJob>>& found) {
        std::vector<NamedJob> named;
        for (const absl::StatusOr<FoundJob>& job : found) {
          if (!job.ok()) return answer(job.status());
          named.push_back({job->record->id(), job->record->name()});
        }
        std::make_shared<CompareTask>(stores, process, owner, std::move(named), plan, answer)->Go();
      });
}
MUSTER_HANDLER(CompareJobs)

}  // namespace muster::coordinator
