// event_tailer: scan, adopt, read on.
#include "worker/event_tailer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
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
constexpr size_t kEntriesPerScan = 20'000;
constexpr size_t kPeekBytes = 4096;
constexpr size_t kBytesPerScan = 1 << 20;
constexpr size_t kRecordBytesRead = 256 * 1024;  // no scalar is larger: what is, is passed over
constexpr int kPassedOverPerScan = 1'000;
constexpr size_t kSourceBytesMax = 512;
constexpr size_t kTagBytesMax = 256;
constexpr int64_t kClockSlackMs = 2'000;

// Of seconds as a file says them: not a number and what no clock shows become 0.
int64_t MillisecondsOf(double seconds) {
  return std::abs(seconds) < 1e15 ? static_cast<int64_t>(seconds * 1000) : 0;
}

std::string ReadSome(int fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t count = pread(fd, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

std::string Peek(const std::string& path) {
  const auto file = common::OpenRegular(path, O_RDONLY | O_NOFOLLOW);
  return file.ok() ? ReadSome(file->get(), 0, kPeekBytes) : "";
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

void EventTailer::Rewind(const std::string& source, uint64_t offset) {
  for (auto& [path, file] : files_) {
    if (file.source == source) file.offset = offset;
  }
}

bool EventTailer::Scan() {
  Bounds bounds{kEntriesPerScan, kFilesMax, kBytesPerScan};
  for (const TailRoot& root : roots_) Find(root, "", 0, bounds);
  if (bounds.entries == 0 && !std::exchange(entries_noted_, true)) {
    doors_.note(common::StrCat(
        "not all event files are looked for job=", key_.job, " attempt=", key_.attempt,
        " reason=\"its directories hold more than ", kEntriesPerScan, " entries\""));
  }
  bool more = false;
  auto at = files_.lower_bound(turn_);
  for (size_t i = 0; i < files_.size(); ++i, ++at) {
    if (at == files_.end()) at = files_.begin();
    if (at->second.ignored || !Read(at->second, bounds)) continue;
    if (!more) turn_ = at->first;  // the first one that had to wait begins next time
    more = true;
  }
  return more;
}

void EventTailer::Find(const TailRoot& root, const std::string& relative, int depth,
                       Bounds& bounds) {
  const std::string directory = relative.empty() ? root.path : root.path + "/" + relative;
  DIR* listing = opendir(directory.c_str());
  if (listing == nullptr) return;
  std::vector<std::string> below;
  while (const dirent* entry = bounds.entries > 0 ? readdir(listing) : nullptr) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    --bounds.entries;
    const std::string child = relative.empty() ? name : relative + "/" + name;
    if (entry->d_type == DT_DIR) below.push_back(child);
    if (entry->d_type == DT_REG && name.find("tfevents") != std::string::npos) {
      Adopt(root, child, bounds);
    }
  }
  closedir(listing);
  if (depth >= kDepthMax) return;
  for (const std::string& child : below) Find(root, child, depth + 1, bounds);
}

void EventTailer::Adopt(const TailRoot& root, const std::string& relative, Bounds& bounds) {
  const std::string path = root.path + "/" + relative;
  if (files_.count(path) > 0 || files_.size() >= kFilesMax) return;
  File file;
  file.path = path;
  file.source = root.prefix + relative;
  if (file.source.size() > kSourceBytesMax || !common::IsCleanUtf8(file.source)) {
    file.ignored = true;
  } else if (root.shared) {
    if (bounds.peeks == 0) return;
    --bounds.peeks;
    // The first record says when the file began; until it is there, look again later.
    const std::string beginning = Peek(path);
    const auto first = ReadEventRecord(beginning);
    if (first.ok() && !*first && beginning.size() < kPeekBytes) return;
    const bool ours =
        first.ok() && *first &&
        (*first)->event.wall_time * 1000 + kClockSlackMs >= static_cast<double>(since_ms_) &&
        IsOurs(path);
    file.ignored = !ours;
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

void EventTailer::Leave(File& file, const absl::Status& reason) {
  doors_.note(common::StrCat("event file left job=", key_.job, " attempt=", key_.attempt,
                             " file=", file.path, " offset=", file.offset, " reason=\"",
                             std::string(reason.message()), "\""));
  file.ignored = true;
}

bool EventTailer::Read(File& file, Bounds& bounds) {
  const auto opened = common::OpenRegular(file.path, O_RDONLY | O_NOFOLLOW);
  if (!opened.ok()) return false;
  for (int passed_over = 0; passed_over < kPassedOverPerScan; ++passed_over) {
    struct stat info {};
    if (fstat(opened->get(), &info) != 0) return false;
    const uint64_t size = static_cast<uint64_t>(info.st_size);
    const std::string header = ReadSome(opened->get(), file.offset, kFrameHeaderBytes);
    if (size <= file.offset || header.size() < kFrameHeaderBytes) return false;
    const absl::StatusOr<uint64_t> frame = FrameBytes(header);
    if (!frame.ok()) {
      Leave(file, frame.status());
      return false;
    }
    if (*frame > size - file.offset) return false;  // a part of a record: later
    if (*frame > kRecordBytesRead) {
      file.offset += *frame;
      continue;
    }
    if (*frame > bounds.bytes) return true;
    const std::string bytes =
        ReadSome(opened->get(), file.offset, std::min<uint64_t>(bounds.bytes, size - file.offset));
    bounds.bytes -= std::min(bounds.bytes, bytes.size());
    if (TakeRecords(file, bytes) == 0) return !file.ignored;
  }
  return true;
}

size_t EventTailer::TakeRecords(File& file, std::string_view bytes) {
  size_t used = 0;
  while (true) {
    const auto record = ReadEventRecord(bytes.substr(used));
    if (!record.ok()) {
      Leave(file, record.status());
      return 0;
    }
    if (!*record) return used;
    const EventRecord& event = (*record)->event;
    v1::MetricBatch batch;
    batch.set_source(file.source);
    batch.set_seq(file.offset + (*record)->bytes);
    for (const Scalar& scalar : event.scalars) {
      if (scalar.tag.size() > kTagBytesMax || !common::IsCleanUtf8(scalar.tag)) continue;
      v1::MetricPoint* point = batch.add_points();
      point->set_name(scalar.tag);
      point->set_step(event.step);
      point->set_value(scalar.value);
      point->set_time_ms(MillisecondsOf(event.wall_time));
    }
    if (batch.points_size() > 0 && !doors_.batch(file.rank, std::move(batch))) return 0;
    used += (*record)->bytes;
    file.offset += (*record)->bytes;
  }
}

}  // namespace muster::worker
