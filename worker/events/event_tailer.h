// Finds TensorBoard event files of one attempt and turns their new records into metric batches: one
// batch per record, with the file offset after the record as seq, so that a record counts once
// across restarts. One thread at a time; a Scan blocks for directory listings and reading, both
// bounded; files take turns.
//
// In a directory that others may also write to, content from before the ranks started does not
// count (event_ledger.h). A file that grows or appears later belongs to this attempt:
//   if the process in its name is one of the ranks, or is alive and has this attempt's mark
//   if a living process that has it open for writing has the mark
//   if a rank has it open for writing, wherever it lies (open_event_files.h)
//   never if its name has another host
//   otherwise, with no process to ask, if no other attempt of this worker can have written it
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/lru_map.h"
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"
#include "worker/events/event_ledger.h"
#include "worker/events/event_search.h"

namespace muster::worker {

class EventTailer {
 public:
  struct Callbacks {
    // Where to continue in the file: the highest seq known for the source on any rank, and that
    // rank. {0, -1}: unknown.
    std::function<std::pair<uint64_t, int64_t>(const std::string& source)> known;
    // False: not taken (no space); the next scan reads the record again.
    std::function<bool(uint32_t rank, v1::MetricBatch)> batch;
    std::function<void(const std::string&)> note;
  };

  struct Setup {
    AttemptKey key;
    std::vector<TailRoot> roots;
    std::string ledger_path;
    uint32_t default_rank = 0;
    bool sole = true;          // no other node runs ranks of this attempt
    std::string workdir = {};  // names of files below it are relative to it
    // Maps a path of the ranks to this process's; empty: paths are the same.
    std::function<std::string(const std::string&)> on_node = {};
  };
  EventTailer(Setup setup, Callbacks callbacks);

  void SetPid(uint32_t rank, int64_t pid) { ranks_[pid] = rank; }
  // Since the last scan: ranks of other attempts that may write into the same directories, and
  // whether such an attempt was alive.
  void SetRivals(const std::set<int64_t>& pids, bool crowded);
  // Records of this source after `offset` were not taken after all: read them again.
  void Rewind(const std::string& source, uint64_t offset);
  // One scan, within its bounds. True if something is left to read or to decide. `final`: the ranks
  // have ended, so the working directory is searched for files that they opened, wrote and closed
  // between two scans.
  bool Scan(bool final = false);

 private:
  static constexpr size_t kRivalPidsMax = 65'536;

  struct File {
    std::string path;
    std::string name;    // of its source, at first
    std::string source;  // the name, or that of the next file with it
    uint64_t inode = 0;
    uint64_t offset = 0;
    bool aligned = false;  // a record starts at the offset
    uint32_t rank = 0;
    bool ignored = false;
  };
  enum class Whose { kOurs, kOthers, kUnknown };
  using Holders = std::map<FileId, int64_t>;

  std::vector<EventFile> FindUndecided(bool final);
  // Adds files that ranks have open elsewhere, now and then.
  void FindOpen(std::vector<EventFile>& undecided);
  // Adds files that ranks created in the working directory since the attempt began.
  void FindClosed(std::vector<EventFile>& undecided) const;
  // True if the next scan has something to decide.
  bool Decide(const std::vector<EventFile>& files);
  Whose Ask(const EventFile& file) const;
  Whose AskHolder(const EventFile& file, const Holders& holders) const;
  Whose WhoseMark(const std::string& mark) const;
  bool AloneAgainst(const EventFile& file);
  void Settle(const EventFile& file, bool ours);
  void Adopt(const EventFile& file, const EventLedger::Entry& entry);
  bool StartAgain(const FileId& id, File& file);

  // True if the byte limit was reached before the end of the file.
  bool Read(const FileId& id, File& file, size_t& bytes_left);
  bool Align(int fd, File& file, size_t& bytes_left);
  // How many of `bytes` were consumed; the file is abandoned if they are malformed.
  size_t TakeRecords(File& file, std::string_view bytes);
  void Leave(File& file, const absl::Status& reason);
  void Note(const std::string& what, const std::string& path, const std::string& reason) const;

  const Setup setup_;
  const std::string host_;
  const Callbacks callbacks_;
  std::optional<EventLedger> ledger_;
  std::map<FileId, File> files_;
  std::map<FileId, bool> waiting_;     // seen once, owner unknown; were other attempts alive then?
  std::map<int64_t, uint32_t> ranks_;  // by pid
  common::LruMap<int64_t, bool> rival_pids_{kRivalPidsMax};
  bool crowded_ = false;
  int64_t next_open_ms_ = 0;
  FileId turn_;  // the file that the last scan ended with
  bool cut_noted_ = false;
};

}  // namespace muster::worker
