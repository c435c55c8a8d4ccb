// Finds TensorBoard event files of one attempt and turns their new records into metric batches: one
// batch a record, its seq the file offset behind the record, so that a record counts once whatever
// restarts. One thread at a time; a Scan blocks for directory listings and reading, both bounded;
// files take turns.
//
// In a directory that others may write into too, what was there before the ranks started does not
// count (event_ledger.h), and of what grows or appears since, what is this attempt's:
//   by the process that its name tells, when that is a rank, or lives: then its mark says whose
//   by a living process that has it open for writing, likewise
//   not when its name tells another host
//   else, as nobody can be asked any more, when no other attempt of this worker could have been it
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
#include "muster/v1/worker_service.pb.h"
#include "worker/core/state.h"
#include "worker/event_ledger.h"
#include "worker/event_search.h"

namespace muster::worker {

class EventTailer {
 public:
  struct Doors {
    // Where the file's records go on: the highest seq known for the source on any rank, and that
    // rank. {0, -1}: unknown.
    std::function<std::pair<uint64_t, int64_t>(const std::string& source)> known;
    // False: not taken (no space); the record is read again by the next scan.
    std::function<bool(uint32_t rank, v1::MetricBatch)> batch;
    std::function<void(const std::string&)> note;
  };

  struct Setup {
    AttemptKey key;
    std::vector<TailRoot> roots;
    std::string ledger_path;
    uint32_t default_rank = 0;
    bool sole = true;  // no other node runs ranks of the attempt
  };
  EventTailer(Setup setup, Doors doors);

  void SetPid(uint32_t rank, int64_t pid) { ranks_[pid] = rank; }
  // Since the last look: ranks of other attempts that may write into the same directories, and
  // whether such an attempt was alive.
  void SetRivals(const std::set<int64_t>& pids, bool crowded);
  // The records of this source behind `offset` were not taken after all: they are read again.
  void Rewind(const std::string& source, uint64_t offset);
  // One look, as far as its bounds reach. True when something is left to read or to decide.
  bool Scan();

 private:
  struct File {
    std::string path;
    std::string name;    // of its source, where it began
    std::string source;  // the name, or that of the next file in its place
    uint64_t inode = 0;
    uint64_t offset = 0;
    bool aligned = false;  // a record begins at the offset
    uint32_t rank = 0;
    bool ignored = false;
  };
  enum class Whose { kOurs, kOthers, kUnknown };
  using Holders = std::map<FileId, int64_t>;

  std::vector<EventFile> FindUndecided();
  // True when something is to be decided by the next look.
  bool Decide(const std::vector<EventFile>& files);
  Whose Ask(const EventFile& file) const;
  Whose AskHolder(const EventFile& file, const Holders& holders) const;
  Whose WhoseMark(const std::string& mark) const;
  bool AloneAgainst(const EventFile& file);
  void Settle(const EventFile& file, bool ours);
  void Adopt(const EventFile& file, const EventLedger::Entry& entry);
  bool StartAgain(const FileId& id, File& file);

  // True when the bound of bytes ended before the file did.
  bool Read(const FileId& id, File& file, size_t& bytes_left);
  bool Align(int fd, File& file, size_t& bytes_left);
  // How many of `bytes` were used up; the file is left when they are broken.
  size_t TakeRecords(File& file, std::string_view bytes);
  void Leave(File& file, const absl::Status& reason);
  void Note(const std::string& what, const std::string& path, const std::string& reason) const;

  const Setup setup_;
  const std::string host_;
  const Doors doors_;
  std::optional<EventLedger> ledger_;
  std::map<FileId, File> files_;
  std::map<FileId, bool> waiting_;     // seen once, whose is not known; was it crowded then?
  std::map<int64_t, uint32_t> ranks_;  // by pid
  std::set<int64_t> rival_pids_;
  bool crowded_ = false;
  FileId turn_;  // the file that the last look ended with
  bool cut_noted_ = false;
};

}  // namespace muster::worker
