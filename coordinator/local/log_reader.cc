#include "coordinator/local/log_reader.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/segments/files.h"

namespace muster::coordinator {
namespace {

// The directory's entries; none if it does not exist.
absl::StatusOr<std::vector<std::string>> ListIfThere(const std::string& directory) {
  absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(directory);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

}  // namespace

bool ParseStreamName(std::string_view stream, LogKey* key) {
  absl::string_view name = common::ToAbsl(stream);
  if (!absl::ConsumePrefix(&name, "rank-")) return false;
  key->stream = v1::LOG_STREAM_STDOUT;
  if (absl::ConsumeSuffix(&name, ".stderr")) {
    key->stream = v1::LOG_STREAM_STDERR;
  } else if (!absl::ConsumeSuffix(&name, ".stdout")) {
    return false;
  }
  return absl::SimpleAtoi(name, &key->rank);
}

absl::Status LocalLogReader::AddStreamsOf(uint64_t job, uint32_t attempt,
                                          std::vector<LogKey>& keys) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListIfThere(paths_.LogDirectory(job, attempt)));
  LogKey key{.job = job, .attempt = attempt};
  for (const std::string& name : names) {
    if (ParseStreamName(SegmentBase(name), &key)) keys.push_back(key);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LogKey>> LocalLogReader::Streams(uint64_t job,
                                                            std::optional<uint32_t> only) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(paths_.LogDirectory(job)));
  std::vector<LogKey> keys;
  for (const std::string& name : names) {
    uint32_t attempt = 0;
    if (!absl::SimpleAtoi(name, &attempt) || attempt != only.value_or(attempt)) continue;
    RETURN_IF_ERROR(AddStreamsOf(job, attempt, keys));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

std::shared_ptr<const StreamSegments> LocalLogReader::SegmentsOf(const LogKey& key) const {
  return std::make_shared<const SegmentFiles>(paths_.LogStream(key));
}

}  // namespace muster::coordinator
