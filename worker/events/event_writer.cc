// event_writer: see the header.
#include "worker/events/event_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <string_view>

#include "common/kernel/process.h"
#include "common/kernel/shim_protocol.h"
#include "common/text/strings.h"
#include "worker/sampling/descriptors.h"

namespace muster::worker {
namespace {

constexpr int kAncestorsMax = 64;
constexpr size_t kDescriptorsMax = 200'000;  // per search
constexpr std::string_view kTag = "tfevents.";

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string_view NameIn(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

WriterName WriterIn(const std::string& file_name) {
  const size_t tag = file_name.find(kTag);
  if (tag == std::string::npos) return {};
  std::vector<std::string> parts;
  for (size_t at = tag + kTag.size(); at <= file_name.size();) {
    const size_t dot = std::min(file_name.find('.', at), file_name.size());
    parts.push_back(file_name.substr(at, dot - at));
    at = dot + 1;
  }
  if (parts.size() < 2 || !IsNumber(parts[0])) return {};
  // From the end, because a host name may contain dots; one number follows the pid.
  size_t host_end = parts.size();
  WriterName writer;
  for (size_t i = parts.size(); i-- > 3;) {
    const std::string& text = parts[i - 1];
    if (!IsNumber(parts[i]) || !IsNumber(text)) continue;
    std::from_chars(text.data(), text.data() + text.size(), writer.pid);
    host_end = i - 1;
    break;
  }
  for (size_t i = 1; i < host_end; ++i) {
    common::StrAppend(&writer.host, i == 1 ? "" : ".", parts[i]);
  }
  return writer;
}

bool IsOfHost(const WriterName& writer, const std::string& host) {
  if (writer.host == host) return true;
  return writer.pid == 0 && writer.host.starts_with(host);
}

std::string MarkOf(int64_t pid, bool* lives) {
  *lives = false;
  common::ProcessStat stat;
  for (int i = 0; i < kAncestorsMax && pid > 1 && pid <= INT_MAX; ++i) {
    if (!common::ReadProcessStat(static_cast<pid_t>(pid), &stat)) return "";
    if (i == 0 && (stat.state == 'Z' || stat.state == 'X')) return "";
    *lives = true;
    std::string mark = common::EnvironValue(stat.pid, common::kMarkVariable);
    if (!mark.empty()) return mark;
    pid = stat.ppid;
  }
  return "";
}

std::map<FileId, int64_t> FindHolders(const std::vector<EventFile>& files) {
  std::map<FileId, int64_t> holders;
  if (files.empty()) return holders;
  std::multimap<std::string_view, const EventFile*> by_name;
  for (const EventFile& file : files) by_name.emplace(NameIn(file.path), &file);
  size_t left = kDescriptorsMax;
  for (const common::ProcessStat& process : common::ListProcesses()) {
    const auto look = [&](const std::string& link, const std::string& target) {
      const auto [begin, end] = by_name.equal_range(NameIn(target));
      struct stat info {};
      // Not open for writing: a reader, like this process.
      if (begin == end || !IsOpenForWriting(link, &info)) return;
      for (auto at = begin; at != end; ++at) {
        if (at->second->id.inode == info.st_ino) holders.emplace(at->second->id, process.pid);
      }
    };
    ForEachDescriptor(common::StrCat("/proc/", process.pid), left, look);
  }
  return holders;
}

}  // namespace muster::worker
