// Which packs there are: objects (objects.h) that have what arrived of many streams within some seconds, so that logs and
// metrics are in the store that the whole cluster reaches. A pack's bytes: packs/format.h, docs/formats.md.
//
// A lane is a sequence of packs, in the order in which their bytes arrived: of the output of one attempt on one node, or of
// an attempt's metrics. What exists is what this says: a pack counts once it is recorded, and then its bytes may be
// acknowledged. Part of the state, so a coordinator that was deposed records nothing. There is a row per lane and leader,
// not per pack: the packs of one leader have numbers without a gap. Small ones are merged into larger ones.
//
// Any thread; on pools' threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

enum class PackKind : uint32_t { kLogs = 1, kMetrics = 2 };

struct PackLane {
  PackKind kind = PackKind::kLogs;
  uint64_t job = 0;
  uint32_t attempt = 0;
  std::string node;  // of metrics: empty
  auto operator<=>(const PackLane&) const = default;
};

// A leader's turn: the coordinator's epoch, which a state that was restored may repeat, and a random number of its process.
struct PackTerm {
  uint64_t epoch = 0;
  std::string life;  // some hexadecimal digits
  auto operator<=>(const PackTerm&) const = default;
};

// The packs first to last of one leader that are not merged. None of them, if last is below first.
struct PackRun {
  PackTerm term;
  uint64_t first = 1;
  uint64_t last = 0;
};

struct MergedPack {
  uint64_t place = 0;  // ascending, in the lane's order
  std::string name;    // the last part of its key
  uint32_t level = 1;  // how many times its bytes were merged; 0: what a quota has left
  uint64_t bytes = 0;  // of the object
};

// The lane's packs: `merged`, then those of `runs`, in this order.
struct LanePacks {
  PackLane lane;
  std::vector<MergedPack> merged;
  std::vector<PackRun> runs;
  // All ranks that have streams in the lane are between these two, included.
  uint32_t first_rank = 0;
  uint32_t last_rank = 0;
  uint64_t bytes = 0;  // of all its packs
  std::string
      note;  // what the last pack's maker left: of metrics the newest values (packs/metric_store.cc)
};

// "7-3fa9c2d1-12".
std::string PackName(const PackTerm& term, uint64_t number);
// "7-3fa9c2d1-m12": made of others, with numbers of their own.
std::string MergedPackName(const PackTerm& term, uint64_t number);
// "CLUSTER/logs/JOB/ATTEMPT/NODE/7-3fa9c2d1-12", "CLUSTER/metrics/JOB/ATTEMPT/7-3fa9c2d1-12"; `prefix`: "CLUSTER/".
std::string PackKey(const std::string& prefix, const PackLane& lane, const std::string& name);
// Below which all packs of this kind are.
std::string PackPrefix(const std::string& prefix, PackKind kind);
// nullopt: a pack has another form of key.
struct PackAddress {
  PackLane lane;
  std::string name;
};
std::optional<PackAddress> ParsePackKey(const std::string& prefix, const std::string& key);

struct RecordedPack {
  PackLane lane;
  PackTerm term;
  uint64_t number = 0;
  uint64_t bytes = 0;
  uint32_t first_rank = 0;
  uint32_t last_rank = 0;
  std::string note;  // empty: as before
};

// The oldest packs of a lane became one.
struct PackMerge {
  PackLane lane;
  MergedPack made;  // its place is that of the first one that it replaces, or behind the last
  std::vector<MergedPack> merged;  // what it replaces, either of these
  std::vector<PackRun> runs;
  uint64_t freed = 0;  // of LanePacks.bytes
};

class PackNames {
 public:
  virtual ~PackNames() = default;

  // In order of attempts and nodes.
  virtual absl::StatusOr<std::vector<LanePacks>> Lanes(PackKind kind, uint64_t job,
                                                       std::optional<uint32_t> attempt) const = 0;
  virtual absl::StatusOr<std::optional<LanePacks>> Find(const PackLane& lane) const = 0;
  // Of all lanes of the job together: LanePacks.bytes.
  virtual absl::StatusOr<uint64_t> BytesOf(PackKind kind, uint64_t job) const = 0;

  // Durable when it returns; all or none. Packs of one lane in ascending order; repeating them changes nothing. ABORTED: a
  // number does not follow the last one.
  virtual absl::Status Record(const std::vector<RecordedPack>& packs) = 0;
  // What was replaced is doomed (object_names.h). ABORTED: the lane has other packs by now; `made` is doomed.
  virtual absl::Status Merge(const PackMerge& merge) = 0;
  // Dooms packs of the job, one lane at most. False: it has none.
  virtual absl::StatusOr<bool> DoomSome(PackKind kind, uint64_t job) = 0;

  // Those that have packs of this kind.
  virtual absl::StatusOr<std::vector<uint64_t>> Jobs(PackKind kind) const = 0;
  // Of these keys, those that no row has: neither recorded nor doomed.
  virtual absl::StatusOr<std::vector<std::string>> Unknown(
      const std::vector<std::string>& keys) const = 0;
};

}  // namespace muster::coordinator
