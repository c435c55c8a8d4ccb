// An HTTP server on loopback that answers as the test tells it to, one request per connection.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/files/files.h"

namespace muster::testing {

struct ServedRequest {
  std::string method;
  std::string target;
  std::string head;  // all of it, with the request's line
  std::string body;
};

// "HTTP/1.1 STATUS\r\n…": a whole answer.
std::string HttpAnswer(const std::string& status, const std::string& body,
                       const std::string& headers = "");

class ScriptedServer {
 public:
  // What is sent; the connection is closed after it.
  using Answer = std::function<std::string(const ServedRequest&)>;
  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();

  int port() const { return port_; }
  std::string Url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  // "METHOD TARGET" of all requests so far.
  std::vector<std::string> Asked();

 private:
  void Serve(int connection);

  const Answer answer_;
  int port_ = 0;
  const common::UniqueFd listener_;  // after its port, which it sets
  std::mutex mutex_;                 // guards what follows
  std::vector<std::string> asked_;
  std::thread thread_;
};

// A listening socket on a free port of loopback.
common::UniqueFd ListenOnLoopback(int* port);

}  // namespace muster::testing
