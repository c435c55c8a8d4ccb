#include "coordinator/gates/resume_peers.h"

namespace muster::coordinator {

std::optional<v1::FilePeer> ResumePeers::Join(uint64_t job, uint32_t attempt, uint32_t group_rank,
                                              v1::FilePeer own) {
  const Key key{job, attempt};
  std::lock_guard lock(mutex_);
  const auto [found, is_new] = trees_.try_emplace(key);
  if (is_new) {
    oldest_first_.push_back(key);
    if (oldest_first_.size() > kAttemptsMax) {
      trees_.erase(oldest_first_.front());
      oldest_first_.pop_front();
    }
  }
  Tree& tree = found->second;
  const size_t place = tree.places.try_emplace(group_rank, tree.peers.size()).first->second;
  if (place == tree.peers.size()) tree.peers.emplace_back();
  tree.peers[place] = std::move(own);  // another port, if its worker has restarted
  if (place == 0) return std::nullopt;
  return tree.peers[(place - 1) / kChildren];
}

}  // namespace muster::coordinator
