// The bytes of one client of the HTTP server, encrypted or not: a connection reads and writes both the
// same way. Boost.Beast is used here, in wire_head.h, in connection.h, and in server.cc, the only file
// that includes these.
#pragma once

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "coordinator/http/server/server_tls.h"

namespace muster::coordinator::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

class Stream {
 public:
  using Plain = beast::basic_stream<asio::generic::stream_protocol>;
  using executor_type = Plain::executor_type;

  // `before_sending` outlives this; empty: nothing to ask (Handlers).
  Stream(Plain::socket_type socket, const std::function<void()>& before_sending)
      : plain_(std::move(socket)), before_sending_(before_sending) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The names that asio and Beast expect of a stream.
  executor_type get_executor() { return plain_.get_executor(); }
  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_.has_value()) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
    plain_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (before_sending_) before_sending_();
    if (tls_.has_value()) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
    plain_.async_write_some(buffers, std::forward<Handler>(handler));
  }

  // The deadline of operations that begin from here on, including the handshake.
  void ExpireAt(std::chrono::steady_clock::time_point at) { plain_.expires_at(at); }
  void ExpireAfter(std::chrono::milliseconds limit) { plain_.expires_after(limit); }
  void ExpireNever() { plain_.expires_never(); }
  void Close() { plain_.close(); }
  int Descriptor() { return plain_.socket().native_handle(); }

  // `begun`: the client's first bytes, which were read already. The handler gets the error and how
  // many of them the handshake took.
  template <typename Handler>
  void BeginTls(const TlsContext& context, asio::const_buffer begun, Handler&& handler) {
    tls_.emplace(plain_, SSL_new(context.get()));
    tls_->async_handshake(Tls::server, begun, std::forward<Handler>(handler));
  }
  // Tells the client that nothing more follows. Afterwards only what it still sends can be read, as
  // bytes without meaning.
  template <typename Handler>
  void EndSending(Handler&& handler) {
    if (!tls_.has_value()) {
      HalfClose();
      return handler();
    }
    tls_->async_shutdown([this, handler = std::forward<Handler>(handler)](error_code) {
      HalfClose();
      handler();
    });
  }
  template <typename Buffers, typename Handler>
  void ReadRaw(const Buffers& buffers, Handler&& handler) {
    plain_.async_read_some(buffers, std::forward<Handler>(handler));
  }

 private:
  using Tls = asio::ssl::stream<Plain&>;

  void HalfClose() {
    error_code ignored;
    plain_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  }

  Plain plain_;
  const std::function<void()>& before_sending_;
  // Made with the first byte: a client that sends nothing does not get its 70 KiB of buffers.
  std::optional<Tls> tls_;
};

}  // namespace muster::coordinator::http
