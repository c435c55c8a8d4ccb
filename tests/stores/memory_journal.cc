#include "tests/stores/memory_journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/owner.h"

namespace muster::coordinator {

MemoryJournal::MemoryJournal(std::shared_ptr<MemoryTables> tables) : tables_(std::move(tables)) {
  std::lock_guard lock(tables_->mutex);
  epoch_ = ++tables_->epoch;
}

std::string MemoryJournal::ClusterId() const {
  return absl::StrFormat("%016x", reinterpret_cast<uintptr_t>(tables_.get()));
}

absl::Status MemoryJournal::Replay(const ReplayCallbacks& sink) {
  std::lock_guard lock(tables_->mutex);
  const uint64_t after = tables_->snapshot.has_value() ? tables_->snapshot->seq() : 0;
  if (tables_->snapshot.has_value()) RETURN_IF_ERROR(sink.snapshot(*tables_->snapshot));
  for (auto event = tables_->events.upper_bound(after); event != tables_->events.end(); ++event) {
    RETURN_IF_ERROR(sink.event(event->second));
  }
  return absl::OkStatus();
}

void MemoryJournal::Append(JournalRecord record) {
  const size_t bytes = PendingBytesOf(record);
  pending_bytes_ += bytes;
  {
    std::lock_guard lock(mutex_);
    if (!is_started_) {
      early_.emplace_back(std::move(record), bytes);
      return;
    }
  }
  Post(std::move(record), bytes);
}

void MemoryJournal::Start(JournalCallbacks observer) {
  observer_ = std::move(observer);
  std::lock_guard lock(mutex_);
  is_started_ = true;
  for (auto& [record, bytes] : std::exchange(early_, {})) Post(std::move(record), bytes);
}

void MemoryJournal::Post(JournalRecord record, size_t bytes) {
  thread_.Post([this, record = std::move(record), bytes] { Commit(record, bytes); });
}

void MemoryJournal::Commit(const JournalRecord& record, size_t bytes) {
  if (!failure_.ok()) return;
  failure_ = Write(record);
  pending_bytes_ -= bytes;
  failure_.ok() ? observer_.durable(record.turn) : observer_.failed(failure_);
}

absl::Status MemoryJournal::Write(const JournalRecord& record) {
  std::lock_guard lock(tables_->mutex);
  if (tables_->epoch != epoch_) return absl::AbortedError("another one has taken over");
  if (record.events != nullptr) {
    for (const v1::Event& event : *record.events) {
      tables_->events[event.seq()] = event;
      if (event.has_job_removed()) tables_->removed.insert(event.job());
    }
  }
  if (record.facts != nullptr) Carry(*record.facts);
  if (record.snapshot == nullptr) return absl::OkStatus();
  tables_->snapshot = *record.snapshot;
  std::erase_if(tables_->events, [&](const auto& event) {
    return event.first <= record.snapshot->seq() && tables_->removed.contains(event.second.job());
  });
  std::set<uint64_t> later;
  for (auto event = tables_->events.upper_bound(record.snapshot->seq());
       event != tables_->events.end(); ++event) {
    later.insert(event->second.job());
  }
  std::erase_if(tables_->removed, [&](uint64_t job) { return !later.contains(job); });
  return absl::OkStatus();
}

void MemoryJournal::Carry(const TurnFacts& facts) {
  for (const FinishedJob& job : facts.finished) {
    const auto known = tables_->jobs.find(job.record->id());
    const int64_t lived_ms = known == tables_->jobs.end() ? facts.lived_ms : known->second.lived_ms;
    tables_->jobs[job.record->id()] = {*job.record, job.summary, lived_ms};
  }
  for (const uint64_t job : facts.removed_jobs) tables_->jobs.erase(job);
}

absl::Status MemoryJournal::Stop() {
  thread_.Stop();
  return failure_;
}

absl::Status MemoryJobIndex::Keys(const KeySink& sink) {
  std::lock_guard lock(tables_->mutex);
  for (const auto& [id, row] : tables_->jobs) {
    const v1::JobRecord& job = row.record;
    if (!job.idempotency_key().empty())
      sink(OwnerKey(job), job.idempotency_key(), id, job.spec_hash());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::JobRecord>> MemoryJobIndex::Find(uint64_t id) {
  std::lock_guard lock(tables_->mutex);
  const auto job = tables_->jobs.find(id);
  if (job == tables_->jobs.end()) return std::optional<v1::JobRecord>();
  return std::optional<v1::JobRecord>(job->second.record);
}

absl::StatusOr<std::optional<v1::JobRecord>> MemoryJobIndex::FindIdentity(uint64_t id) {
  auto found = Find(id);
  if (!found.ok() || !found->has_value()) return found;
  v1::JobRecord identity;
  identity.set_id(id);
  identity.set_name((*found)->name());
  identity.set_owner((*found)->owner());
  identity.set_owner_id((*found)->owner_id());
  identity.set_idempotency_key((*found)->idempotency_key());
  identity.set_state((*found)->state());
  return std::optional(std::move(identity));
}

absl::StatusOr<std::optional<uint64_t>> MemoryJobIndex::FindNamed(const std::string& name) {
  std::lock_guard lock(tables_->mutex);
  for (const auto& [id, row] : tables_->jobs) {
    if (row.record.name() == name) return std::optional<uint64_t>(id);
  }
  return std::optional<uint64_t>();
}

absl::StatusOr<std::vector<uint64_t>> MemoryJobIndex::FindLabeled(const std::string& label) {
  std::lock_guard lock(tables_->mutex);
  std::vector<uint64_t> found;
  for (const auto& [id, row] : tables_->jobs) {
    if (row.record.name() == label + "-" + std::to_string(id) && found.size() < 2) {
      found.push_back(id);
    }
  }
  return found;
}

absl::StatusOr<std::vector<JobIndex::NamedJob>> MemoryJobIndex::FindPrefix(
    const std::string& prefix, uint32_t limit) {
  std::lock_guard lock(tables_->mutex);
  std::map<std::string, uint64_t> by_name;
  for (const auto& [id, row] : tables_->jobs) {
    if (!prefix.empty() && row.record.name().starts_with(prefix)) by_name[row.record.name()] = id;
  }
  std::vector<NamedJob> found;
  for (const auto& [name, id] : by_name) {
    if (found.size() < limit) found.push_back({id, name});
  }
  return found;
}

absl::StatusOr<uint64_t> MemoryJobIndex::Newest(const std::string& owner_key) {
  std::lock_guard lock(tables_->mutex);
  uint64_t newest = 0;
  for (const auto& [id, row] : tables_->jobs) {
    if (OwnerKey(row.record) == owner_key) newest = id;
  }
  return newest;
}

absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> MemoryJobIndex::Owners() {
  std::lock_guard lock(tables_->mutex);
  std::vector<std::pair<uint64_t, std::string>> owners;
  for (const auto& [id, row] : tables_->jobs) owners.emplace_back(id, OwnerKey(row.record));
  return owners;
}

absl::StatusOr<std::vector<v1::JobSummary>> MemoryJobIndex::List(const Filter& filter) {
  std::lock_guard lock(tables_->mutex);
  std::vector<v1::JobSummary> found;
  for (auto job = tables_->jobs.rbegin(); job != tables_->jobs.rend(); ++job) {
    const v1::JobRecord& record = job->second.record;
    const bool is_wanted = filter.states.empty() ||
                           std::find(filter.states.begin(), filter.states.end(), record.state()) !=
                               filter.states.end();
    if (!is_wanted || (filter.before_id != 0 && job->first >= filter.before_id)) continue;
    if (!filter.owner.empty() && record.owner() != filter.owner) continue;
    if (!filter.owner_key.empty() && OwnerKey(record) != filter.owner_key) continue;
    if (!job::MeetsLabelTerms(record.spec().labels(), filter.labels)) continue;
    const std::string& project = record.spec().project();
    if (!filter.project.empty() && filter.project != (project.empty() ? "default" : project)) {
      continue;
    }
    if (record.name().find(filter.name_has) == std::string::npos) continue;
    if (record.finished_ms() < filter.finished_since_ms || found.size() >= filter.limit) continue;
    found.push_back(job->second.summary);
  }
  return found;
}

absl::StatusOr<std::vector<v1::Event>> MemoryJobIndex::Events(const EventRange& range) {
  std::lock_guard lock(tables_->mutex);
  std::vector<v1::Event> found;
  for (const auto& [seq, event] : tables_->events) {
    if (seq <= range.after || seq > range.until) continue;
    if (range.job != 0 && event.job() != range.job) continue;
    if (range.node.empty() || event.node() == range.node) found.push_back(event);
  }
  if (range.bytes > 0) {
    size_t bytes = 0;
    const auto full = std::find_if(found.begin(), found.end(), [&](const v1::Event& event) {
      return std::exchange(bytes, bytes + event.ByteSizeLong()) >= range.bytes;
    });
    found.erase(full, found.end());
    if (found.size() > range.newest) found.resize(range.newest);
  }
  if (found.size() > range.newest) found.erase(found.begin(), found.end() - range.newest);
  return found;
}

absl::StatusOr<uint64_t> MemoryJobIndex::BeforeNewest(const EventRange& range) {
  EventRange newest = range;
  newest.bytes = 0;
  ASSIGN_OR_RETURN(const std::vector<v1::Event> found, Events(newest));
  return found.size() < range.newest ? range.after : found.front().seq() - 1;
}

absl::StatusOr<FinishedCounts> MemoryJobIndex::CountFinished(int64_t ended_before_ms,
                                                             int64_t ended_after_ms) {
  std::lock_guard lock(tables_->mutex);
  FinishedCounts counts;
  for (const auto& [id, row] : tables_->jobs) {
    ++counts.all;
    counts.aged += row.lived_ms < ended_before_ms ? 1 : 0;
    counts.arrived += row.lived_ms > ended_after_ms ? 1 : 0;
  }
  return counts;
}

absl::StatusOr<std::vector<RemoveInput::Job>> MemoryJobIndex::Oldest(uint32_t count) {
  std::lock_guard lock(tables_->mutex);
  std::map<std::pair<int64_t, uint64_t>, const v1::JobRecord*> by_age;
  for (const auto& [id, row] : tables_->jobs) by_age[{row.lived_ms, id}] = &row.record;
  std::vector<RemoveInput::Job> found;
  for (const auto& [age, job] : by_age) {
    if (found.size() >= count) break;
    found.push_back({.id = job->id(),
                     .name = job->name(),
                     .owner = job->owner(),
                     .idempotency_key = job->idempotency_key(),
                     .owner_id = job->owner_id()});
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> MemoryJobIndex::Referenced(
    const std::vector<std::string>& blobs) {
  std::set<std::string> known;
  {
    std::lock_guard lock(tables_->mutex);
    for (const auto& [id, row] : tables_->jobs) {
      ForEachSaved(row.record, [&](const v1::Checkpoint& checkpoint) {
        for (const v1::CheckpointFile& file : checkpoint.files()) known.insert(file.sha256());
      });
    }
  }
  std::vector<std::string> referenced;
  for (const std::string& blob : blobs) {
    if (known.contains(blob)) referenced.push_back(blob);
  }
  return referenced;
}

absl::StatusOr<std::vector<std::string>> MemoryJobIndex::BlobsOf(uint64_t job) {
  ASSIGN_OR_RETURN(const std::optional<v1::JobRecord> record, Find(job));
  std::set<std::string> blobs;
  if (!record.has_value()) return std::vector<std::string>();
  ForEachSaved(*record, [&](const v1::Checkpoint& checkpoint) {
    for (const v1::CheckpointFile& file : checkpoint.files()) blobs.insert(file.sha256());
  });
  return std::vector<std::string>(blobs.begin(), blobs.end());
}

absl::StatusOr<bool> MemoryJobIndex::HasCode(const CodeName& code) {
  std::lock_guard lock(tables_->mutex);
  return std::any_of(tables_->jobs.begin(), tables_->jobs.end(), [&](const auto& job) {
    const v1::JobSpec& spec = job.second.record.spec();
    return spec.has_code() && CodeNameOf(spec) == code;
  });
}

}  // namespace muster::coordinator
