// QueryCurves: metrics in the form that charts draw. Whole curves, which are requested repeatedly, come
// from the cache; a closer look reads the points again.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "common/base/limits.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/base/descriptors.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/curves/curve_cache.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int kCurvesPerAnswer = 64;
constexpr uint32_t kBucketsByDefault = 1'000;
constexpr uint32_t kBucketsPerCurve = 10'000;
constexpr std::chrono::milliseconds kCurvesLookAgainAfter{50};

size_t BucketsOf(const v1::QueryCurvesRequest& request) {
  if (request.buckets() == 0) return kBucketsByDefault;
  return std::min(request.buckets(), kBucketsPerCurve);
}

StepRange RangeOf(const v1::QueryCurvesRequest& request) {
  StepRange range;
  if (request.has_from_step()) range.from = request.from_step();
  if (request.has_to_step()) range.to = request.to_step();
  return range;
}

CurveChoice ChoiceOf(const v1::QueryCurvesRequest& request) {
  CurveChoice choice;
  choice.names = {request.names().begin(), request.names().end()};
  if (request.has_rank()) choice.rank = request.rank();
  choice.steps = RangeOf(request);
  choice.buckets = BucketsOf(request);
  return choice;
}

bool IsWanted(const v1::QueryCurvesRequest& request, const std::string& name) {
  return request.names().empty() ||
         std::find(request.names().begin(), request.names().end(), name) != request.names().end();
}

v1::QueryCurvesResponse Draw(const JobCurves& job, const v1::QueryCurvesRequest& request) {
  v1::QueryCurvesResponse response;
  uint32_t left_out = 0;
  size_t bytes = 0;
  for (const auto& [name, curve] : job.curves()) {
    if (!IsWanted(request, name)) continue;
    if (response.curves_size() == kCurvesPerAnswer || bytes > common::kAnswerBytesMax) {
      ++left_out;
      continue;
    }
    v1::Curve& drawn = *response.add_curves();
    drawn = curve.buckets.Draw(RangeOf(request), BucketsOf(request));
    drawn.set_name(name);
    drawn.set_rank(curve.rank);
    bytes += drawn.ByteSizeLong();
  }
  response.set_curves_left_out(left_out);
  response.set_has_more_names(job.left_out());
  return response;
}

// Whether whole curves are fine enough for the request.
bool Suffices(const JobCurves& job, const v1::QueryCurvesRequest& request) {
  int found = 0;
  for (const auto& [name, curve] : job.curves()) {
    if (!IsWanted(request, name)) continue;
    ++found;
    if (request.has_rank() && curve.rank != request.rank()) return false;
    if (!curve.buckets.Suffices(RangeOf(request), BucketsOf(request))) return false;
  }
  return request.names().empty() || !job.left_out() || found == request.names_size();
}

class CurvesTask : public std::enable_shared_from_this<CurvesTask> {
 public:
  CurvesTask(JobStores& stores, Process& process, std::string owner, uint64_t job,
             v1::QueryCurvesRequest request, Answer<v1::QueryCurvesResponse> answer)
      : stores_(stores),
        process_(process),
        owner_(std::move(owner)),
        job_(job),
        request_(std::move(request)),
        answer_(std::move(answer)),
        shared_(stores.curves.Take(job)) {}
  ~CurvesTask() {
    if (is_look_) stores_.curves.EndLook();
  }

  void Go(std::chrono::milliseconds after = std::chrono::milliseconds(0)) {
    process_.reads.PostAfter(
        after, [self = shared_from_this()] { self->Turn(); }, owner_);
  }

 private:
  void Turn() {
    if (shared_ == nullptr) return LookCloser();
    std::unique_lock lock(shared_->mutex);
    const absl::StatusOr<bool> more = shared_->curves.ReadOn();
    if (absl::IsUnavailable(more.status())) return Go(kShortageRetry);
    if (!more.ok()) return answer_(more.status());
    if (!is_look_) stores_.curves.Grew(*shared_, shared_->curves.Size());
    if (*more) return Go();
    if (is_look_ || Suffices(shared_->curves, request_))
      return answer_(Draw(shared_->curves, request_));
    lock.unlock();
    shared_ = nullptr;
    LookCloser();
  }

  void LookCloser() {
    is_look_ = stores_.curves.BeginLook();
    if (!is_look_) return Go(kCurvesLookAgainAfter);
    shared_ = std::make_shared<SharedCurves>(stores_.metrics, job_, ChoiceOf(request_));
    Go();
  }

  JobStores& stores_;
  Process& process_;
  const std::string owner_;  // its work on the pool counts as this person's
  const uint64_t job_;
  const v1::QueryCurvesRequest request_;
  const Answer<v1::QueryCurvesResponse> answer_;
  std::shared_ptr<SharedCurves> shared_;  // null: waits for a closer look
  bool is_look_ = false;
};

absl::Status CheckCurvesRequest(const v1::QueryCurvesRequest& request) {
  if (request.names_size() > kCurvesPerAnswer) {
    return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                               {.code = "JC1004",
                                .what = StrCat("names has ", request.names_size(), " metrics, ",
                                               kCurvesPerAnswer, " at most"),
                                .fix = "ask for the others separately"});
  }
  return absl::OkStatus();
}

}  // namespace

void QueryCurves(Jobs& jobs, JobStores& stores, Process& process, const Caller& caller,
                 const v1::QueryCurvesRequest& request, Answer<v1::QueryCurvesResponse> answer) {
  if (const absl::Status valid = CheckCurvesRequest(request); !valid.ok()) return answer(valid);
  FindJob(jobs, process, caller, request.job(),
          [&stores, &process, request, owner = caller.principal,
           answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            std::make_shared<CurvesTask>(stores, process, owner, found->record->id(), request,
                                         answer)
                ->Go();
          });
}
MUSTER_HANDLER(QueryCurves)

}  // namespace muster::coordinator
