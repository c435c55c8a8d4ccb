// rank_processes: first what changed in /proc, then the living members one by one.
#include "worker/sampling/rank_processes.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/text/strings.h"

namespace muster::worker {
namespace {

constexpr uint32_t kSeldomEvery = 5;  // looks between reads of memory limits and device files
constexpr int64_t kTickSlackMs = 20;  // start times are rounded down to a tick

uint64_t Rise(uint64_t before, uint64_t now) { return now > before ? now - before : 0; }

}  // namespace

RankProcesses::RankProcesses(ProcessFiles files,
                             std::function<uint64_t(const std::string&)> limit_of,
                             DeviceFiles devices)
    : files_(std::move(files)),
      limit_of_(std::move(limit_of)),
      devices_(std::move(devices)),
      ticks_per_second_(sysconf(_SC_CLK_TCK)),
      page_bytes_(static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) {}

void RankProcesses::AddRank(uint32_t rank, pid_t pid, uint64_t start_ticks) {
  ranks_[rank] = {.pid = pid, .start_ticks = start_ticks};
  foreign_.clear();  // its children may have been seen before this process was known
}

std::vector<pid_t> RankProcesses::SomePids(size_t max) const {
  std::vector<pid_t> pids;
  for (const auto& [number, rank] : ranks_) {
    if (members_.contains(rank.pid) && pids.size() < max) pids.push_back(rank.pid);
  }
  for (const auto& [pid, member] : members_) {
    if (pids.size() >= max) break;
    if (std::find(pids.begin(), pids.end(), pid) == pids.end()) pids.push_back(pid);
  }
  return pids;
}

std::vector<std::pair<uint32_t, pid_t>> RankProcesses::Members() const {
  std::vector<std::pair<uint32_t, pid_t>> all;
  all.reserve(members_.size());
  for (const auto& [pid, member] : members_) all.emplace_back(member.rank, pid);
  return all;
}

std::vector<v1::RankSample> RankProcesses::Look(int64_t now_ms) {
  if (looks_++ % kLookAgainEvery == 0) foreign_.clear();
  files_.ListPids(kPidsMax, &pids_);
  Charge(ReadMembers());
  FindNew();

  std::map<uint32_t, Used> used;
  for (auto& [pid, member] : members_) Add(member, used[member.rank]);
  charged_.clear();
  if (looks_ % kSeldomEvery == 1) FindLimitsAndDevices();

  std::vector<v1::RankSample> samples;
  const double seconds = static_cast<double>(now_ms - looked_ms_) / 1'000;
  for (auto& [number, rank] : ranks_) {
    const auto found = used.find(number);
    if (found == used.end()) continue;
    if (rank.has_sample && seconds > 0) {
      samples.push_back(SampleOf(number, rank, found->second, seconds));
    }
    rank.has_sample = true;
  }
  looked_ms_ = now_ms;
  return samples;
}

std::unordered_map<pid_t, RankProcesses::Member> RankProcesses::ReadMembers() {
  std::unordered_map<pid_t, Member> vanished;
  for (auto at = members_.begin(); at != members_.end();) {
    Member& member = at->second;
    member.before = member.now;
    if (files_.ReadStat(at->first, &member.now) &&
        member.now.start_ticks == member.before.start_ticks) {
      files_.ReadIo(at->first, &member.now);
      ++at;
      continue;
    }
    --ranks_[member.rank].members;
    vanished.insert(*at);
    at = members_.erase(at);
  }
  return vanished;
}

void RankProcesses::Charge(const std::unordered_map<pid_t, Member>& vanished) {
  for (const auto& [pid, member] : vanished) {
    pid_t parent = member.before.ppid;
    for (size_t hops = 0; hops < vanished.size() && vanished.contains(parent); ++hops) {
      parent = vanished.at(parent).before.ppid;
    }
    if (!members_.contains(parent)) continue;
    ProcessUse& charged = charged_[parent];
    charged.waited_cpu_ticks += member.before.cpu_ticks + member.before.waited_cpu_ticks;
    charged.waited_major_faults += member.before.major_faults + member.before.waited_major_faults;
    charged.read_bytes += member.before.read_bytes;
    charged.written_bytes += member.before.written_bytes;
  }
}

// A member is found as a rank's process, or through another member.
bool RankProcesses::MayFindAny() const {
  return !members_.empty() || std::any_of(ranks_.begin(), ranks_.end(), [this](const auto& rank) {
    return std::binary_search(pids_.begin(), pids_.end(), rank.second.pid);
  });
}

void RankProcesses::FindNew() {
  if (!MayFindAny()) return;  // a job that was over before the first look
  std::vector<ProcessUse> found;
  std::vector<pid_t> still_foreign;
  still_foreign.reserve(pids_.size());
  for (const pid_t pid : pids_) {
    if (members_.contains(pid)) continue;
    if (std::binary_search(foreign_.begin(), foreign_.end(), pid)) {
      still_foreign.push_back(pid);
      continue;
    }
    if (found.size() == kNewPerLookMax) continue;  // left to a later look
    ProcessUse use;
    if (files_.ReadStat(pid, &use)) found.push_back(use);
  }
  // Parents before children; within a tick the pid decides, and a second pass adopts children whose
  // pids wrapped around.
  std::sort(found.begin(), found.end(), [](const ProcessUse& a, const ProcessUse& b) {
    return std::pair(a.start_ticks, a.pid) < std::pair(b.start_ticks, b.pid);
  });
  for (int pass = 0; pass < 2; ++pass) {
    std::erase_if(found, [this](const ProcessUse& use) { return Adopt(use); });
  }
  for (const ProcessUse& use : found) still_foreign.push_back(use.pid);
  std::sort(still_foreign.begin(), still_foreign.end());
  foreign_ = std::move(still_foreign);
}

// In a session that outlived its leader there is at least one member.
bool RankProcesses::IsRoot(const Rank& rank, const ProcessUse& use) const {
  if (use.pid != rank.pid) return rank.members > 0 && use.session == rank.pid;
  return rank.start_ticks == 0 || rank.start_ticks == use.start_ticks;
}

bool RankProcesses::Adopt(const ProcessUse& use) {
  const auto parent = members_.find(use.ppid);
  auto rank = parent == members_.end() ? ranks_.end() : ranks_.find(parent->second.rank);
  if (rank == ranks_.end()) {
    rank = std::find_if(ranks_.begin(), ranks_.end(),
                        [&](const auto& each) { return IsRoot(each.second, use); });
  }
  if (rank == ranks_.end() || rank->second.members == kPerRankMax) return false;
  ++rank->second.members;
  Member member{.rank = rank->first, .before = {}, .now = use};
  files_.ReadIo(use.pid, &member.now);
  // What an older process used before it was found does not belong to this interval.
  const int64_t start_ms = static_cast<int64_t>(use.start_ticks) * 1'000 / ticks_per_second_;
  if (start_ms < looked_ms_ - kTickSlackMs) member.before = member.now;
  members_[use.pid] = member;
  return true;
}

void RankProcesses::Add(Member& member, Used& used) const {
  const ProcessUse& before = member.before;
  const ProcessUse& now = member.now;
  const auto found = charged_.find(now.pid);
  const ProcessUse charged = found == charged_.end() ? ProcessUse{} : found->second;
  used.cpu_ticks += Rise(before.cpu_ticks, now.cpu_ticks) +
                    Rise(before.waited_cpu_ticks + charged.waited_cpu_ticks, now.waited_cpu_ticks);
  used.major_faults +=
      Rise(before.major_faults, now.major_faults) +
      Rise(before.waited_major_faults + charged.waited_major_faults, now.waited_major_faults);
  used.read_bytes += Rise(before.read_bytes + charged.read_bytes, now.read_bytes);
  used.written_bytes += Rise(before.written_bytes + charged.written_bytes, now.written_bytes);
  if (now.is_zombie) return;
  ++used.processes;
  used.threads += now.threads;
  used.resident_pages += now.resident_pages;
}

// Called rarely, because a process may hold many descriptors.
void RankProcesses::FindLimitsAndDevices() {
  std::map<uint32_t, std::vector<std::string>> open;
  if (!devices_.prefix.empty()) {
    for (const auto& [pid, member] : members_) {
      for (const uint32_t number : files_.OpenNumbers(pid, devices_.prefix, kDescriptorsMax)) {
        uint32_t index = 0;
        if (!devices_.index_of(number, &index)) continue;
        open[member.rank].push_back(common::StrCat(devices_.kind, ":", index));
      }
    }
  }
  std::map<std::string, uint64_t> limits;  // ranks mostly share one
  for (auto& [number, rank] : ranks_) {
    const auto [limit, is_new] = limits.try_emplace(files_.ReadCgroups(rank.pid));
    if (is_new) limit->second = limit_of_(limit->first);
    rank.memory_limit = limit->second;
    std::vector<std::string>& devices = open[number];
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    rank.open_devices = std::move(devices);
  }
}

v1::RankSample RankProcesses::SampleOf(uint32_t number, const Rank& rank, const Used& used,
                                       double seconds) const {
  const auto per_second = [seconds](uint64_t amount) {
    return static_cast<uint64_t>(static_cast<double>(amount) / seconds);
  };
  v1::RankSample sample;
  sample.set_rank(number);
  sample.set_cpu_cores(static_cast<float>(static_cast<double>(used.cpu_ticks) /
                                          static_cast<double>(ticks_per_second_) / seconds));
  sample.set_resident_bytes(used.resident_pages * page_bytes_);
  sample.set_processes(used.processes);
  sample.set_threads(used.threads);
  sample.set_read_bytes_per_s(per_second(used.read_bytes));
  sample.set_written_bytes_per_s(per_second(used.written_bytes));
  sample.set_major_faults_per_s(
      static_cast<float>(static_cast<double>(used.major_faults) / seconds));
  for (const std::string& device : rank.open_devices) sample.add_open_devices(device);
  sample.set_memory_limit_bytes(rank.memory_limit);
  return sample;
}

}  // namespace muster::worker
