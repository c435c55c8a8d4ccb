// Sources of the formats: Documentation/networking/proc_net_tcp.rst of Linux, proc_pid_maps(5).
#include "worker/sampling/rank_meeting.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/files/plain_files.h"
#include "common/text/strings.h"
#include "worker/sampling/descriptors.h"

namespace muster::worker {
namespace {

constexpr std::string_view kListens = "0A";
constexpr std::string_view kEstablished = "01";
constexpr size_t kInodeColumn = 9;

uint32_t PortOf(std::string_view address) {
  uint32_t port = 0;
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return 0;
  const std::string_view digits = address.substr(colon + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), port, 16);
  return port;
}

// The number in "socket:[4711]"; 0: not a socket.
uint64_t SocketOf(std::string_view target) {
  constexpr std::string_view kSocket = "socket:[";
  uint64_t inode = 0;
  if (!target.starts_with(kSocket)) return inode;
  target.remove_prefix(kSocket.size());
  std::from_chars(target.data(), target.data() + target.size(), inode);
  return inode;
}

bool IsSharedAndWritable(absl::string_view permissions) {
  return permissions.size() == 4 && permissions[1] == 'w' && permissions[3] == 's';
}

// The kernel shows unnamed shared memory as /dev/zero.
bool IsOfDevice(absl::string_view path) {
  return absl::StartsWith(path, "/dev/") && !absl::StartsWith(path, "/dev/shm/") &&
         !absl::StartsWith(path, "/dev/zero");
}

}  // namespace

uint32_t SocketRow::LocalPort() const { return PortOf(local); }
uint32_t SocketRow::RemotePort() const { return PortOf(remote); }

std::vector<SocketRow> ParseSockets(std::string_view text) {
  std::vector<SocketRow> rows;
  for (const absl::string_view line : absl::StrSplit(common::ToAbsl(text), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    if (words.size() <= kInodeColumn) continue;
    SocketRow row{.local = std::string(words[1]), .remote = std::string(words[2])};
    row.listens = words[3] == common::ToAbsl(kListens);
    row.connected = words[3] == common::ToAbsl(kEstablished);
    if (!absl::SimpleAtoi(words[kInodeColumn], &row.inode)) continue;
    if (row.listens || row.connected) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> ParseSharedMemory(std::string_view maps) {
  std::vector<std::string> files;
  for (const absl::string_view line : absl::StrSplit(common::ToAbsl(maps), '\n')) {
    // ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    if (words.size() < 6 || !IsSharedAndWritable(words[1]) || IsOfDevice(words[5])) continue;
    if (words[4] != "0") files.push_back(common::StrCat(words[3], " ", words[4]));
  }
  return files;
}

void RankMeeting::Look(const Processes& processes) {
  const uint32_t look = looks_++;
  if (is_seen_ || processes.empty()) return;
  if (look >= kLooksOften && look % kThenEvery != 0) return;
  std::vector<SocketRow> rows;
  // The ranks' network namespace may differ from this process's.
  const std::string net = common::StrCat(proc_, "/", processes.front().second, "/net/");
  for (const char* table : {"tcp", "tcp6"}) {
    std::string text;
    if (!common::ReadSmallFile(net + table, &text, kTableBytesMax)) continue;
    for (SocketRow& row : ParseSockets(text)) rows.push_back(std::move(row));
  }
  is_seen_ = std::any_of(rows.begin(), rows.end(), [this](const SocketRow& row) {
    return row.listens ? row.LocalPort() == master_port_
                       : row.LocalPort() == master_port_ || row.RemotePort() == master_port_;
  });
  is_seen_ = is_seen_ || AreConnected(rows, processes) || ShareMemory(processes);
}

bool RankMeeting::AreConnected(const std::vector<SocketRow>& rows,
                               const Processes& processes) const {
  using Ends = std::pair<std::string_view, std::string_view>;
  std::map<Ends, uint64_t> ends;
  for (const SocketRow& row : rows) {
    if (row.connected) ends.emplace(Ends{row.local, row.remote}, row.inode);
  }
  if (ends.empty()) return false;
  std::map<uint64_t, uint32_t> rank_of;
  size_t left = kDescriptorsMax;
  for (const auto& [rank, pid] : processes) {
    const auto note = [&, rank = rank](const std::string&, const std::string& target) {
      if (const uint64_t inode = SocketOf(target); inode != 0) rank_of.emplace(inode, rank);
    };
    ForEachDescriptor(common::StrCat(proc_, "/", pid), left, note);
  }
  for (const SocketRow& row : rows) {
    const auto owner = row.connected ? rank_of.find(row.inode) : rank_of.end();
    if (owner == rank_of.end()) continue;
    const auto other = ends.find(Ends{row.remote, row.local});
    const auto peer = other == ends.end() ? rank_of.end() : rank_of.find(other->second);
    if (peer != rank_of.end() && peer->second != owner->second) return true;
  }
  return false;
}

bool RankMeeting::ShareMemory(const Processes& processes) const {
  std::map<std::string, uint32_t> rank_of;
  size_t left = kMapsBytesMax;
  for (const auto& [rank, pid] : processes) {
    std::string maps;
    if (left == 0) return false;
    if (!common::ReadSmallFile(common::StrCat(proc_, "/", pid, "/maps"), &maps, left)) continue;
    left -= std::min(left, maps.size());
    for (std::string& file : ParseSharedMemory(maps)) {
      if (rank_of.emplace(std::move(file), rank).first->second != rank) return true;
    }
  }
  return false;
}

}  // namespace muster::worker
