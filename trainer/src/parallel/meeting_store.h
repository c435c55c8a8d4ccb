// The store for a backend's rendezvous. It records the addresses that the ranks exchange, which
// identify the backend's connections (connections.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "parallel/connections.h"

namespace muster {

class MeetingStore : public c10d::PrefixStore {
 public:
  // Per message: an address is at its start, and once more per rank.
  static constexpr size_t kBytesKept = 4'096;

  using PrefixStore::PrefixStore;

  using Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;

  // This process's connections to the addresses recorded so far. Stops recording.
  std::vector<SocketIdentity> connections();

 private:
  void remember(const std::vector<uint8_t>& value);

  std::mutex mutex_;  // guards the members below
  std::vector<std::string> messages_;
  bool remembers_ = true;
};

}  // namespace muster
