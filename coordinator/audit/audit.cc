#include "coordinator/audit/audit.h"

#include <algorithm>
#include <utility>

#include "common/audit_chain.h"
#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::chrono::milliseconds kRetry{250};

std::string Bounded(const std::string& text) {
  return common::PrintableStart(text, Audit::kTextBytesMax);
}

// Only clean texts are written: an entry always stays on one line.
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
           "look at the coordinator's disk, and check the result of the change before you repeat "
           "it"});
}

}  // namespace

Audit::Audit(std::unique_ptr<AuditStore> store, const common::Clock& clock, size_t queue_max)
    : store_(std::move(store)), clock_(clock), queue_max_(queue_max) {}

absl::Status Audit::Open() {
  if (!IsKept()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const AuditStore::End end, store_->Recover());
  if (end.cut_bytes > 0) {
    common::LogWarning(StrCat("the audit's unfinished end was cut bytes=", end.cut_bytes,
                              " file=", store_->Place()));
  }
  last_ = head_ = end.head;
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
  // Also while the disk takes no entries: attempts during that time are of interest afterwards.
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

// What could not be written stays in the batch although its change was made; the callers that wait get
// that error.
void Audit::Answer(std::vector<Item>& batch, const absl::Status& written) {
  {
    // First: no caller that got the error finds an audit that still takes changes.
    std::lock_guard lock(mutex_);
    why_stuck_ = written;
  }
  for (Item& item : batch) {
    const Durable durable = std::exchange(item.durable, nullptr);
    if (durable) durable(written.ok() ? written : NotRecorded(item.entry, written));
  }
}

// Tampering with the stored audit becomes an entry, and is logged.
void Audit::TellTouched(std::string what, std::vector<Item>& batch) {
  const common::Problem touched{
      .code = "JC1337",
      .what = what,
      .fix = "jobctl audit --verify, with a head that was kept elsewhere"};
  common::LogError(StrCat(common::Readable(touched), "; the audit continues in ", store_->Place()));
  v1::AuditEntry entry;
  entry.set_who("coordinator");
  entry.set_what("audit");
  entry.set_result(std::move(what));
  batch.insert(batch.begin(), {std::move(entry), nullptr, nullptr});
}

absl::Status Audit::Write(std::vector<Item>& batch) {
  ASSIGN_OR_RETURN(std::string touched, store_->LeaveTouched(last_.number() + 1));
  if (!touched.empty()) TellTouched(std::move(touched), batch);
  v1::AuditHead last = last_;
  const int64_t now_ms = clock_.Read().wall_ms;
  std::vector<const v1::AuditEntry*> entries;
  for (Item& item : batch) {
    v1::AuditEntry& entry = item.entry;
    entry.set_number(last.number() + 1);
    if (entry.at_ms() == 0) entry.set_at_ms(now_ms);
    entry.set_previous(last.hash());
    entry.set_hash(common::AuditHash(entry));
    entries.push_back(&entry);
    last.set_number(entry.number());
    last.set_hash(entry.hash());
  }
  RETURN_IF_ERROR(store_->Append(entries));
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
