// The input of findings, ledger and ETA: values read at one moment. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/findings/history.h"
#include "coordinator/findings/samples.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Evidence {
  const v1::JobRecord& job;
  const JobHistory& history;
  const SampleHistory& samples;
  common::Now now;
  // The shortest pause or loss that is worth a sentence. Warm-up lasts this long, too.
  int64_t floor_ms = 60'000;

  // The newest attempt while all its ranks run, otherwise null.
  const v1::Attempt* Running() const;
  // The history of the newest attempt; null: it reports nothing.
  const AttemptHistory* Newest() const;
  // How long the newest attempt has run.
  int64_t RanMs() const;
  // How long ago the newest attempt last gained a step; 0: it never reported one.
  int64_t QuietMs() const;
};

// Devices of an attempt.
int64_t DevicesOf(const v1::Attempt& attempt);
// The devices of the newest attempt; before the first attempt, as requested.
int64_t DevicesOf(const v1::JobRecord& job);
// The part that a rank belongs to; null: none.
const v1::NodePart* PartOf(const v1::Attempt& attempt, uint32_t rank);
// "rank 3 on node2".
std::string RankOnNode(const v1::Attempt& attempt, uint32_t rank);
// "KIND:INDEX" of the devices that Muster gave to a rank, in order.
std::vector<std::string> DevicesOfRank(const v1::NodePart& part, uint32_t rank);

}  // namespace muster::coordinator
