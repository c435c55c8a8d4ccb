#include "rendezvous/link.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/secret_tls.h"

namespace muster::rendezvous {
namespace {

constexpr char kKind[] = "muster-rendezvous-1";
constexpr size_t kCipherUnreadMax = 1 << 20;
constexpr size_t kPieceBytes = 16 << 10;  // a TLS record

}  // namespace

// Encrypts at the end of a turn what was written in it.
class Link::Flusher final : public Loop::Source {
 public:
  explicit Flusher(Link& link) : link_(&link) {}
  void OnEvents(uint32_t) override {}
  void OnTurnEnd() override {
    if (link_ != nullptr) link_->Encrypt();
  }
  void Drop() { link_ = nullptr; }

 private:
  Link* link_;
};

Link::Link(Loop& loop, common::UniqueFd fd, bool is_server, std::string_view secret,
           Handler handler)
    : loop_(loop),
      secret_(secret),
      handler_(std::move(handler)),
      context_(common::NewSecretContext(is_server, kKind)),
      flusher_(std::make_unique<Flusher>(*this)) {
  stream_ = std::make_unique<Stream>(loop, std::move(fd), kCipherUnreadMax, *this);
  tls_ = context_ == nullptr ? nullptr : SSL_new(context_);
  if (tls_ == nullptr) return;
  common::SetSecret(tls_, &secret_);
  SSL_set_bio(tls_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  is_server ? SSL_set_accept_state(tls_) : SSL_set_connect_state(tls_);
  if (!is_server) Handshake();
}

Link::~Link() {
  Close();
  SSL_free(tls_);
  SSL_CTX_free(context_);
  flusher_->Drop();
  loop_.Retire(std::move(flusher_));
  loop_.Retire(std::move(stream_));
}

std::string& Link::Out() {
  loop_.Mark(flusher_.get());
  return plain_out_;
}

void Link::Close() {
  is_closed_ = true;
  stream_->Close();
}

void Link::Fail(std::string_view why) {
  if (std::exchange(is_closed_, true)) return;
  stream_->Close();
  handler_.closed(why);
}

void Link::OnClosed(std::string_view why) { Fail(why); }

size_t Link::OnBytes(std::string_view bytes) {
  if (tls_ == nullptr) {
    Fail("there is no memory for TLS");
    return 0;
  }
  BIO_write(SSL_get_rbio(tls_), bytes.data(), static_cast<int>(bytes.size()));
  if (!is_open_) Handshake();
  if (is_open_) TakePlain();
  return bytes.size();
}

void Link::Handshake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(tls_);
  MoveCipher();
  if (done == 1) {
    if (!common::PeerHasSecret(tls_)) return Fail("the peer does not have the attempt's secret");
    is_open_ = true;
    handler_.opened();
    return;
  }
  const int error = SSL_get_error(tls_, done);
  if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
    Fail("the peer does not have the attempt's secret");
  }
}

void Link::TakePlain() {
  std::array<char, kPieceBytes> piece;
  while (!is_closed_) {
    ERR_clear_error();
    const int count = SSL_read(tls_, piece.data(), static_cast<int>(piece.size()));
    if (count <= 0) {
      const int error = SSL_get_error(tls_, count);
      MoveCipher();
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        Fail("the peer has closed the connection");
      }
      break;
    }
    plain_in_.append(piece.data(), static_cast<size_t>(count));
  }
  if (!is_closed_) Split_();
}

void Link::Split_() {
  size_t taken = 0;
  while (!is_closed_) {
    Frame kind;
    std::string_view fields;
    size_t used = 0;
    const Split split = NextFrame(std::string_view(plain_in_).substr(taken), &kind, &fields, &used);
    if (split == Split::kBad) return Fail("it sent a message that is too long");
    if (split == Split::kPartial) break;
    handler_.frame(kind, fields);
    taken += used;
  }
  plain_in_.erase(0, taken);
}

void Link::Encrypt() {
  if (!is_open_ || is_closed_) return;  // what is written before the handshake is over waits for it
  size_t done = 0;
  while (done < plain_out_.size()) {
    ERR_clear_error();
    const size_t piece = std::min(plain_out_.size() - done, kPieceBytes);
    const int count = SSL_write(tls_, plain_out_.data() + done, static_cast<int>(piece));
    if (count <= 0) return Fail("TLS cannot encrypt");
    done += static_cast<size_t>(count);
    MoveCipher();
  }
  plain_out_.clear();
}

void Link::MoveCipher() {
  BIO* out = SSL_get_wbio(tls_);
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(out, &bytes);
  if (count <= 0) return;
  stream_->Write(std::string_view(bytes, static_cast<size_t>(count)));
  BIO_reset(out);
}

}  // namespace muster::rendezvous
