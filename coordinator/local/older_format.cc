#include "coordinator/local/older_format.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "common/crc32c.h"
#include "common/files.h"
#include "common/limits.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/local/log_stream_file.h"
#include "coordinator/local/metric_stream_file.h"
#include "coordinator/number_file.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr int64_t kFormat = 2;
constexpr size_t kIndexRecordBytes = 40;
constexpr size_t kRecordsPerRead = 1'024;
constexpr size_t kMetricHeaderBytes = 8;
constexpr size_t kMetricRecordBytesMax = common::kBulkMessageBytesMax + 64 * 1024;

// offset, dropped, time, length, data crc, flags, record crc.
struct PackedPiece {
  uint64_t offset;
  uint64_t dropped;
  int64_t time_us;
  uint32_t length;
  uint32_t data_crc;
  uint32_t flags;
  uint32_t record_crc;
};
static_assert(sizeof(PackedPiece) == kIndexRecordBytes);

std::optional<PackedPiece> DecodePiece(std::string_view bytes) {
  PackedPiece piece;
  std::memcpy(&piece, bytes.data(), sizeof piece);
  const uint32_t crc = common::Crc32c(bytes.substr(0, kIndexRecordBytes - sizeof crc));
  if (crc != piece.record_crc || piece.offset > common::kLogStreamBytesMax ||
      piece.dropped > piece.offset || piece.length > common::kLogChunkBytesMax ||
      piece.offset + piece.length > common::kLogStreamBytesMax) {
    return std::nullopt;
  }
  return piece;
}

absl::StatusOr<common::UniqueFd> OpenOld(const std::string& path) {
  return common::OpenRegular(path, O_RDONLY | O_NOFOLLOW);
}

// Skips what is damaged, which becomes a marked gap.
absl::Status CopyPieces(const std::string& path, LogStreamFile& log) {
  ASSIGN_OR_RETURN(const common::UniqueFd data, OpenOld(path));
  ASSIGN_OR_RETURN(const common::UniqueFd index, OpenOld(path + ".idx"));
  for (uint64_t from = 0;; from += kRecordsPerRead * kIndexRecordBytes) {
    ASSIGN_OR_RETURN(const std::string records,
                     common::ReadAt(index.get(), from, kRecordsPerRead * kIndexRecordBytes, path));
    for (size_t at = 0; at + kIndexRecordBytes <= records.size(); at += kIndexRecordBytes) {
      const auto piece = DecodePiece(std::string_view(records).substr(at, kIndexRecordBytes));
      if (!piece.has_value() || piece->offset < log.Written()) continue;
      ASSIGN_OR_RETURN(const std::string body,
                       common::ReadAt(data.get(), piece->offset, piece->length, path));
      if (body.size() != piece->length || common::Crc32c(body) != piece->data_crc) continue;
      RETURN_IF_ERROR(log.File().Append({{.offset = piece->offset,
                                          .dropped = piece->dropped,
                                          .time_us = piece->time_us,
                                          .end = (piece->flags & 1) != 0,
                                          .body = body}}));
      if (log.File().HasEnd()) return log.File().Sync();
    }
    if (records.size() < kRecordsPerRead * kIndexRecordBytes) return log.File().Sync();
  }
}

absl::Status CopyBatches(const std::string& path, MetricStreamFile& metrics) {
  ASSIGN_OR_RETURN(const common::UniqueFd fd, OpenOld(path));
  v1::MetricBatch batch;
  for (uint64_t at = 0;;) {
    ASSIGN_OR_RETURN(const std::string head,
                     common::ReadAt(fd.get(), at, kMetricHeaderBytes, path));
    uint32_t header[2] = {0, 0};
    if (head.size() == kMetricHeaderBytes) std::memcpy(header, head.data(), sizeof header);
    if (header[0] == 0 || header[0] > kMetricRecordBytesMax) break;
    ASSIGN_OR_RETURN(const std::string body,
                     common::ReadAt(fd.get(), at + kMetricHeaderBytes, header[0], path));
    if (body.size() != header[0]) break;
    if (common::Crc32c(body) == header[1] && batch.ParseFromString(body)) {
      RETURN_IF_ERROR(metrics.Append(batch));
    }
    at += kMetricHeaderBytes + header[0];
  }
  return metrics.File().Sync();
}

// Converts the stream whose files begin with `base`. The old files are removed only once all of it
// is copied.
template <typename Copy>
absl::Status ConvertStream(const std::string& base, const std::vector<std::string>& old,
                           const Copy& copy) {
  // Remove what an interrupted conversion left.
  const SegmentFiles files(base);
  if (unlink(files.At(0).c_str()) != 0 && errno != ENOENT) {
    return common::ErrnoStatus(StrCat("cannot replace ", files.At(0)));
  }
  RETURN_IF_ERROR(common::RemoveTree(files.DirectoryOfOthers()));
  RETURN_IF_ERROR(copy());
  const std::string directory = base.substr(0, base.rfind('/'));
  RETURN_IF_ERROR(common::SyncDirectory(directory));
  for (const std::string& path : old) {
    if (unlink(path.c_str()) != 0) return common::ErrnoStatus(StrCat("cannot remove ", path));
  }
  return common::SyncDirectory(directory);
}

absl::Status ConvertLog(const Paths& paths, const LogKey& key) {
  const std::string base = paths.LogStream(key);
  return ConvertStream(base, {base + ".idx", base}, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(LogStreamFile log, LogStreamFile::Open(paths, key));
    return CopyPieces(base, log);
  });
}

absl::Status ConvertMetrics(const Paths& paths, uint64_t job, uint32_t attempt) {
  const std::string base = paths.MetricStream(job, attempt);
  return ConvertStream(base, {base + ".mseg"}, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(MetricStreamFile metrics, MetricStreamFile::Open(paths, job, attempt));
    return CopyBatches(base + ".mseg", metrics);
  });
}

// Calls `each` for every entry named NUMBER plus `suffix`. A missing directory counts as empty.
template <typename Each>
absl::Status ForEachNumber(const std::string& directory, absl::string_view suffix,
                           const Each& each) {
  const auto names = common::ListDirectory(directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    absl::string_view number = name;
    uint64_t value = 0;
    if (!absl::ConsumeSuffix(&number, suffix) || !absl::SimpleAtoi(number, &value)) continue;
    RETURN_IF_ERROR(each(value));
  }
  return absl::OkStatus();
}

absl::Status ConvertLogsOf(const Paths& paths, uint64_t job, uint32_t attempt, uint64_t& streams) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   common::ListDirectory(paths.LogDirectory(job, attempt)));
  LogKey key{.job = job, .attempt = attempt};
  for (const std::string& name : names) {
    if (!absl::EndsWith(name, ".idx")) continue;
    if (!ParseStreamName(std::string_view(name).substr(0, name.size() - 4), &key)) continue;
    RETURN_IF_ERROR(ConvertLog(paths, key));
    ++streams;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ConvertOlderFormat(const Paths& paths) {
  const std::vector<int64_t> format = ReadNumbers(paths.Format(), 1);
  if (!format.empty() && format[0] == kFormat) return absl::OkStatus();
  if (!format.empty() && format[0] > kFormat) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1603",
         .what = StrCat(paths.Format(), " names format ", format[0]),
         .why = StrCat("this muster-coordinator knows formats up to ", kFormat),
         .fix = "start the newer version, or name another --data-dir"});
  }
  uint64_t streams = 0;
  RETURN_IF_ERROR(ForEachNumber(paths.LogRoot(), "", [&](uint64_t job) {
    return ForEachNumber(paths.LogDirectory(job), "", [&](uint64_t attempt) {
      return ConvertLogsOf(paths, job, static_cast<uint32_t>(attempt), streams);
    });
  }));
  RETURN_IF_ERROR(ForEachNumber(paths.MetricRoot(), "", [&](uint64_t job) {
    return ForEachNumber(paths.MetricDirectory(job), ".mseg", [&](uint64_t attempt) {
      ++streams;
      return ConvertMetrics(paths, job, static_cast<uint32_t>(attempt));
    });
  }));
  if (streams > 0) {
    common::LogInfo(StrCat("converted logs and metrics of an older version streams=", streams));
  }
  // If this file gets lost, the next start checks again and finds nothing to convert.
  return WriteNumbers(paths.Format(), {kFormat});
}

}  // namespace muster::coordinator
