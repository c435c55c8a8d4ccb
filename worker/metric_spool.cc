// metric_spool: append, read in order, forget what is acknowledged.
#include "worker/metric_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "common/crc32c.h"
#include "common/limits.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::worker {
namespace {

constexpr uint64_t kHeaderBytes = 8;
constexpr uint64_t kCompactBytes = 4 << 20;
constexpr size_t kInFlightMax = 1'000;

}  // namespace

MetricSpool::MetricSpool(std::string path, common::UniqueFd file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<MetricSpool> MetricSpool::Open(const std::string& path) {
  common::UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) return common::ErrnoStatus(common::StrCat("cannot open ", path));
  MetricSpool spool(path, std::move(file));
  spool.LoadAcked();
  v1::MetricBatch batch;
  uint64_t end = 0;
  while (spool.ReadAt(spool.size_, &batch, &end)) {
    spool.last_[batch.source()] = batch.seq();
    if (spool.acked_at_ == spool.size_ && batch.seq() <= spool.acked_[batch.source()]) {
      spool.acked_at_ = end;
    }
    spool.size_ = end;
  }
  spool.read_at_ = spool.acked_at_;
  if (ftruncate(spool.file_.get(), static_cast<off_t>(spool.size_)) != 0) {
    return common::ErrnoStatus(common::StrCat("cannot cut ", path));
  }
  return spool;
}

bool MetricSpool::ReadAt(uint64_t at, v1::MetricBatch* batch, uint64_t* end) const {
  uint32_t header[2] = {};
  if (pread(file_.get(), header, kHeaderBytes, static_cast<off_t>(at)) !=
      static_cast<ssize_t>(kHeaderBytes)) {
    return false;
  }
  if (header[0] > common::kBulkMessageBytesMax) return false;
  std::string bytes(header[0], '\0');
  if (pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at + kHeaderBytes)) !=
      static_cast<ssize_t>(bytes.size())) {
    return false;
  }
  if (common::Crc32c(bytes) != header[1] || !batch->ParseFromString(bytes)) return false;
  *end = at + kHeaderBytes + bytes.size();
  return true;
}

uint64_t MetricSpool::LastSeq(const std::string& source) const {
  const auto last = last_.find(source);
  const auto acked = acked_.find(source);
  return std::max(last == last_.end() ? 0 : last->second,
                  acked == acked_.end() ? 0 : acked->second);
}

absl::Status MetricSpool::Append(const v1::MetricBatch& batch) {
  const std::string bytes = batch.SerializeAsString();
  if (bytes.size() > common::kBulkMessageBytesMax) {
    return absl::InvalidArgumentError("a batch of metrics is larger than 4 MiB");
  }
  const uint32_t header[2] = {static_cast<uint32_t>(bytes.size()), common::Crc32c(bytes)};
  std::string record(reinterpret_cast<const char*>(header), kHeaderBytes);
  record += bytes;
  const ssize_t written =
      pwrite(file_.get(), record.data(), record.size(), static_cast<off_t>(size_));
  if (written != static_cast<ssize_t>(record.size())) {
    if (written >= 0) errno = ENOSPC;
    return common::ErrnoStatus(common::StrCat("cannot append to ", path_));
  }
  size_ += record.size();
  last_[batch.source()] = batch.seq();
  return absl::OkStatus();
}

std::optional<v1::MetricBatch> MetricSpool::Next() {
  if (!HasNext() || in_flight_.size() >= kInFlightMax) return std::nullopt;
  v1::MetricBatch batch;
  uint64_t end = 0;
  if (!ReadAt(read_at_, &batch, &end)) {
    DropAll();  // our own file is damaged: what is behind cannot be read
    return std::nullopt;
  }
  read_at_ = end;
  in_flight_.push_back({batch.source(), batch.seq(), end});
  return batch;
}

void MetricSpool::Rewind() {
  read_at_ = acked_at_;
  in_flight_.clear();
}

void MetricSpool::OnAck(const std::string& source, uint64_t durable_seq) {
  uint64_t& acked = acked_[source];
  acked = std::max(acked, durable_seq);
  while (!in_flight_.empty() && in_flight_.front().seq <= acked_[in_flight_.front().source]) {
    acked_at_ = in_flight_.front().end;
    in_flight_.pop_front();
  }
  MaybeCompact();
}

void MetricSpool::DropAll() {
  in_flight_.clear();
  read_at_ = acked_at_ = size_;
  MaybeCompact();
}

void MetricSpool::MaybeCompact() {
  if (!Drained()) return;
  SaveAcked();  // first what a restart has to know, then the cut
  if (size_ < kCompactBytes || ftruncate(file_.get(), 0) != 0) return;
  size_ = read_at_ = acked_at_ = 0;
}

void MetricSpool::SaveAcked() {
  std::string text;
  for (const auto& [source, seq] : acked_) common::StrAppend(&text, seq, " ", source, "\n");
  const std::string temporary = path_ + ".acked.tmp";
  common::UniqueFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid() || !common::WriteAll(file.get(), text).ok()) return;
  rename(temporary.c_str(), (path_ + ".acked").c_str());
}

void MetricSpool::LoadAcked() {
  absl::StatusOr<std::string> text = common::ReadFile(path_ + ".acked", 16 << 20);
  if (!text.ok()) return;
  size_t at = 0;
  while (at < text->size()) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const size_t blank = text->find(' ', at);
    uint64_t seq = 0;
    if (blank < end &&
        std::from_chars(text->data() + at, text->data() + blank, seq).ec == std::errc()) {
      acked_[text->substr(blank + 1, end - blank - 1)] = seq;
    }
    at = end + 1;
  }
}

}  // namespace muster::worker
