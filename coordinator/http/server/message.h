// HTTP requests and responses as values, so that only server.cc knows the library that reads and
// writes them. Immutable once made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::coordinator::http {

// Header fields in the order of their arrival, with lower-case names.
using Fields = std::vector<std::pair<std::string, std::string>>;

// The value of the first field of that name; empty if there is none.
inline std::string_view FieldOf(const Fields& fields, std::string_view lower_name) {
  for (const auto& [name, value] : fields) {
    if (name == lower_name) return value;
  }
  return {};
}

inline size_t CountFields(const Fields& fields, std::string_view lower_name) {
  return static_cast<size_t>(std::count_if(
      fields.begin(), fields.end(), [&](const auto& field) { return field.first == lower_name; }));
}

// Who connected, and to what.
struct Peer {
  std::string principal;      // "uid:1000", "peer:10.0.0.7"; see Caller
  std::string local_address;  // of this end, without a port: "127.0.0.1", "::1"; empty: a socket
  bool is_encrypted = false;  // TLS
};

struct RequestHead {
  Peer peer;
  std::string method;  // as sent: "GET"
  std::string target;  // as sent: "/api/v1/ListJobs?limit=5"
  Fields fields;
};

struct Request {
  RequestHead head;
  std::string body;
};

// A response that continues. Take returns what there is to send now, as text; empty if there is nothing.
// The server's thread.
class TextSource {
 public:
  virtual ~TextSource() = default;
  virtual std::string Take() = 0;
  // True: the client may no longer read, and its connection is closed.
  virtual bool IsOver() { return false; }
};

struct Response {
  unsigned status = 200;
  std::string content_type;
  std::string body;
  Fields fields;                                 // in addition to SecurityFields
  std::shared_ptr<TextSource> stream = nullptr;  // instead of a body
};

// Any thread; responses after the first are dropped.
using Respond = std::function<void(Response)>;

}  // namespace muster::coordinator::http
