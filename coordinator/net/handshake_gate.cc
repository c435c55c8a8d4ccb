#include "coordinator/net/handshake_gate.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace muster::coordinator {

HandshakeGate::Verdict HandshakeGate::Ask(std::string_view network, Time now) const {
  const auto is_of_network = [&](const Going& each) { return each.network == network; };
  const auto of_network =
      static_cast<size_t>(std::count_if(going_.begin(), going_.end(), is_of_network));
  const Going* oldest = nullptr;
  if (of_network >= limits_.most_of_network) {
    oldest = &*std::find_if(going_.begin(), going_.end(), is_of_network);
  } else if (going_.size() >= limits_.most) {
    oldest = &going_.front();
  } else {
    return {.may_begin = true, .to_close = std::nullopt};
  }
  if (now - oldest->since < limits_.timeout) return {};
  return {.may_begin = false, .to_close = oldest->id};
}

void HandshakeGate::Begin(Id id, std::string network, Time now) {
  End(id);
  going_.push_back({.id = id, .network = std::move(network), .since = now});
}

void HandshakeGate::End(Id id) {
  going_.remove_if([id](const Going& each) { return each.id == id; });
}

void HandshakeGate::EndIf(const std::function<bool(Id, Time since)>& is_over) {
  going_.remove_if([&](const Going& each) { return is_over(each.id, each.since); });
}

bool HasClientLeft(int fd) {
  pollfd client{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&client, 1, 0) > 0;
}

}  // namespace muster::coordinator
