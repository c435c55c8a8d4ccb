#include "coordinator/store_parts/upload_checks.h"

#include <string>
#include <utility>

#include "common/base/limits.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kOwnerDigits = 16;

absl::Status Refused(const std::string& what, const std::string& why) {
  return common::MakeProblem(absl::StatusCode::kInvalidArgument,
                             {.code = "JC1611",
                              .what = StrCat(what, " was refused"),
                              .why = why,
                              .fix = "look for a damaged spool or a foreign program on that node"});
}

// Counts batches, so it cannot be far ahead; a file's seq is a file offset.
bool IsCounted(const v1::MetricBatch& batch) {
  return batch.source() == "socket" || batch.source() == "progress";
}

absl::Status RefuseBatch(const v1::MetricBatch& batch, const std::string& why) {
  return Refused(
      StrCat("a metric batch of job ", batch.job(), " attempt ", batch.attempt(), " rank ",
             batch.rank(), " source \"", common::Printable(batch.source().substr(0, 100)),
             "\" with seq ", batch.seq()),
      why);
}

}  // namespace

absl::Status CheckLogChunk(const v1::LogChunk& chunk) {
  const auto refused = [&](const std::string& why) {
    return Refused(StrCat("the output of job ", chunk.job(), " attempt ", chunk.attempt(), " rank ",
                          chunk.rank(), " stream ", static_cast<int>(chunk.stream())),
                   why);
  };
  if (chunk.rank() >= common::kRanksMax) return refused("there is no such rank");
  if (chunk.stream() != v1::LOG_STREAM_STDOUT && chunk.stream() != v1::LOG_STREAM_STDERR) {
    return refused("there is no such stream");
  }
  const uint64_t size = chunk.data().size();
  if (size > common::kLogChunkBytesMax) {
    return refused(
        StrCat("a chunk of ", size, " bytes is over the limit of ", common::kLogChunkBytesMax));
  }
  if (chunk.offset() > common::kLogStreamBytesMax - size) {
    return refused(StrCat("offset ", chunk.offset(), " is over the limit of ",
                          common::kLogStreamBytesMax, " bytes of a stream"));
  }
  if (chunk.dropped() > chunk.offset()) {
    return refused(StrCat("it claims that ", chunk.dropped(), " bytes were lost before offset ",
                          chunk.offset()));
  }
  if (chunk.has_kept_from() && chunk.kept_from() > chunk.offset()) {
    return refused(StrCat("it claims that what is before offset ", chunk.kept_from(),
                          " is gone, but carries offset ", chunk.offset()));
  }
  if (chunk.time_us() < 0) return refused("its time is before 1970");
  int64_t before = -1;
  for (const v1::LogMark& mark : chunk.marks()) {
    if (mark.position() > size || mark.position() <= before || mark.time_us() < 0) {
      return refused(
          StrCat("the mark at ", mark.position(), " of a chunk of ", size, " bytes is not valid"));
    }
    before = mark.position();
  }
  return absl::OkStatus();
}

absl::Status CheckMetricBatch(const v1::MetricBatch& batch) {
  if (batch.rank() >= common::kRanksMax) return RefuseBatch(batch, "there is no such rank");
  if (batch.source().empty() || batch.source().size() > kMetricSourceBytesMax) {
    return RefuseBatch(batch, StrCat("a source is 1 to ", kMetricSourceBytesMax, " bytes"));
  }
  if (batch.seq() == 0 || batch.seq() > common::kLogStreamBytesMax) {
    return RefuseBatch(batch, StrCat("seq must be from 1 to ", common::kLogStreamBytesMax));
  }
  if (batch.points_size() > kMetricPointsMax) {
    return RefuseBatch(batch, StrCat("it has more than ", kMetricPointsMax, " points"));
  }
  for (const v1::MetricPoint& point : batch.points()) {
    if (point.name().empty() || point.name().size() > kMetricNameBytesMax) {
      return RefuseBatch(batch, StrCat("a metric's name is 1 to ", kMetricNameBytesMax, " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeMetricBatch(v1::MetricBatch& batch) {
  if (batch.encoded().empty()) return absl::OkStatus();
  std::string encoded = std::move(*batch.mutable_encoded());
  if (!batch.ParseFromString(encoded) || !batch.encoded().empty()) {
    batch.clear_encoded();
    return RefuseBatch(batch, "what it encodes is not a batch");
  }
  batch.set_encoded(std::move(encoded));
  return absl::OkStatus();
}

absl::Status CheckMetricSeq(const v1::MetricBatch& batch, uint64_t newest) {
  if (!IsCounted(batch) || batch.seq() <= newest || batch.seq() - newest <= kMetricSeqJumpMax) {
    return absl::OkStatus();
  }
  return RefuseBatch(batch, StrCat("the newest known batch has seq ", newest, ", and ",
                                   kMetricSeqJumpMax, " batches cannot be missing"));
}

// A principal may be long, and have characters that a file's name may not.
std::string UploadOwner(const Caller& caller, uint64_t job, uint32_t attempt) {
  return StrCat("+", job, ".", attempt, "+",
                common::Sha256Hex(caller.principal).substr(0, kOwnerDigits));
}

}  // namespace muster::coordinator
