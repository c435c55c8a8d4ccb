// Which node of an attempt fetches the checkpoint's files from which: a tree in the order in which the nodes ask, so that
// the store sends each file once, and no node sends it to more than two. Known to the leading coordinator alone; after a
// failover nodes form another one. Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

class ResumePeers {
 public:
  // limit: nodes: attempts whose nodes serve checkpoint files to each other; the oldest is forgotten, and its nodes use the store
  static constexpr size_t kAttemptsMax = 256;
  static constexpr size_t kChildren = 2;

  // The node of this part serves what it has as `own`; returns the node that it is to fetch from, or none: from the store.
  std::optional<v1::FilePeer> Join(uint64_t job, uint32_t attempt, uint32_t group_rank,
                                   v1::FilePeer own);

 private:
  using Key = std::pair<uint64_t, uint32_t>;  // job, attempt
  struct Tree {
    std::map<uint32_t, size_t> places;  // by group_rank
    std::vector<v1::FilePeer> peers;    // by place: the children of place p are 2p + 1 and 2p + 2
  };
  std::mutex mutex_;  // guards what follows
  std::map<Key, Tree> trees_;
  std::deque<Key> oldest_first_;
};

}  // namespace muster::coordinator
