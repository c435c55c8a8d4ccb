// Requests whose bodies may be of any size, on connections that are kept: what talks to an object store. Small
// requests that are asked now and then are CallHttp's (client.h). libcurl does the transport; this adds the limits:
// on the time to connect, on silence, on the whole, on what is read of an answer. No redirect is followed, no proxy
// is used, certificates are verified. Blocks, so never on a loop; any thread, several at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/byte_source.h"

namespace muster::common {

struct CurlLibrary;
class TransferHandle;

struct TransferAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in lower case
  std::string body = {};
  uint64_t sunk = 0;  // bytes that the sink got

  // Empty: the answer has none of this name.
  std::string_view Header(std::string_view name) const;
};

struct Transfer {
  std::string method = "GET";
  std::string url;  // http or https; sent as it is
  std::vector<std::pair<std::string, std::string>> headers = {};
  ByteSource body = std::string_view();  // of PUT and POST

  // Gets the body in pieces, of an answer that `is_sunk` takes by its status and headers; its error ends the transfer
  // and is returned. Of others the body is in the answer.
  std::function<absl::Status(std::string_view)> sink = nullptr;
  std::function<bool(const TransferAnswer&)> is_sunk = nullptr;
  // limit: transfers over HTTP: an answer's body, by default; an error. Of an answer that is an error the rest is left out
  size_t answer_max = 1 << 20;

  // limit: transfers over HTTP: a body that is sent before the server was asked whether it wants it; larger ones wait 1 s
  static constexpr uint64_t kUnaskedBytesMax = 1 << 20;
  // limit: transfers over HTTP: until the connection and TLS are there; UNAVAILABLE
  std::chrono::milliseconds connect_within{5'000};
  // limit: transfers over HTTP: without a byte in either direction; UNAVAILABLE
  std::chrono::seconds silent_for{20};
  std::chrono::milliseconds within{60'000};  // the whole; UNAVAILABLE
};

class Transfers {
 public:
  // limit: transfers over HTTP: an answer's headers; an error
  static constexpr size_t kHeadersBytesMax = 64 << 10;
  // limit: transfers over HTTP: connections that are kept while nothing is transferred; closed
  static constexpr size_t kIdleMax = 64;

  // `ca_file`: PEM, the authorities that sign servers' certificates; empty: SSL_CERT_FILE, or the system's.
  // FAILED_PRECONDITION: libcurl is not installed.
  static absl::StatusOr<std::unique_ptr<Transfers>> Open(const std::string& ca_file);
  // For URLs of the object store: AWS_CA_BUNDLE names the authorities of one that has its own.
  static absl::StatusOr<std::unique_ptr<Transfers>> OpenForStore();
  ~Transfers();

  // Any status of HTTP is an answer. Errors name the server and no query, as that may hold a signature:
  //   UNAVAILABLE        it does not resolve, connect, answer, or answer in full: try again. The server may have acted
  //   UNAUTHENTICATED    its certificate is refused; nothing was sent
  //   ABORTED            the answer is larger than answer_max
  //   CANCELLED          `stop` was set; noticed within about a second
  //   INVALID_ARGUMENT   the URL is not one, or a header has a line break
  //   the sink's error; CopyFrom's, of the body
  absl::StatusOr<TransferAnswer> Run(const Transfer& transfer,
                                     const std::atomic<bool>* stop = nullptr);

 private:
  Transfers(const CurlLibrary& curl, std::string ca_file);
  std::unique_ptr<TransferHandle> Take();
  void Keep(std::unique_ptr<TransferHandle> handle);

  const CurlLibrary& curl_;
  const std::string ca_file_;
  std::mutex mutex_;                                   // guards what follows
  std::vector<std::unique_ptr<TransferHandle>> idle_;  // each with its connections
};

// A URL as a person may see it: without the query, which may hold a signature.
std::string_view WithoutQuery(std::string_view url);

}  // namespace muster::common
