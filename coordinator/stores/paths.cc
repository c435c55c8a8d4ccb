#include "coordinator/stores/paths.h"

#include "absl/strings/numbers.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::coordinator {

using common::StrCat;

std::string Paths::LogDirectory(uint64_t job) const { return StrCat(LogRoot(), "/", job); }

std::string Paths::LogDirectory(uint64_t job, uint32_t attempt) const {
  return StrCat(LogDirectory(job), "/", attempt);
}

std::string Paths::LogStream(const LogKey& key) const {
  return StrCat(LogDirectory(key.job, key.attempt), "/rank-", key.rank,
                key.stream == v1::LOG_STREAM_STDERR ? ".stderr" : ".stdout");
}

std::string Paths::MetricDirectory(uint64_t job) const { return StrCat(MetricRoot(), "/", job); }

std::string Paths::NewestMetricsFile(uint64_t job) const {
  return StrCat(MetricDirectory(job), "/newest");
}

std::string Paths::MetricStream(uint64_t job, uint32_t attempt) const {
  return StrCat(MetricDirectory(job), "/", attempt);
}

std::string Paths::BlobDirectory(const std::string& sha256) const {
  return StrCat(BlobRoot(), "/", sha256.substr(0, 2));
}

std::string Paths::SampleDirectory(uint64_t job) const { return StrCat(Root(), "/samples/", job); }

std::string Paths::BlobFile(const std::string& sha256) const {
  return StrCat(BlobDirectory(sha256), "/", sha256);
}

std::string Paths::UploadFile(const std::string& sha256, const std::string& owner) const {
  return StrCat(UploadRoot(), "/", sha256, "@", owner, ".part");
}

std::vector<uint64_t> JobsBelow(const std::string& root) {
  std::vector<uint64_t> jobs;
  const absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(root);
  if (!names.ok()) return jobs;
  for (const std::string& name : *names) {
    uint64_t job = 0;
    if (absl::SimpleAtoi(name, &job) && name == std::to_string(job)) jobs.push_back(job);
  }
  return jobs;
}

}  // namespace muster::coordinator
