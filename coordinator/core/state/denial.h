// A message or request of a worker about something that does not belong to its node. It is refused
// and counted, and changes nothing for the node that is concerned. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace muster::coordinator {

enum class Denied : size_t {
  kRegistration,  // under another node's name
  kStatus,        // of an attempt that has no part on the node
  kCheckpoint,    // a part of such an attempt, or one whose bytes were not uploaded
  kLogs,
  kMetrics,
  kSamples,
  kDiagnosis,
  kNotify,  // the end of a command that another node was asked to run
  kBlob,    // a file of a checkpoint that the node has nothing to do with
  kCount
};

struct Denial {
  Denied what = Denied::kStatus;
  std::string text;  // for the log
};

}  // namespace muster::coordinator
