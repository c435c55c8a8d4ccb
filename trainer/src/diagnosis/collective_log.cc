// The ring of collectives; see collective_log.h.
#include "diagnosis/collective_log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace muster {
namespace {

pid_t thread_id() {
  // A system call, so made once per thread.
  thread_local const pid_t id = static_cast<pid_t>(::syscall(SYS_gettid));
  return id;
}

std::string seconds_text(CollectiveLog::Clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace

CollectiveLog& CollectiveLog::of_process() {
  // Never destroyed: Gloo's threads may finish a collective while the process exits.
  static auto* log = new CollectiveLog();
  return *log;
}

size_t CollectiveLog::add_group(const std::string& name, const std::vector<int>& ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_activity_ = Clock::now();
  groups_.push_back({name, ranks});
  return groups_.size() - 1;
}

void CollectiveLog::remove_group(size_t group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.at(group).removed = true;
}

uint64_t CollectiveLog::begin(size_t group, const Call& call) {
  const pid_t thread = thread_id();
  const Clock::time_point now = Clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  last_activity_ = now;
  const Entry entry = {group, ++groups_.at(group).started, call, State::started, now, now, thread};
  const uint64_t number = count_++;
  if (ring_.size() < kKept) {
    ring_.push_back(entry);
  } else {
    ring_[number % kKept] = entry;
  }
  return number;
}

void CollectiveLog::end(uint64_t number, bool success) {
  const Clock::time_point now = Clock::now();
  const std::lock_guard<std::mutex> lock(mutex_);
  last_activity_ = now;
  if (number + kKept < count_) return;
  Entry& entry = ring_[number % kKept];
  entry.state = success ? State::finished : State::failed;
  entry.end = now;
  ++groups_[entry.group].ended;
}

void CollectiveLog::set_library_trace(const std::string& name, std::function<std::string()> trace) {
  const std::lock_guard<std::mutex> lock(mutex_);
  library_traces_[name] = std::move(trace);
}

CollectiveLog::Snapshot CollectiveLog::snapshot() const {
  Snapshot snapshot;
  const std::lock_guard<std::mutex> lock(mutex_);
  snapshot.now = Clock::now();
  snapshot.groups = groups_;
  snapshot.last_activity = last_activity_;
  snapshot.library_traces = library_traces_;
  snapshot.entries.reserve(ring_.size());
  for (uint64_t number = count_ - ring_.size(); number < count_; ++number) {
    snapshot.entries.push_back(ring_[number % kKept]);
  }
  return snapshot;
}

const CollectiveLog::Entry* CollectiveLog::Snapshot::oldest_running() const {
  // Entries are in start order. Unfinished entries of a destroyed group are ignored.
  const auto running = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
    return entry.state == State::started && !groups[entry.group].removed;
  });
  return running == entries.end() ? nullptr : &*running;
}

HangCheck check_for_hang(const CollectiveLog::Snapshot& snapshot,
                         std::chrono::milliseconds patience) {
  const auto& groups = snapshot.groups;
  if (std::all_of(groups.begin(), groups.end(), [](const auto& group) { return group.removed; })) {
    return {};
  }
  const CollectiveLog::Entry* running = snapshot.oldest_running();
  const bool waits = running != nullptr;
  const auto since = waits ? running->begin : snapshot.last_activity;
  if (snapshot.now - since < patience) return {.sign = {}, .look_again = since + patience};
  const std::string time = seconds_text(snapshot.now - since);
  const std::string reason =
      waits ? describe(*running, groups[running->group]) + " has been running for " + time
            : "no collective for " + time;
  return {.sign = HangSign{since, reason}, .look_again = {}};
}

std::string describe(const CollectiveLog::Entry& entry, const CollectiveLog::Group& group) {
  char size[64];
  const auto bytes = static_cast<double>(entry.call.bytes);
  if (bytes >= 1 << 20) {
    std::snprintf(size, sizeof(size), "%.3g MiB", bytes / (1 << 20));
  } else if (bytes >= 1 << 10) {
    std::snprintf(size, sizeof(size), "%.3g KiB", bytes / (1 << 10));
  } else {
    std::snprintf(size, sizeof(size), "%d bytes", static_cast<int>(bytes));
  }
  std::string text = entry.call.operation;
  text += " #" + std::to_string(entry.sequence) + " (";
  if (entry.call.bytes > 0) text += std::string(size) + " " + entry.call.dtype + ", ";
  return text + "group " + group.name + ")";
}

}  // namespace muster
