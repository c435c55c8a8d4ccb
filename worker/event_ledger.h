// One attempt's memory of event files, on disk, so that a worker that comes back neither forgets
// nor counts twice: what lay in its directories before its ranks started, and what was found to
// be whose since. Lines of text; a cut last one counts for nothing. A job's thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "worker/event_search.h"

namespace muster::worker {

// Before the ranks start: what is there, and the mark of their processes.
absl::Status NoteEventFiles(const std::string& ledger_path, const std::string& mark,
                            const std::vector<TailRoot>& roots);

class EventLedger {
 public:
  struct Entry {
    bool ours = false;
    uint64_t start =
        0;  // the attempt's records begin there, or behind the record that is cut there
    std::string source;
  };

  // What cannot be read is as if it were not there.
  explicit EventLedger(std::string path);

  // What was there was noted, wholly: a file that is not known is new.
  bool whole() const { return whole_; }
  bool noted() const { return noted_; }
  const std::string& mark() const { return mark_; }
  // Its size before the ranks started; -1: it was not there.
  int64_t OldSize(const FileId& id) const;
  const Entry* Find(const FileId& id) const;
  // Kept over a crash of this process, or an error and nothing is changed.
  absl::Status Decide(const FileId& id, Entry entry);
  size_t decisions() const { return decisions_; }
  // Of a file of this name: the name itself, or that of the next one in its place.
  std::string NextSource(const std::string& name) const;

 private:
  void Take(std::string_view line);

  const std::string path_;
  bool noted_ = false;
  bool whole_ = false;
  std::string mark_;
  std::map<FileId, uint64_t> old_;
  std::map<FileId, Entry> decided_;
  std::set<std::string> sources_;  // of ours
  size_t decisions_ = 0;
};

}  // namespace muster::worker
