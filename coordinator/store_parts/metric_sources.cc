#include "coordinator/store_parts/metric_sources.h"

#include <algorithm>
#include <iterator>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/upload_checks.h"

namespace muster::coordinator {
namespace {

v1::MetricAck SourceOf(const v1::MetricBatch& batch) {
  v1::MetricAck ack;
  ack.set_job(batch.job());
  ack.set_attempt(batch.attempt());
  ack.set_rank(batch.rank());
  ack.set_source(batch.source());
  return ack;
}

}  // namespace

absl::Status MetricSources::CheckNext(const v1::MetricBatch& batch) const {
  const auto known = newest_.find({batch.rank(), batch.source()});
  if (known != newest_.end()) return CheckMetricSeq(batch, known->second);
  const auto of_rank = newest_.lower_bound({batch.rank(), std::string()});
  const auto behind = newest_.lower_bound({batch.rank() + 1, std::string()});
  if (static_cast<size_t>(std::distance(of_rank, behind)) >= kMetricSourcesMax) {
    return common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1611",
         .what = common::StrCat("metrics of job ", batch.job(), " rank ", batch.rank(),
                                " are refused: they come from more than ", kMetricSourcesMax,
                                " sources"),
         .fix = "write fewer event files"});
  }
  return CheckMetricSeq(batch, 0);
}

uint64_t MetricSources::Newest(const v1::MetricBatch& batch) const {
  const auto known = newest_.find({batch.rank(), batch.source()});
  return known == newest_.end() ? 0 : known->second;
}

bool MetricSources::IsKnown(const v1::MetricBatch& batch) const {
  if (batch.seq() <= Newest(batch)) return true;
  const auto behind = behind_damage_.find({batch.rank(), batch.source()});
  return behind != behind_damage_.end() && behind->second.contains(batch.seq());
}

void MetricSources::Take(const v1::MetricBatch& batch) {
  const Key key{batch.rank(), batch.source()};
  uint64_t& newest = newest_[key];
  newest = std::max(newest, batch.seq());
  const auto behind = behind_damage_.find(key);
  if (behind == behind_damage_.end()) return;
  behind->second.erase(behind->second.begin(), behind->second.upper_bound(newest));
  if (behind->second.empty()) behind_damage_.erase(behind);
}

void MetricSources::TakeBehindDamage(const v1::MetricBatch& batch) {
  const Key key{batch.rank(), batch.source()};
  newest_.try_emplace(key, 0);
  behind_damage_[key].insert(batch.seq());
}

v1::MetricAck AckFor(const v1::MetricBatch& batch, uint64_t durable_seq) {
  v1::MetricAck ack = SourceOf(batch);
  ack.set_durable_seq(durable_seq);
  return ack;
}

v1::MetricAck RefusalOf(const v1::MetricBatch& batch) {
  v1::MetricAck ack = SourceOf(batch);
  ack.set_refused(true);
  return ack;
}

}  // namespace muster::coordinator
