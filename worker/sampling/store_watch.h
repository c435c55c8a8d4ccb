// What the ranks of a node do at the store of their attempt, as muster-rendezvous publishes it
// (common/kernel/rendezvous_status.h), and the last line of those that have not come there. An attempt's own thread.
#pragma once

#include "common/files/files.h"
#include "muster/v1/job.pb.h"
#include "muster/v1/sample.pb.h"
#include "worker/base/paths.h"

namespace muster::worker {

class StoreWatch {
 public:
  StoreWatch(Paths paths, AttemptKey key, const v1::NodePart& part);
  void Look(v1::RankSample* sample);

 private:
  std::string LastLine(uint32_t rank) const;

  const Paths paths_;
  const AttemptKey key_;
  const uint32_t first_rank_;
  const uint32_t ranks_;
  common::UniqueFd status_;
};

}  // namespace muster::worker
