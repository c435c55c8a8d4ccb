// The HTTP/1.1 server: connections, their limits and time limits, on one thread. The site decides what a
// request means. Only server.cc compiles Boost's headers, which takes 14 s.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/files.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/server_tls.h"

namespace muster::coordinator::http {

// limit: HTTP: a request's head; 431
inline constexpr size_t kHeadBytesMax = 16 * 1024;
// limit: HTTP: a request's body; 413
inline constexpr size_t kBodyBytesMax = 2 << 20;
// Bodies being received and responses being read, over all connections.
// limit: HTTP: bodies and responses under way; 503, of one caller with a quarter of it 429
inline constexpr size_t kHeldBytesMax = 64 << 20;

// Of the threads that answer over HTTP: submits and reports take precedence.
inline constexpr int kHttpNiceness = 10;

// How long a client may take. Each limit covers the whole step, however slowly the bytes trickle.
struct TimeLimits {
  // From the connection to the end of the first head, TLS's handshake included.
  // limit: HTTP: from a connection to the end of its first head; it is closed
  std::chrono::milliseconds first_head{10'000};
  std::chrono::milliseconds next_head{60'000};  // from a response to the end of the next head
  std::chrono::milliseconds body{30'000};
  // limit: HTTP: until the response; 504
  std::chrono::milliseconds answer{45'000};     // from the site
  std::chrono::milliseconds write{60'000};      // of a response, until the client has taken it
  std::chrono::milliseconds linger{2'000};      // after a refusal, for the client to read it
  std::chrono::milliseconds heartbeat{15'000};  // of a stream that has nothing to send
  // Between two rounds of news to all streams: a flood of events costs no more than ten rounds a second.
  std::chrono::milliseconds pace{100};
};

// Called on the server's thread; must not block.
struct Handlers {
  // A request's head has arrived: the response that refuses it before its body is read; nothing: continue.
  std::function<std::optional<Response>(const RequestHead&)> check;
  std::function<void(Request, Respond)> handle;
  // The caller whose share a request that passed the check uses; null: its address.
  std::function<std::string(const RequestHead&)> caller = nullptr;
  // Before each piece of an answer or a stream is sent: it may decide to never return. Null: nothing to ask.
  std::function<void()> before_sending = nullptr;
};

struct Listener {
  common::UniqueFd fd;  // listening, not blocking
  bool is_unix = false;
  bool own_uid_only = false;                       // for a socket: only our own uid and root
  std::shared_ptr<const ServerTls> tls = nullptr;  // null: not encrypted
};

class Server {
 public:
  struct Core;  // server.cc's
  struct Options {
    std::vector<Listener> listeners;
    // Open at once. To admit a new one, the connection that has idled longest is closed; preferably one of
    // an address that has more than a quarter, and then even one that does not idle.
    size_t connections = 256;
    TimeLimits limits;
  };
  Server(Options options, Handlers handlers);
  ~Server();
  // Starts to accept connections.
  void Begin();
  // Closes all connections; afterwards no handler is called.
  void Stop();

  struct Counts {
    size_t connections = 0;  // now
    uint64_t accepted = 0;
    // Closed to make room, also for the handshakes of others, or because no descriptor was free.
    uint64_t turned_away = 0;
    uint64_t timed_out = 0;
  };
  // Any thread.
  Counts Read() const;
  // Streams have something to send. Any thread.
  void PullStreams();

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace muster::coordinator::http
