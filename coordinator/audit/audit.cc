#include "coordinator/audit/audit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/audit_chain.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "coordinator/audit/audit_files.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr uint64_t kRoomBytes = 256 << 10;
constexpr std::chrono::milliseconds kRetry{250};

std::string Bounded(const std::string& text) {
  std::string bounded = common::Printable(text.substr(0, Audit::kTextBytesMax));
  if (text.size() > Audit::kTextBytesMax) bounded += "…";
  return bounded;
}

// Only clean texts are written: a line is a line.
void Clean(v1::AuditEntry& entry) {
  for (std::string* text :
       {entry.mutable_who(), entry.mutable_role(), entry.mutable_from(), entry.mutable_what(),
        entry.mutable_object(), entry.mutable_result(), entry.mutable_way()}) {
    *text = Bounded(*text);
  }
}

absl::Status NoChange(std::string what) {
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1336",
       .what = std::move(what),
       .why = "a change that cannot be recorded is not made",
       .fix = "ask again in a moment; if that does not help, look at the coordinator's disk"});
}

absl::Status NotRecorded(const v1::AuditEntry& entry, const absl::Status& why) {
  return common::MakeProblem(
      absl::StatusCode::kInternal,
      {.code = "JC1344",
       .what = StrCat(entry.what(), entry.object().empty() ? "" : " ", entry.object(),
                      " was done, but could not be recorded in the audit"),
       .why = common::MessageOf(why),
       .fix =
           "look at the coordinator's disk, and at what the change has come to before you repeat "
           "it"});
}

}  // namespace

Audit::Audit(std::string directory, const common::Clock& clock, size_t queue_max)
    : directory_(std::move(directory)), clock_(clock), queue_max_(queue_max) {}

absl::Status Audit::Open() {
  if (!IsKept()) return absl::OkStatus();
  RETURN_IF_ERROR(common::MakeDirectories(directory_));
  ASSIGN_OR_RETURN(const AuditEnd end, RecoverAudit(directory_));
  if (end.cut_bytes > 0) {
    common::LogWarning(
        StrCat("the audit's unfinished end was cut bytes=", end.cut_bytes, " file=", end.path));
  }
  last_ = head_ = end.head;
  path_ = end.path;
  size_ = end.size;
  if (!path_.empty()) {
    ASSIGN_OR_RETURN(file_, common::OpenRegular(path_, O_WRONLY | O_APPEND | O_CLOEXEC));
  }
  said_ = last_.number();
  said_at_ = std::chrono::steady_clock::now();
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

Audit::Place Audit::TakePlace() {
  if (taken_->fetch_add(1) < queue_max_) {
    return Place(taken_.get(), [taken = taken_](void*) { taken->fetch_sub(1); });
  }
  taken_->fetch_sub(1);
  return nullptr;
}

absl::StatusOr<Audit::Place> Audit::Reserve() {
  if (!IsKept()) return Place();
  absl::Status stuck;
  {
    std::lock_guard lock(mutex_);
    stuck = why_stuck_;
  }
  if (!stuck.ok())
    return NoChange(StrCat("the audit cannot be written: ", common::MessageOf(stuck)));
  if (Place place = TakePlace(); place != nullptr) return place;
  return NoChange(StrCat(queue_max_, " entries wait to be written to the audit"));
}

void Audit::Record(v1::AuditEntry entry, Place place, Durable durable) {
  if (!IsKept()) {
    if (durable) durable(absl::OkStatus());
    return;
  }
  Clean(entry);
  std::unique_lock lock(mutex_);
  if (stopping_) {
    lock.unlock();
    if (durable) durable(NotRecorded(entry, absl::UnavailableError("the coordinator stops")));
    return;
  }
  is_urgent_ |= durable != nullptr;
  const bool wakes = queue_.empty() || durable != nullptr;
  queue_.push_back({std::move(entry), std::move(place), std::move(durable)});
  lock.unlock();
  if (wakes) wake_.notify_one();
}

void Audit::RecordRefused(v1::AuditEntry entry) {
  if (!IsKept()) return;
  const RefusedParty party = RefusedPartyOf(entry);
  const int64_t now_ms = clock_.Read().mono_ms;
  // Also while the disk takes none: whoever knocks now is of interest afterwards.
  Place place = TakePlace();
  std::optional<RefusalBudget::LeftOut> left_out;
  {
    std::lock_guard lock(mutex_);
    RefusalBudget& budget = party.is_stranger ? refused_strangers_ : refused_members_;
    if (place == nullptr) return budget.LeaveOut(party.name, now_ms);
    left_out = budget.Take(party.name, now_ms);
  }
  if (!left_out.has_value()) return;
  if (left_out->own + left_out->of_others > 0) {
    entry.set_result(StrCat(entry.result().substr(0, kTextBytesMax / 2), " (before this one, ",
                            left_out->own, " refusals of ", party.name, " and ",
                            left_out->of_others, " of others were not recorded)"));
  }
  Record(std::move(entry), std::move(place), nullptr);
}

v1::AuditHead Audit::head() const {
  std::lock_guard lock(mutex_);
  return head_;
}

void Audit::Stop() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  wake_.notify_one();
  if (!thread_.joinable()) return;
  thread_.join();
  SayHead();
}

bool Audit::Next(std::vector<Item>& batch) {
  std::unique_lock lock(mutex_);
  if (batch.empty()) {
    wake_.wait_for(lock, kHeadAfter, [this] { return stopping_ || !queue_.empty(); });
    wake_.wait_for(lock, kGather, [this] { return stopping_ || is_urgent_ || queue_.empty(); });
  } else {
    wake_.wait_for(lock, kRetry, [this] { return stopping_; });
  }
  is_urgent_ = false;
  std::move(queue_.begin(), queue_.end(), std::back_inserter(batch));
  queue_.clear();
  return !stopping_ || !batch.empty();
}

void Audit::Run() {
  std::vector<Item> batch;
  while (Next(batch)) {
    const absl::Status written = batch.empty() ? absl::OkStatus() : Write(batch);
    if (!batch.empty()) Answer(batch, written);
    if (written.ok()) {
      batch.clear();
    } else {
      complaints_.Warn(StrCat("the audit cannot be written: ", common::MessageOf(written)));
      std::lock_guard lock(mutex_);
      if (stopping_ && queue_.empty()) {
        common::LogError(StrCat(batch.size(), " entries of the audit are lost reason=\"",
                                common::MessageOf(written), "\""));
        return;
      }
    }
    const bool is_due =
        last_.number() >= said_ + kHeadEvery ||
        (last_.number() > said_ && std::chrono::steady_clock::now() >= said_at_ + kHeadAfter);
    if (is_due) SayHead();
  }
}

// What could not be written stays in the batch, and its change is made: whoever waits is told so.
void Audit::Answer(std::vector<Item>& batch, const absl::Status& written) {
  {
    // First: nobody who was told finds an audit that still takes changes.
    std::lock_guard lock(mutex_);
    why_stuck_ = written;
  }
  for (Item& item : batch) {
    const Durable durable = std::exchange(item.durable, nullptr);
    if (durable) durable(written.ok() ? written : NotRecorded(item.entry, written));
  }
}

absl::Status Audit::OpenNext(uint64_t first) {
  const std::string path = AuditFilePath(directory_, first);
  ASSIGN_OR_RETURN(common::UniqueFd file,
                   common::OpenRegular(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC));
  RETURN_IF_ERROR(common::SyncDirectory(directory_));
  file_ = std::move(file);
  path_ = path;
  size_ = room_until_ = 0;
  KeepRoom();
  return absl::OkStatus();
}

absl::Status Audit::CutRest() {
  if (!has_rest_) return absl::OkStatus();
  if (ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    return common::ErrnoStatus(StrCat("cannot cut ", path_, " to ", size_, " bytes"));
  }
  has_rest_ = false;
  room_until_ = 0;  // the space behind its end is free again
  return absl::OkStatus();
}

// Best effort: not every file system can.
void Audit::KeepRoom() {
  if (size_ + kRoomBytes / 2 < room_until_) return;
  const auto bytes = static_cast<off_t>(kRoomBytes);
  if (fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size_), bytes) == 0)
    room_until_ = size_ + kRoomBytes;
}

bool Audit::IsTouched() const {
  struct stat own {
  }, there{};
  if (!file_.valid() || fstat(file_.get(), &own) != 0) return false;
  if (lstat(path_.c_str(), &there) != 0) return errno == ENOENT;
  return own.st_dev != there.st_dev || own.st_ino != there.st_ino ||
         static_cast<uint64_t>(own.st_size) != size_;
}

absl::Status Audit::LeaveTouched(std::vector<Item>& batch) {
  common::Problem touched{
      .code = "JC1337",
      .what = StrCat("the audit's file ", path_, " was removed, replaced or changed"),
      .fix = "jobctl audit --verify, with a head that was kept elsewhere"};
  RETURN_IF_ERROR(OpenNext(last_.number() + 1));
  common::LogError(StrCat(common::Readable(touched), "; the audit goes on in ", path_));
  v1::AuditEntry entry;
  entry.set_who("coordinator");
  entry.set_what("audit");
  entry.set_result(std::move(touched.what));
  batch.insert(batch.begin(), {std::move(entry), nullptr, nullptr});
  return absl::OkStatus();
}

absl::Status Audit::Write(std::vector<Item>& batch) {
  RETURN_IF_ERROR(CutRest());
  if (IsTouched()) RETURN_IF_ERROR(LeaveTouched(batch));
  if (!file_.valid() || size_ >= kAuditFileBytes) {
    RETURN_IF_ERROR(OpenNext(last_.number() + 1));
  }
  v1::AuditHead last = last_;
  const int64_t now_ms = clock_.Read().wall_ms;
  std::string lines;
  for (Item& item : batch) {
    v1::AuditEntry& entry = item.entry;
    entry.set_number(last.number() + 1);
    if (entry.at_ms() == 0) entry.set_at_ms(now_ms);
    entry.set_previous(last.hash());
    entry.set_hash(common::AuditHash(entry));
    lines += AuditLine(entry);
    last.set_number(entry.number());
    last.set_hash(entry.hash());
  }
  absl::Status written = common::WriteAll(file_.get(), lines);
  if (written.ok() && fdatasync(file_.get()) != 0) {
    written = common::ErrnoStatus(StrCat("cannot sync ", path_));
  }
  if (!written.ok()) {
    // The next try begins where this one did.
    has_rest_ = true;
    if (const absl::Status cut = CutRest(); !cut.ok()) common::LogError(common::MessageOf(cut));
    return written;
  }
  size_ += lines.size();
  KeepRoom();
  last_ = last;
  std::lock_guard lock(mutex_);
  head_ = std::move(last);
  return absl::OkStatus();
}

void Audit::SayHead() {
  if (last_.number() == 0) return;
  said_ = last_.number();
  said_at_ = std::chrono::steady_clock::now();
  common::LogInfo(StrCat("audit head=", common::HeadText(last_)));
}

}  // namespace muster::coordinator
