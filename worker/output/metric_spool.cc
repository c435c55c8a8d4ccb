// metric_spool: append, read in order, forget acknowledged batches.
#include "worker/output/metric_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/hash/crc32c.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

constexpr uint64_t kHeaderBytes = 8;
constexpr uint64_t kCompactBytes = 4 << 20;
// limit: metrics: a rank's undelivered batches on a node; the trainer waits
constexpr uint64_t kFileBytesMax = 256 << 20;  // undelivered; at the limit the trainer has to wait
constexpr size_t kInFlightMax = 1'000;
constexpr size_t kAckedStepBytes = 512;

// Writes in one call, so that a killed process has written either everything or nothing.
bool Overwrite(const std::string& path, const std::string& text) {
  const absl::StatusOr<common::UniqueFd> file = common::OpenRegular(path, O_WRONLY | O_NOFOLLOW);
  return file.ok() &&
         pwrite(file->get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

}  // namespace

absl::Status MetricSpool::OpenFile() {
  if (file_.valid()) return absl::OkStatus();
  ASSIGN_OR_RETURN(file_, common::OpenRegular(path_, O_RDWR | O_CREAT | O_NOFOLLOW));
  return absl::OkStatus();
}

absl::StatusOr<MetricSpool> MetricSpool::Open(const std::string& path) {
  MetricSpool spool(path);
  RETURN_IF_ERROR(spool.OpenFile());
  RETURN_IF_ERROR(spool.LoadAcked());
  Record record;
  Window window;
  while (spool.size_ < kFileBytesMax) {
    ASSIGN_OR_RETURN(const bool is_there, spool.ReadAt(spool.size_, &record, &window));
    if (!is_there) break;
    const v1::MetricBatch& batch = record.batch;
    spool.last_[batch.source()] = batch.seq();
    if (spool.acked_at_ == spool.size_ && batch.seq() <= spool.acked_[batch.source()]) {
      spool.acked_at_ = record.end;
    }
    spool.size_ = record.end;
  }
  spool.read_at_ = spool.acked_at_;
  struct stat info {};
  if (fstat(spool.file_.get(), &info) == 0) {
    spool.damage_bytes_ = static_cast<uint64_t>(info.st_size) - spool.size_;
  }
  if (ftruncate(spool.file_.get(), static_cast<off_t>(spool.size_)) != 0) {
    return common::ErrnoStatus(common::StrCat("cannot truncate ", path));
  }
  return spool;
}

absl::StatusOr<bool> MetricSpool::ReadAt(uint64_t at, Record* record, Window* window) const {
  ASSIGN_OR_RETURN(const std::string_view first, BytesAt(at, kHeaderBytes, window));
  if (first.size() != kHeaderBytes) return false;
  uint32_t header[2] = {};
  std::memcpy(header, first.data(), kHeaderBytes);
  // A hole would read as endless records.
  if (header[0] == 0 || header[0] > common::kBulkMessageBytesMax) return false;
  ASSIGN_OR_RETURN(const std::string_view bytes, BytesAt(at + kHeaderBytes, header[0], window));
  if (bytes.size() != header[0] || common::Crc32c(bytes) != header[1] ||
      !record->batch.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return false;
  }
  record->bytes = bytes;
  record->end = at + kHeaderBytes + bytes.size();
  return true;
}

absl::StatusOr<std::string_view> MetricSpool::BytesAt(uint64_t at, size_t size,
                                                      Window* window) const {
  const bool is_inside = at >= window->at && at - window->at <= window->bytes.size() &&
                         window->bytes.size() - (at - window->at) >= size;
  if (!is_inside) {
    window->at = at;
    ASSIGN_OR_RETURN(window->bytes,
                     common::ReadAt(file_.get(), at, std::max(size, window->wanted), path_));
  }
  return std::string_view(window->bytes).substr(at - window->at, size);
}

std::map<std::string, uint64_t> MetricSpool::LastSeqs() const {
  std::map<std::string, uint64_t> seqs = acked_;
  for (const auto& [source, seq] : last_) seqs[source] = std::max(seqs[source], seq);
  return seqs;
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
  MaybeCompact();
  if (size_ + record.size() > kFileBytesMax) {
    return absl::ResourceExhaustedError(
        common::StrCat(path_, " is full: ", kFileBytesMax >> 20,
                       " MiB of metrics are waiting for the coordinator"));
  }
  RETURN_IF_ERROR(OpenFile());
  if (!has_acked_file_) RETURN_IF_ERROR(SaveAcked());
  const ssize_t written =
      pwrite(file_.get(), record.data(), record.size(), static_cast<off_t>(size_));
  if (written != static_cast<ssize_t>(record.size())) {
    if (written >= 0) errno = ENOSPC;
    const absl::Status status = common::ErrnoStatus(common::StrCat("cannot append to ", path_));
    GiveSpaceBack();
    return status;
  }
  size_ += record.size();
  last_[batch.source()] = batch.seq();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::MetricBatch>> MetricSpool::Next() {
  if (!HasNext() || in_flight_.size() >= kInFlightMax) return std::nullopt;
  RETURN_IF_ERROR(OpenFile());
  Record record;
  Window window{.wanted = 0, .at = 0, .bytes = {}};
  ASSIGN_OR_RETURN(const bool is_there, ReadAt(read_at_, &record, &window));
  if (!is_there) {
    DropAll();  // what follows cannot be read
    return std::nullopt;
  }
  read_at_ = record.end;
  in_flight_.push_back({record.batch.source(), record.batch.seq(), record.end});
  record.batch.set_encoded(record.bytes.data(), record.bytes.size());
  return std::move(record.batch);
}

void MetricSpool::Rewind() {
  read_at_ = acked_at_;
  in_flight_.clear();
}

void MetricSpool::OnAck(const std::string& source, uint64_t durable_seq) {
  uint64_t& acked = acked_[source];
  acked_changed_ |= durable_seq > acked;
  acked = std::max(acked, durable_seq);
  while (!in_flight_.empty() && in_flight_.front().seq <= acked_[in_flight_.front().source]) {
    acked_at_ = in_flight_.front().end;
    in_flight_.pop_front();
  }
  MaybeCompact();
}

void MetricSpool::DropAll() {
  damage_bytes_ += size_ - read_at_;
  in_flight_.clear();
  read_at_ = acked_at_ = size_;
  MaybeCompact();
}

void MetricSpool::MaybeCompact() {
  if (!Drained()) return;
  // First write what a restart needs to know, then truncate. On a full disk it is written later,
  // before anything is appended.
  if (!SaveAcked().ok()) return;
  if (size_ < kCompactBytes || !OpenFile().ok() || ftruncate(file_.get(), 0) != 0) return;
  size_ = read_at_ = acked_at_ = 0;
}

// Everything in the file is delivered, and others need the space.
void MetricSpool::GiveSpaceBack() {
  if (!Drained() || size_ == 0 || !SaveAcked().ok() || ftruncate(file_.get(), 0) != 0) return;
  size_ = read_at_ = acked_at_ = 0;
}

// The file has its block from the first batch on, so that it can be written in place on a full disk.
absl::Status MetricSpool::SaveAcked() {
  if (!acked_changed_ && has_acked_file_) return absl::OkStatus();
  std::string text;
  for (const auto& [source, seq] : acked_) common::StrAppend(&text, seq, " ", source, "\n");
  // Never shorter than before: numbers grow, and sources are added.
  text.append(kAckedStepBytes - 1 - text.size() % kAckedStepBytes, ' ').append("\n");
  const std::string path = path_ + ".acked";
  const absl::Status replaced = common::WriteFileAtomically(path, text);
  if (!replaced.ok() && !Overwrite(path, text)) return replaced;
  acked_changed_ = false;
  has_acked_file_ = true;
  return absl::OkStatus();
}

absl::Status MetricSpool::LoadAcked() {
  absl::StatusOr<std::string> text = common::ReadFile(path_ + ".acked", 16 << 20);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (absl::IsResourceExhausted(text.status()))  // the worker never writes so much
    return absl::DataLossError(text.status().message());
  RETURN_IF_ERROR(text.status());
  has_acked_file_ = true;
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
  return absl::OkStatus();
}

}  // namespace muster::worker
