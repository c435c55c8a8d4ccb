// See meeting_store.h.
#include "parallel/meeting_store.h"

#include <algorithm>
#include <utility>

namespace muster {

void MeetingStore::remember(const std::vector<uint8_t>& value) {
  const std::lock_guard lock(mutex_);
  if (!remembers_) return;
  const auto size = static_cast<std::ptrdiff_t>(std::min(value.size(), kBytesKept));
  messages_.emplace_back(value.begin(), value.begin() + size);
}

void MeetingStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  remember(value);
  PrefixStore::set(key, value);
}

std::vector<uint8_t> MeetingStore::get(const std::string& key) {
  std::vector<uint8_t> value = PrefixStore::get(key);
  remember(value);
  return value;
}

void MeetingStore::append(const std::string& key, const std::vector<uint8_t>& value) {
  remember(value);
  PrefixStore::append(key, value);
}

std::vector<std::vector<uint8_t>> MeetingStore::multiGet(const std::vector<std::string>& keys) {
  std::vector<std::vector<uint8_t>> values = PrefixStore::multiGet(keys);
  for (const auto& value : values) remember(value);
  return values;
}

void MeetingStore::multiSet(const std::vector<std::string>& keys,
                            const std::vector<std::vector<uint8_t>>& values) {
  for (const auto& value : values) remember(value);
  PrefixStore::multiSet(keys, values);
}

std::vector<SocketIdentity> MeetingStore::connections() {
  std::vector<std::string> messages;
  {
    const std::lock_guard lock(mutex_);
    remembers_ = false;
    messages = std::exchange(messages_, {});
  }
  return connections_at(messages);
}

}  // namespace muster
