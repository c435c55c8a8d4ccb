// The store through which a backend's ranks meet, which remembers the addresses that they tell each
// other there: by them its connections are known (connections.h).
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
  // Of one message: an address stands at its beginning, and then once more for every rank.
  static constexpr size_t kBytesKept = 4'096;

  using PrefixStore::PrefixStore;

  using Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> get(const std::string& key) override;
  void append(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override;
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override;

  // This process's connections to an address that was told so far. Ends the remembering.
  std::vector<SocketIdentity> connections();

 private:
  void remember(const std::vector<uint8_t>& value);

  std::mutex mutex_;  // guards what follows
  std::vector<std::string> messages_;
  bool remembers_ = true;
};

}  // namespace muster
