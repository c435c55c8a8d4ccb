// A connection between a relay and the root: frames over TLS 1.3, whose key both got from the coordinator with the
// attempt (an external pre-shared key: each side proves that it has it, and nothing else is needed; RFC 8446, section
// 2.2). The loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/frames.h"
#include "rendezvous/stream.h"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;

namespace muster::rendezvous {

class Link final : public Stream::Reader {
 public:
  struct Handler {
    std::function<void()> opened;  // the peer has the secret, too
    std::function<void(Frame kind, std::string_view fields)> frame;
    std::function<void(std::string_view why)> closed;  // not after Close
  };
  // `secret`: the attempt's, common::kRendezvousSecretBytes.
  Link(Loop& loop, common::UniqueFd fd, bool is_server, std::string_view secret, Handler handler);
  ~Link() override;
  Link(const Link&) = delete;

  bool IsOpen() const { return is_open_; }
  // To append frames to, which leave at the end of the turn.
  std::string& Out();
  void Close();

  size_t OnBytes(std::string_view bytes) override;
  void OnClosed(std::string_view why) override;

 private:
  class Flusher;
  void Handshake();
  void TakePlain();
  void Split_();
  void Encrypt();
  void MoveCipher();
  void Fail(std::string_view why);

  Loop& loop_;
  std::string secret_;
  Handler handler_;
  SSL_CTX* context_ = nullptr;
  SSL* tls_ = nullptr;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Flusher> flusher_;
  std::string plain_in_;
  std::string plain_out_;
  bool is_open_ = false;
  bool is_closed_ = false;
};

}  // namespace muster::rendezvous
