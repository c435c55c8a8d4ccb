#include "worker/checkpoints/peer_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
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
      listen(socket, static_cast<int>(kLinksMax)) != 0)
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
  Wake();
}

void PeerServer::Wake() { eventfd_write(wakes_.get(), 1); }

PeerServer::~PeerServer() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void PeerServer::Run() {
  int64_t used_ms = common::MonotonicMs();
  while (!stops_) {
    const int64_t now_ms = common::MonotonicMs();
    if (!files_->HasEnded() || !served_.empty()) used_ms = now_ms;
    if (now_ms - used_ms > std::chrono::milliseconds(kServesFor).count()) break;
    pollfd waited[] = {{listener_.get(), POLLIN, 0}, {wakes_.get(), POLLIN, 0}};
    poll(waited, 2, static_cast<int>(std::chrono::milliseconds(kServesFor).count()));
    eventfd_t count = 0;
    eventfd_read(wakes_.get(), &count);
    Join(/*all=*/false);
    common::UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer.valid() || served_.size() >= kLinksMax) continue;
    Served& served = served_.emplace_back();
    try {
      served.thread = std::thread([this, &served, fd = std::move(peer)]() mutable {
        Serve(std::move(fd));
        served.is_over = true;
        Wake();
      });
    } catch (const std::system_error&) {
      served_.pop_back();
    }
  }
  listener_.Reset();
  Join(/*all=*/true);
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

void PeerServer::Serve(common::UniqueFd fd) {
  const auto link = PeerLink::Open(std::move(fd), /*is_server=*/true, secret_, stops_);
  if (!link.ok()) return;
  std::string sha256(kNameBytes, '\0');
  std::string buffer(kLengthBytes + kPieceBytesMax, '\0');
  while ((*link)->Receive(sha256.data(), sha256.size(), kServesFor).ok() &&
         common::IsSha256Hex(sha256)) {
    if (!Send(**link, sha256, &buffer).ok()) return;
  }
}

absl::Status PeerServer::Send(PeerLink& link, const std::string& sha256, std::string* buffer) {
  for (uint64_t offset = 0;;) {
    const ArrivingFiles::Piece piece =
        files_->Read(sha256, offset, buffer->data() + kLengthBytes, kPieceBytesMax,
                     std::chrono::milliseconds(kHeardEvery));
    if (stops_) return absl::CancelledError("stopped");
    const uint32_t length = piece.is_over ? kGone : static_cast<uint32_t>(piece.bytes);
    PutLength(buffer->data(), length);
    RETURN_IF_ERROR(link.Send(std::string_view(*buffer).substr(0, kLengthBytes + piece.bytes)));
    offset += piece.bytes;
    if (piece.is_over || piece.is_whole) return absl::OkStatus();
  }
}

}  // namespace muster::worker
