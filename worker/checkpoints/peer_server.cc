#include "worker/checkpoints/peer_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "worker/checkpoints/peer_link.h"

namespace muster::worker {
namespace {

constexpr size_t kLengthBytes = 4;
// Until it looks for a descriptor again.
constexpr std::chrono::milliseconds kShortFor{100};

void PutLength(char* to, uint32_t length) {
  for (size_t i = 0; i < kLengthBytes; ++i) to[i] = static_cast<char>(length >> (8 * i));
}

}  // namespace

std::unique_ptr<PeerServer> PeerServer::Start(PortRange ports,
                                              std::shared_ptr<ArrivingFiles> files) {
  std::string secret(common::kRendezvousSecretBytes, '\0');
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    return nullptr;
  uint64_t seed = 0;
  for (const char each : secret.substr(0, sizeof seed))
    seed = seed << 8 | static_cast<unsigned char>(each);
  absl::StatusOr<std::vector<HeldPort>> held = PortHolder(ports, seed).Hold(1, false);
  if (!held.ok()) return nullptr;
  const int socket = held->front().socket.get();
  if (fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK) != 0 ||
      listen(socket, static_cast<int>(kStrangersMax)) != 0)
    return nullptr;
  common::UniqueFd wakes(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakes.valid()) return nullptr;
  std::unique_ptr<PeerServer> server(new PeerServer(std::move(held->front()), std::move(wakes),
                                                    std::move(secret), std::move(files)));
  try {
    server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  } catch (const std::system_error&) {  // this machine has no thread left
    return nullptr;
  }
  return server;
}

PeerServer::PeerServer(HeldPort held, common::UniqueFd wakes, std::string secret,
                       std::shared_ptr<ArrivingFiles> files)
    : port_(held.port),
      secret_(std::move(secret)),
      files_(std::move(files)),
      listener_(std::move(held.socket)),
      wakes_(std::move(wakes)) {}

void PeerServer::Stop() {
  stops_ = true;
  files_->Clear();  // ends waits for their bytes
  Wake();
}

void PeerServer::Wake() { eventfd_write(wakes_.get(), 1); }

PeerServer::~PeerServer() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void PeerServer::FetchEnded() {
  files_->End();
  Wake();
}

void PeerServer::Run() {
  constexpr std::chrono::milliseconds kServes = kServesFor;
  int64_t used_ms = 0;
  bool was_used = true;
  while (!stops_) {
    Join(/*all=*/false);
    const int64_t now_ms = common::MonotonicMs();
    const bool is_used = !files_->HasEnded() || open_ > 0;
    if (is_used || was_used) used_ms = now_ms;
    was_used = is_used;
    const std::chrono::milliseconds left(used_ms + kServes.count() - now_ms);
    if (left.count() <= 0) break;
    Wait(left);
    Accept();
  }
  stops_ = true;
  listener_.Reset();
  Join(/*all=*/true);
  files_->Clear();
  is_over_ = true;
}

void PeerServer::Wait(std::chrono::milliseconds at_most) {
  pollfd waited[] = {{wakes_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  if (is_short_) at_most = std::min(at_most, kShortFor);
  poll(waited, is_short_ ? 1 : 2, static_cast<int>(at_most.count()));
  eventfd_t count = 0;
  eventfd_read(wakes_.get(), &count);
}

void PeerServer::Accept() {
  common::UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // What waits for a descriptor would be found again at once.
  is_short_ = !peer.valid() && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR;
  if (!peer.valid() || served_.size() >= open_ + kStrangersMax) return;
  Served& served = served_.emplace_back();
  try {
    served.thread = std::thread([this, &served, fd = std::move(peer)]() mutable {
      Serve(served, std::move(fd));
      if (served.is_open) --open_;
      served.is_over = true;
      Wake();
    });
  } catch (const std::system_error&) {
    served_.pop_back();
  }
}

void PeerServer::Join(bool all) {
  for (auto each = served_.begin(); each != served_.end();) {
    if (!all && !each->is_over) {
      ++each;
      continue;
    }
    each->thread.join();
    each = served_.erase(each);
  }
}

void PeerServer::Serve(Served& served, common::UniqueFd fd) {
  const auto link = PeerLink::Open(std::move(fd), /*is_server=*/true, secret_, stops_);
  if (!link.ok()) return;
  served.is_open = true;
  if (++open_ > kLinksMax) return;
  std::string sha256(kNameBytes, '\0');
  std::string buffer(kLengthBytes + kPieceBytesMax, '\0');
  while ((*link)->Receive(sha256.data(), sha256.size(), kServesFor).ok() &&
         common::IsSha256Hex(sha256)) {
    if (!Send(**link, sha256, &buffer).ok()) return;
  }
}

absl::Status PeerServer::Send(PeerLink& link, const std::string& sha256, std::string* buffer) {
  uint64_t steps = files_->Steps();
  int64_t stepped_ms = common::MonotonicMs();
  ArrivingFiles::Piece piece;
  for (uint64_t offset = 0; !piece.is_over && !piece.is_whole; offset += piece.bytes) {
    piece = files_->Read(sha256, offset, piece.tries, buffer->data() + kLengthBytes, kPieceBytesMax,
                         std::chrono::milliseconds(kHeardEvery));
    if (stops_) return absl::CancelledError("stopped");
    const int64_t now_ms = common::MonotonicMs();
    if (std::exchange(steps, files_->Steps()) != steps || piece.bytes > 0) stepped_ms = now_ms;
    // Others need not wait for a disk or a store that this node waits for in vain.
    piece.is_over |= now_ms - stepped_ms > std::chrono::milliseconds(kStuckFor).count();
    PutLength(buffer->data(), piece.is_over ? kGone : static_cast<uint32_t>(piece.bytes));
    RETURN_IF_ERROR(link.Send(std::string_view(*buffer).substr(0, kLengthBytes + piece.bytes)));
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
