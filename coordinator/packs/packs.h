// The packs of one state: who has them, who reads them, who makes them. Shared by the stores of logs and metrics.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/packs/format.h"
#include "coordinator/packs/pack_reader.h"
#include "coordinator/packs/pack_writer.h"
#include "coordinator/segments/files.h"
#include "coordinator/stores/objects.h"
#include "coordinator/stores/pack_names.h"

namespace muster::coordinator {

class Packs {
 public:
  // `objects` and `names` outlive it.
  Packs(Objects& objects, PackNames& names, const std::string& prefix, PackTerm term,
        std::unique_ptr<PackTurns> turns, PackPace pace = {})
      : names(names),
        turns(std::move(turns)),
        reader(objects, names, prefix, [this] { return this->turns->NowMs(); }),
        writer({objects, names, prefix, std::move(term)}, reader, *this->turns, pace) {}

  PackNames& names;
  const std::unique_ptr<PackTurns> turns;
  PackReader reader;
  PackWriter writer;
};

// Where a stream ends that had these files before there was an object store; from now on it continues in packs.
absl::StatusOr<StreamEnd> EndFiles(SegmentFiles files, const SegmentId& id);

// Those that have packs of this kind, or files of before below `root`. May be slow.
std::vector<uint64_t> JobsOf(const PackNames& names, PackKind kind, const std::string& root);

// Of this process: no other one has it.
PackTerm NewPackTerm(uint64_t epoch);

}  // namespace muster::coordinator
