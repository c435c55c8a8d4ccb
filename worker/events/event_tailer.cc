// event_tailer: find files, decide whose they are, keep reading.
#include "worker/events/event_tailer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/clock.h"
#include "common/files/files.h"
#include "common/kernel/shim_protocol.h"
#include "common/tensorboard/event_file.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/events/event_writer.h"
#include "worker/events/open_event_files.h"

namespace muster::worker {
namespace {

// limit: event files: files of an attempt that are followed
constexpr size_t kFilesMax = 1'000;
constexpr size_t kDecisionsMax = 4'000;  // per attempt: a file may be truncated again and again
// limit: event files: read per scan; the next scan continues
constexpr size_t kBytesPerScan = 1 << 20;
constexpr size_t kRecordBytesRead = 256 * 1024;  // no scalar is larger; larger records are skipped
constexpr int kPassedOverPerScan = 1'000;
constexpr size_t kTagBytesMax = 256;
// Descriptors of ranks are looked at this often, and for at most a fiftieth of a core.
constexpr int64_t kOpenEveryMs = 1'000;
constexpr int64_t kOpenShare = 50;
constexpr int64_t kBornBeforeUs = 2'000'000;
constexpr int64_t kLastSearchMs = 250;

// For seconds from a file: NaN and values that no clock shows become 0.
int64_t MillisecondsOf(double seconds) {
  return std::abs(seconds) < 1e15 ? static_cast<int64_t>(seconds * 1000) : 0;
}

std::string ReadSome(int fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  const ssize_t count = pread(fd, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

std::string FileNameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The host name, as TensorBoard writes it into the names of event files.
std::string EventHostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

EventTailer::EventTailer(Setup setup, Callbacks callbacks)
    : setup_(std::move(setup)), host_(EventHostName()), callbacks_(std::move(callbacks)) {}

void EventTailer::SetRivals(const std::set<int64_t>& pids, bool crowded) {
  for (const int64_t pid : pids) rival_pids_.Put(pid, true);
  crowded_ = crowded;
}

void EventTailer::Rewind(const std::string& source, uint64_t offset) {
  for (auto& [id, file] : files_) {
    if (file.source == source) file.offset = offset;
  }
}

bool EventTailer::Scan(bool final) {
  if (!ledger_) ledger_.emplace(setup_.ledger_path);
  bool more = Decide(FindUndecided(final));
  size_t bytes_left = kBytesPerScan;
  bool turn_kept = false;
  auto at = files_.lower_bound(turn_);
  for (size_t i = 0; i < files_.size(); ++i, ++at) {
    if (at == files_.end()) at = files_.begin();
    if (at->second.ignored || !Read(at->first, at->second, bytes_left)) continue;
    // The first file that had to wait is first next time.
    if (!std::exchange(turn_kept, true)) turn_ = at->first;
    more = true;
  }
  return more;
}

std::vector<EventFile> EventTailer::FindUndecided(bool final) {
  std::vector<EventFile> undecided;
  const bool whole = FindEventFiles(setup_.roots, {}, [&](EventFile file) {
    if (const auto known = files_.find(file.id); known != files_.end()) {
      known->second.path = file.path;  // it may have been renamed
      return;
    }
    const bool unchanged = ledger_->OldSize(file.id) == static_cast<int64_t>(file.size);
    if (!unchanged && files_.size() + undecided.size() < kFilesMax) {
      undecided.push_back(std::move(file));
    }
  });
  if (!whole && !std::exchange(cut_noted_, true)) {
    Note("the search for event files is incomplete", setup_.roots.back().path,
         "its directories have more entries than one scan may list");
  }
  FindOpen(undecided);
  if (final) FindClosed(undecided);
  return undecided;
}

void EventTailer::FindOpen(std::vector<EventFile>& undecided) {
  const int64_t began_ms = common::MonotonicMs();
  if (ranks_.empty() || began_ms < next_open_ms_) return;
  std::set<int64_t> pids;
  for (const auto& [pid, rank] : ranks_) pids.insert(pid);
  for (const OpenEventFile& open : FindOpenEventFiles(pids)) {
    EventFile file;
    file.path = setup_.on_node ? setup_.on_node(open.path) : open.path;
    const bool is_below = !setup_.workdir.empty() && common::IsWithin(open.path, setup_.workdir);
    file.source = is_below ? open.path.substr(setup_.workdir.size() + 1) : open.path;
    file.shared = file.held = true;
    if (!IsSayable(file) || !Look(&file) || file.id.inode != open.inode) continue;
    if (files_.contains(file.id) || files_.size() + undecided.size() >= kFilesMax) continue;
    // A file that is older than the program is not its own, even if the program appends to it.
    if (file.id.born_us != 0 && file.id.born_us < open.process_started_us - kBornBeforeUs) continue;
    undecided.push_back(std::move(file));
  }
  const int64_t used_ms = common::MonotonicMs() - began_ms;
  next_open_ms_ = began_ms + std::max(kOpenEveryMs, used_ms * kOpenShare);
}

// Other jobs may work below the same directory, so that only a rank's number in the name is proof.
void EventTailer::FindClosed(std::vector<EventFile>& undecided) const {
  EventFile ledger{{}, setup_.ledger_path, "", false, 0, false};
  if (setup_.workdir.empty() || !Look(&ledger) || ledger.id.born_us == 0) return;
  const std::string workdir = setup_.on_node ? setup_.on_node(setup_.workdir) : setup_.workdir;
  const SearchBounds bounds{.until_mono_ms = common::MonotonicMs() + kLastSearchMs,
                            .hidden_directories = false};
  FindEventFiles({{workdir, "", true}}, bounds, [&](EventFile file) {
    const WriterName writer = WriterIn(FileNameIn(file.path));
    if (!ranks_.contains(writer.pid) || !IsOfHost(writer, host_)) return;
    if (file.id.born_us < ledger.id.born_us || files_.contains(file.id)) return;
    if (files_.size() + undecided.size() < kFilesMax) undecided.push_back(std::move(file));
  });
}

bool EventTailer::Decide(const std::vector<EventFile>& files) {
  std::vector<EventFile> open;
  for (const EventFile& file : files) {
    if (files_.contains(file.id)) continue;  // found under two names
    if (const EventLedger::Entry* entry = ledger_->Find(file.id); entry != nullptr) {
      Adopt(file, *entry);
    } else if (!file.shared || (file.held && ledger_->OldSize(file.id) < 0)) {
      Settle(file, true);
    } else if (!ledger_->noted()) {
      Settle(file, callbacks_.known(file.source).first > 0);  // an older worker started it
    } else if (const Whose whose = Ask(file); whose != Whose::kUnknown) {
      Settle(file, whose == Whose::kOurs);
    } else {
      open.push_back(file);
    }
  }
  bool more = false;
  const Holders holders = FindHolders(open);
  for (const EventFile& file : open) {
    if (const Whose whose = AskHolder(file, holders); whose != Whose::kUnknown) {
      Settle(file, whose == Whose::kOurs);
    } else if (waiting_.emplace(file.id, crowded_).second) {
      // The next scan will know what happened before this file was seen.
      more = true;
    } else {
      Settle(file, AloneAgainst(file));
    }
  }
  return more;
}

EventTailer::Whose EventTailer::WhoseMark(const std::string& mark) const {
  const std::string& ours = ledger_->mark();
  const bool same = ours.empty() ? mark.starts_with(KeyText(setup_.key) + "-") : mark == ours;
  return same ? Whose::kOurs : Whose::kOthers;
}

EventTailer::Whose EventTailer::Ask(const EventFile& file) const {
  const WriterName writer = WriterIn(FileNameIn(file.path));
  if (writer.pid == 0 || !IsOfHost(writer, host_)) return Whose::kUnknown;
  if (ranks_.contains(writer.pid)) return Whose::kOurs;
  bool lives = false;
  const std::string mark = MarkOf(writer.pid, &lives);
  if (lives) return WhoseMark(mark);
  return rival_pids_.Peek(writer.pid) != nullptr ? Whose::kOthers : Whose::kUnknown;
}

EventTailer::Whose EventTailer::AskHolder(const EventFile& file, const Holders& holders) const {
  if (const auto holder = holders.find(file.id); holder != holders.end()) {
    bool lives = false;
    const std::string mark = MarkOf(holder->second, &lives);
    if (lives) return WhoseMark(mark);
  }
  const WriterName writer = WriterIn(FileNameIn(file.path));
  return writer.host.empty() || IsOfHost(writer, host_) ? Whose::kUnknown : Whose::kOthers;
}

bool EventTailer::AloneAgainst(const EventFile& file) {
  const bool crowded = waiting_[file.id] || crowded_;
  waiting_.erase(file.id);
  if (setup_.sole && ledger_->whole() && !crowded) return true;
  Note("event file not counted", file.path,
       "its writer has exited, and several attempts may have written it");
  return false;
}

// Recorded first, so that a restarted worker decides the same. Otherwise the next scan tries again.
void EventTailer::Settle(const EventFile& file, bool ours) {
  const int64_t old = ledger_->OldSize(file.id);
  const bool cut = old > static_cast<int64_t>(file.size);  // its current content is new
  const EventLedger::Entry entry{ours, old < 0 || cut ? 0 : static_cast<uint64_t>(old),
                                 ledger_->NextSource(file.source)};
  if (ledger_->decisions() >= kDecisionsMax || !ledger_->Decide(file.id, entry).ok()) return;
  waiting_.erase(file.id);
  Adopt(file, entry);
}

void EventTailer::Adopt(const EventFile& found, const EventLedger::Entry& entry) {
  File& file = files_[found.id];
  file.path = found.path;
  file.name = found.source;
  file.source = entry.source;
  file.inode = found.id.inode;
  file.ignored = !entry.ours;
  if (file.ignored) return;
  const auto [known, rank] = callbacks_.known(file.source);
  file.offset = std::max(entry.start, known);
  file.aligned = entry.start == 0 || known > 0;
  const auto by_pid = ranks_.find(WriterIn(FileNameIn(file.path)).pid);
  file.rank = rank >= 0                ? static_cast<uint32_t>(rank)
              : by_pid != ranks_.end() ? by_pid->second
                                       : setup_.default_rank;
}

// It was truncated below what was read: starts over, as a separate source.
bool EventTailer::StartAgain(const FileId& id, File& file) {
  const EventLedger::Entry entry{true, 0, ledger_->NextSource(file.name)};
  if (ledger_->decisions() >= kDecisionsMax || !ledger_->Decide(id, entry).ok()) return false;
  file.source = entry.source;
  file.offset = 0;
  file.aligned = true;
  return true;
}

void EventTailer::Note(const std::string& what, const std::string& path,
                       const std::string& reason) const {
  callbacks_.note(common::StrCat(what, " job=", setup_.key.job, " attempt=", setup_.key.attempt,
                                 " file=", path, " reason=\"", reason, "\""));
}

void EventTailer::Leave(File& file, const absl::Status& reason) {
  Note("event file abandoned", file.path,
       common::StrCat("at offset ", file.offset, ": ", std::string(reason.message())));
  file.ignored = true;
}

// Its size before the ranks started may be inside a record, which is then not this attempt's.
bool EventTailer::Align(int fd, File& file, size_t& bytes_left) {
  const std::string bytes = ReadSome(fd, file.offset, bytes_left);
  bytes_left -= bytes.size();
  for (size_t at = 0; at + common::kFrameHeaderBytes <= bytes.size(); ++at) {
    file.aligned =
        common::FrameBytes(std::string_view(bytes).substr(at, common::kFrameHeaderBytes)).ok();
    if (file.aligned) return true;
    ++file.offset;
  }
  return false;
}

bool EventTailer::Read(const FileId& id, File& file, size_t& bytes_left) {
  const auto opened = common::OpenRegular(file.path, O_RDONLY | O_NOFOLLOW);
  if (!opened.ok()) return false;
  for (int passed_over = 0; passed_over < kPassedOverPerScan; ++passed_over) {
    struct stat info {};
    if (fstat(opened->get(), &info) != 0 || info.st_ino != file.inode) return false;
    const uint64_t size = static_cast<uint64_t>(info.st_size);
    if (size < file.offset && !StartAgain(id, file)) return false;
    if (!file.aligned && bytes_left < common::kFrameHeaderBytes) return size > file.offset;
    if (!file.aligned && !Align(opened->get(), file, bytes_left)) return bytes_left == 0;
    const std::string header = ReadSome(opened->get(), file.offset, common::kFrameHeaderBytes);
    if (size <= file.offset || header.size() < common::kFrameHeaderBytes) return false;
    const absl::StatusOr<uint64_t> frame = common::FrameBytes(header);
    if (!frame.ok()) {
      Leave(file, frame.status());
      return false;
    }
    if (*frame > size - file.offset) return false;  // incomplete record: later
    if (*frame > kRecordBytesRead) {
      file.offset += *frame;
      continue;
    }
    if (*frame > bytes_left) return true;
    const std::string bytes =
        ReadSome(opened->get(), file.offset, std::min<uint64_t>(bytes_left, size - file.offset));
    bytes_left -= std::min(bytes_left, bytes.size());
    if (TakeRecords(file, bytes) == 0) return !file.ignored;
  }
  return true;
}

size_t EventTailer::TakeRecords(File& file, std::string_view bytes) {
  size_t used = 0;
  while (true) {
    const auto record = common::ReadEventRecord(bytes.substr(used));
    if (!record.ok()) {
      Leave(file, record.status());
      return 0;
    }
    if (!*record) return used;
    const common::EventRecord& event = (*record)->event;
    v1::MetricBatch batch;
    batch.set_source(file.source);
    batch.set_seq(file.offset + (*record)->bytes);
    for (const common::Scalar& scalar : event.scalars) {
      if (scalar.tag.size() > kTagBytesMax || !common::IsCleanUtf8(scalar.tag)) continue;
      v1::MetricPoint* point = batch.add_points();
      point->set_name(scalar.tag);
      point->set_step(event.step);
      point->set_value(scalar.value);
      point->set_time_ms(MillisecondsOf(event.wall_time));
    }
    if (batch.points_size() > 0 && !callbacks_.batch(file.rank, std::move(batch))) return 0;
    used += (*record)->bytes;
    file.offset += (*record)->bytes;
  }
}

}  // namespace muster::worker
