#include "rendezvous/stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/notes.h"

namespace muster::rendezvous {
namespace {

constexpr int kBacklog = 4'096;
constexpr int kAcceptsPerTurn = 64;
constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kKeptBytes = 64 << 10;  // memory of a buffer that is kept while it is empty

}  // namespace

Acceptor::Acceptor(Loop& loop, common::UniqueFd socket,
                   std::function<void(common::UniqueFd)> accepted)
    : loop_(loop), socket_(std::move(socket)), accepted_(std::move(accepted)) {
  const int fd = socket_.get();
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 || listen(fd, kBacklog) != 0 ||
      !loop_.Watch(fd, EPOLLIN, this)) {
    Note("cannot listen", strerror(errno));
  }
}

void Acceptor::OnEvents(uint32_t) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    common::UniqueFd fd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    accepted_(std::move(fd));
  }
}

Stream::Stream(Loop& loop, common::UniqueFd fd, size_t unread_max, Reader& reader)
    : loop_(loop), fd_(std::move(fd)), unread_max_(unread_max), reader_(reader) {
  const int on = 1;
  setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  loop_.Watch(fd_.get(), EPOLLIN, this);
}

std::string& Stream::Unsent() {
  if (!IsClosed()) loop_.Mark(this);
  return unsent_;
}

void Stream::Write(std::string_view bytes) { Unsent().append(bytes); }

void Stream::Resume() {
  if (IsClosed()) return;
  resumes_ = true;
  loop_.Mark(this);
}

void Stream::Close() {
  if (IsClosed()) return;
  loop_.Forget(fd_.get(), this);
  fd_.Reset();
}

void Stream::Fail(std::string_view why) {
  if (IsClosed()) return;
  Close();
  reader_.OnClosed(why);
}

void Stream::OnEvents(uint32_t events) {
  if (IsClosed()) return;
  if ((events & EPOLLOUT) != 0) Flush();
  if (!IsClosed() && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read();
}

void Stream::OnTurnEnd() {
  if (IsClosed()) return;
  if (std::exchange(resumes_, false)) Offer();
  if (!IsClosed()) Flush();
}

void Stream::Read() {
  static std::array<char, kReadBytes> buffer;  // one thread
  const ssize_t count = recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return Fail(count == 0 ? "the peer has closed the connection" : strerror(errno));
  const std::string_view bytes(buffer.data(), static_cast<size_t>(count));
  if (!unread_.empty()) {
    unread_.append(bytes);
    return Offer();
  }
  const size_t taken = reader_.OnBytes(bytes);
  if (!IsClosed() && taken < bytes.size()) unread_.assign(bytes.substr(taken));
}

void Stream::Offer() {
  const size_t taken = reader_.OnBytes(unread_);
  if (IsClosed()) return;
  unread_.erase(0, taken);
  if (unread_.empty() && unread_.capacity() > kKeptBytes) std::string().swap(unread_);
  if (unread_.size() > unread_max_) Fail("it sends more than can be handled");
}

void Stream::Flush() {
  while (sent_ < unsent_.size()) {
    const ssize_t count = send(fd_.get(), unsent_.data() + sent_, unsent_.size() - sent_,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count < 0) return Fail(strerror(errno));
    sent_ += static_cast<size_t>(count);
  }
  const bool is_sent = sent_ == unsent_.size();
  if (is_sent) {
    unsent_.clear();
    sent_ = 0;
    if (unsent_.capacity() > kKeptBytes) std::string().swap(unsent_);
  } else if (unsent_.size() - sent_ > kUnsentBytesMax) {
    return Fail("it does not take what it asked for");
  }
  if (awaits_room_ == is_sent) {
    awaits_room_ = !is_sent;
    loop_.Change(fd_.get(), awaits_room_ ? EPOLLIN | EPOLLOUT : EPOLLIN, this);
  }
}

}  // namespace muster::rendezvous
