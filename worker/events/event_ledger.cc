// event_ledger: tab-separated fields; no path in it contains a tab.
//   muster-event-files 1 <mark>
//   old   <inode> <born> <path> <size>
//   whole                                (or "cut": there were too many to list)
//   ours  <inode> <born> <path> <start> <source>
//   other <inode> <born> <path> <start> <source>
#include "worker/events/event_ledger.h"

#include <fcntl.h>

#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/confinement/rank_account.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr char kHead[] = "muster-event-files\t1\t";
constexpr size_t kLedgerBytesMax = 64 << 20;
// limit: event files: how long ranks wait for that look
constexpr int64_t kNoteMs = 5'000;  // the ranks wait for this

std::string IdText(const FileId& id) { return StrCat(id.inode, "\t", id.born_us, "\t", id.path); }

}  // namespace

absl::Status NoteEventFiles(const std::string& ledger_path, const std::string& mark,
                            const std::vector<TailRoot>& roots) {
  std::string text = StrCat(kHead, mark, "\n");
  SearchBounds bounds;
  bounds.until_mono_ms = common::MonotonicMs() + kNoteMs;
  std::vector<TailRoot> shared;
  for (const TailRoot& root : roots) {
    if (root.shared) shared.push_back(root);
  }
  const bool whole = FindEventFiles(shared, bounds, [&text](const EventFile& file) {
    common::StrAppend(&text, "old\t", IdText(file.id), "\t", file.size, "\n");
  });
  common::StrAppend(&text, whole ? "whole\n" : "cut\n");
  const ActAsWorker own;
  ASSIGN_OR_RETURN(const common::UniqueFd file,
                   common::OpenRegular(ledger_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
  return common::WriteAll(file.get(), text);
}

EventLedger::EventLedger(std::string path) : path_(std::move(path)) {
  const absl::StatusOr<std::string> text = common::ReadFile(path_, kLedgerBytesMax);
  if (!text.ok()) return;
  std::string_view rest = *text;
  while (true) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return;
    Take(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
}

void EventLedger::Take(std::string_view line) {
  if (line.starts_with(kHead)) mark_ = line.substr(sizeof kHead - 1);
  if (line == "whole" || line == "cut") {
    noted_ = true;
    whole_ = line == "whole";
  }
  const std::vector<std::string> fields = absl::StrSplit(common::ToAbsl(line), '\t');
  FileId id;
  uint64_t number = 0;
  if (fields.size() < 5 || !absl::SimpleAtoi(fields[1], &id.inode) ||
      !absl::SimpleAtoi(fields[2], &id.born_us) || !absl::SimpleAtoi(fields[4], &number)) {
    return;
  }
  id.path = fields[3];
  if (fields[0] == "old") old_[id] = number;
  if (fields.size() < 6 || (fields[0] != "ours" && fields[0] != "other")) return;
  decided_[id] = {fields[0] == "ours", number, fields[5]};
  ++decisions_;
  if (fields[0] == "ours") sources_.insert(fields[5]);
}

int64_t EventLedger::OldSize(const FileId& id) const {
  const auto found = old_.find(id);
  return found == old_.end() ? -1 : static_cast<int64_t>(found->second);
}

const EventLedger::Entry* EventLedger::Find(const FileId& id) const {
  const auto found = decided_.find(id);
  return found == decided_.end() ? nullptr : &found->second;
}

absl::Status EventLedger::Decide(const FileId& id, Entry entry) {
  // Starts a new line even after one that a full disk truncated.
  const std::string line = StrCat(entry.ours ? "\nours\t" : "\nother\t", IdText(id), "\t",
                                  entry.start, "\t", entry.source, "\n");
  const ActAsWorker own;
  ASSIGN_OR_RETURN(const common::UniqueFd file,
                   common::OpenRegular(path_, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW));
  RETURN_IF_ERROR(common::WriteAll(file.get(), line));
  ++decisions_;
  if (entry.ours) sources_.insert(entry.source);
  decided_[id] = std::move(entry);
  return absl::OkStatus();
}

std::string EventLedger::NextSource(const std::string& name) const {
  std::string source = name;
  for (int number = 2; sources_.contains(source); ++number) source = StrCat(name, "#", number);
  return source;
}

}  // namespace muster::worker
