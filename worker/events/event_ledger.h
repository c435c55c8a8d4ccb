// One attempt's record of event files, on disk, so that a restarted worker neither forgets nor
// counts twice: which files were in its directories before its ranks started, and to which attempt
// later ones belong. Lines of text; a truncated last line is ignored. A job's thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "worker/events/event_search.h"

namespace muster::worker {

// Before the ranks start: records the existing files and the mark of the attempt's processes.
absl::Status NoteEventFiles(const std::string& ledger_path, const std::string& mark,
                            const std::vector<TailRoot>& roots);

class EventLedger {
 public:
  struct Entry {
    bool ours = false;
    uint64_t start =
        0;  // the attempt's records start there, or after the record that is split there
    std::string source;
  };

  // Unreadable records are treated as absent.
  explicit EventLedger(std::string path);

  // The existing files were recorded completely: an unknown file is new.
  bool whole() const { return whole_; }
  bool noted() const { return noted_; }
  const std::string& mark() const { return mark_; }
  // Its size before the ranks started; -1: it did not exist.
  int64_t OldSize(const FileId& id) const;
  const Entry* Find(const FileId& id) const;
  // Survives a crash of this process; on error nothing is changed.
  absl::Status Decide(const FileId& id, Entry entry);
  size_t decisions() const { return decisions_; }
  // For a file of this name: the name itself, or the next one if it is taken.
  std::string NextSource(const std::string& name) const;

 private:
  void Take(std::string_view line);

  const std::string path_;
  bool noted_ = false;
  bool whole_ = false;
  std::string mark_;
  std::map<FileId, uint64_t> old_;
  std::map<FileId, Entry> decided_;
  std::set<std::string> sources_;  // of our files
  size_t decisions_ = 0;
};

}  // namespace muster::worker
