// event_tailer: scan, adopt, read on.
#include "worker/event_tailer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/files.h"
#include "common/shim_protocol.h"
#include "common/strings.h"
#include "common/text.h"
#include "worker/event_file.h"

namespace muster::worker {
namespace {

constexpr int kDepthMax = 5;
constexpr size_t kFilesMax = 1'000;
constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kReadBytesMax = 80
                                 << 20;  // one record (an image, a graph) may be larger than a pass
constexpr size_t kSourceBytesMax = 512;
constexpr int64_t kClockSlackMs = 2'000;

std::string ReadSome(const std::string& path, uint64_t offset, size_t size) {
  common::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return "";
  std::string bytes(size, '\0');
  const ssize_t count = pread(fd.get(), bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

}  // namespace

int64_t PidInEventFileName(const std::string& name) {
  // From the end, because a host name may hold dots: [.<suffix>] .<n> .<pid>; the pid is followed
  // by one number.
  std::vector<std::string> parts;
  size_t at = 0;
  while (at <= name.size()) {
    const size_t dot = std::min(name.find('.', at), name.size());
    parts.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  for (size_t i = parts.size(); i-- > 4;) {
    int64_t pid = 0;
    const std::string& text = parts[i - 1];
    const bool number =
        !parts[i].empty() && parts[i].find_first_not_of("0123456789") == std::string::npos;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (number && parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) return pid;
  }
  return 0;
}

EventTailer::EventTailer(AttemptKey key, std::vector<TailRoot> roots, int64_t since_ms,
                         uint32_t default_rank, Doors doors)
    : key_(key),
      roots_(std::move(roots)),
      since_ms_(since_ms),
      default_rank_(default_rank),
      doors_(std::move(doors)) {}

bool EventTailer::Scan() {
  for (const TailRoot& root : roots_) Find(root, "", 0);
  bool more = false;
  for (auto& [path, file] : files_) {
    if (!file.ignored) more |= Read(file);
  }
  return more;
}

void EventTailer::Find(const TailRoot& root, const std::string& relative, int depth) {
  const std::string directory = relative.empty() ? root.path : root.path + "/" + relative;
  DIR* listing = opendir(directory.c_str());
  if (listing == nullptr) return;
  std::vector<std::string> below;
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string child = relative.empty() ? name : relative + "/" + name;
    if (entry->d_type == DT_DIR) below.push_back(child);
    if (entry->d_type == DT_REG && name.find("tfevents") != std::string::npos) Adopt(root, child);
  }
  closedir(listing);
  if (depth >= kDepthMax) return;
  for (const std::string& child : below) Find(root, child, depth + 1);
}

void EventTailer::Adopt(const TailRoot& root, const std::string& relative) {
  const std::string path = root.path + "/" + relative;
  if (files_.count(path) > 0 || files_.size() >= kFilesMax) return;
  File file;
  file.path = path;
  file.source = root.prefix + relative;
  if (file.source.size() > kSourceBytesMax || !common::IsCleanUtf8(file.source)) {
    file.ignored = true;
  } else if (root.shared) {
    // The first record says when the file began; until it is there, look again later.
    const auto first = ReadEventRecord(ReadSome(path, 0, 4096));
    if (!first.ok() || !*first) return;
    const int64_t began_ms = static_cast<int64_t>((*first)->event.wall_time * 1000);
    file.ignored = began_ms + kClockSlackMs < since_ms_ || !IsOurs(path);
  }
  if (!file.ignored) {
    const auto [offset, rank] = doors_.known(file.source);
    file.offset = offset;
    auto by_pid = ranks_.find(PidInEventFileName(relative));
    file.rank = rank >= 0                ? static_cast<uint32_t>(rank)
                : by_pid != ranks_.end() ? by_pid->second
                                         : default_rank_;
  }
  files_.emplace(path, std::move(file));
}

// Two jobs may share a working directory: a living writer that carries another attempt's mark is
// not ours.
bool EventTailer::IsOurs(const std::string& path) const {
  const int64_t pid = PidInEventFileName(path.substr(path.rfind('/') + 1));
  if (pid <= 0) return true;
  const absl::StatusOr<std::string> env =
      common::ReadFile(common::StrCat("/proc/", pid, "/environ"), 4 << 20);
  if (!env.ok()) return true;
  const size_t mark = env->find(common::StrCat(common::kMarkVariable, "="));
  if (mark == std::string::npos) return true;
  const std::string ours = KeyText(key_) + "-";
  return env->compare(env->find('=', mark) + 1, ours.size(), ours) == 0;
}

bool EventTailer::Read(File& file) {
  struct stat info {};
  if (stat(file.path.c_str(), &info) != 0 || static_cast<uint64_t>(info.st_size) <= file.offset) {
    return false;
  }
  size_t want = kReadBytes;
  while (true) {
    const std::string bytes = ReadSome(file.path, file.offset, want);
    size_t used = 0;
    while (true) {
      const auto record = ReadEventRecord(std::string_view(bytes).substr(used));
      if (!record.ok()) {
        doors_.note(common::StrCat("event file left job=", key_.job, " attempt=", key_.attempt,
                                   " file=", file.path, " offset=", file.offset, " reason=\"",
                                   std::string(record.status().message()), "\""));
        file.ignored = true;
        return false;
      }
      if (!*record) break;
      const EventRecord& event = (*record)->event;
      v1::MetricBatch batch;
      batch.set_source(file.source);
      batch.set_seq(file.offset + (*record)->bytes);
      for (const Scalar& scalar : event.scalars) {
        if (scalar.tag.size() > 256 || !common::IsCleanUtf8(scalar.tag)) continue;
        v1::MetricPoint* point = batch.add_points();
        point->set_name(scalar.tag);
        point->set_step(event.step);
        point->set_value(scalar.value);
        point->set_time_ms(static_cast<int64_t>(event.wall_time * 1000));
      }
      if (batch.points_size() > 0 && !doors_.batch(file.rank, std::move(batch))) return true;
      used += (*record)->bytes;
      file.offset += (*record)->bytes;
    }
    if (used > 0) return bytes.size() == want;
    // A partial last record waits; one larger than this pass needs a longer one.
    if (bytes.size() < want || want >= kReadBytesMax) return false;
    want = std::min(want * 4, kReadBytesMax);
  }
}

}  // namespace muster::worker
