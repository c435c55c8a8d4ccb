#include "coordinator/curves/job_curves.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/status.h"

namespace muster::coordinator {
namespace {

constexpr size_t kBytesPerPiece = 1 << 20;
// A job whose steps go backward all the time must not keep a reader forever.
constexpr int kStartsMax = 3;

}  // namespace

JobCurves::JobCurves(const MetricStore& metrics, uint64_t job, CurveChoice choice)
    : metrics_(metrics), job_(job), choice_(std::move(choice)), reader_(metrics.Read(job)) {}

void JobCurves::StartOver(size_t attempts) {
  reader_ = metrics_.Read(job_);
  line_ = {};
  line_attempts_ = attempts;
  is_learning_ = true;
  curves_.clear();
  left_out_ = false;
  ++starts_;
}

bool JobCurves::Holds(const v1::MetricBatch& batch) const {
  if (line_attempts_ < 2 || starts_ > kStartsMax) return true;
  return std::all_of(batch.points().begin(), batch.points().end(),
                     [&](const auto& point) { return line_.Knows(batch.attempt(), point.step()); });
}

absl::StatusOr<bool> JobCurves::ReadOn() {
  v1::MetricBatch batch;
  for (size_t bytes = 0; bytes < kBytesPerPiece; bytes += batch.ByteSizeLong()) {
    ASSIGN_OR_RETURN(const bool found, reader_->Next(batch));
    // A new attempt may replace points of earlier attempts that were already read.
    if (reader_->Attempts() > line_attempts_) {
      StartOver(reader_->Attempts());
    } else if (found && is_learning_) {
      line_.Learn(batch);
    } else if (found && !Holds(batch)) {
      StartOver(line_attempts_);
    } else if (found) {
      Add(batch);
    } else if (is_learning_) {
      line_.Seal();
      is_learning_ = false;
      reader_ = metrics_.Read(job_);
    } else {
      reader_->Forget();
      starts_ = 0;
      return false;
    }
  }
  return true;
}

void JobCurves::Add(const v1::MetricBatch& batch) {
  if (choice_.rank.has_value() && batch.rank() != *choice_.rank) return;
  for (const v1::MetricPoint& point : batch.points()) {
    if (!choice_.steps.Has(point.step())) continue;
    if (!choice_.names.empty() && !choice_.names.contains(point.name())) continue;
    if (line_.IsReplaced(batch.attempt(), point.step())) continue;
    CurveBuckets* curve = CurveOf(point.name(), batch.rank());
    if (curve != nullptr) curve->Add(point);
  }
}

CurveBuckets* JobCurves::CurveOf(const std::string& name, uint32_t rank) {
  auto found = curves_.find(name);
  if (found == curves_.end()) {
    if (curves_.size() == kCurvesMax) {
      // The metrics that come first by name stay.
      left_out_ = true;
      const auto last = std::prev(curves_.end());
      if (name > last->first) return nullptr;
      curves_.erase(last);
    }
    const RankCurve empty = {.rank = rank, .buckets = CurveBuckets(choice_.buckets)};
    found = curves_.emplace(name, empty).first;
    for (auto& [each, curve] : curves_) curve.buckets.Limit(BucketsEach());
  }
  RankCurve& curve = found->second;
  if (curve.rank < rank) return nullptr;
  // This is the first point of a lower rank, so none of its points were skipped.
  if (curve.rank > rank) curve = {.rank = rank, .buckets = CurveBuckets(BucketsEach())};
  return &curve.buckets;
}

size_t JobCurves::BucketsEach() const {
  return std::min(choice_.buckets, kBucketsMax / curves_.size());
}

size_t JobCurves::Size() const {
  size_t buckets = 0;
  for (const auto& [name, curve] : curves_) buckets += curve.buckets.size();
  return buckets;
}

}  // namespace muster::coordinator
