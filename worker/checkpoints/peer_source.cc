#include "worker/checkpoints/peer_source.h"

#include <string>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/http/dial.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "worker/checkpoints/arriving_files.h"
#include "worker/checkpoints/peer_link.h"
#include "worker/checkpoints/peer_server.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr std::chrono::milliseconds kConnectAgainAfter{500};

absl::StatusOr<uint32_t> ReceiveLength(PeerLink& link) {
  unsigned char bytes[4];
  RETURN_IF_ERROR(link.Receive(reinterpret_cast<char*>(bytes), sizeof bytes));
  return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

}  // namespace

PeerSource::PeerSource(v1::FilePeer peer, const std::atomic<bool>& stop)
    : peer_(std::move(peer)),
      stop_(stop),
      is_usable_(!peer_.address().empty() && peer_.port() > 0 && peer_.port() <= UINT16_MAX &&
                 peer_.secret().size() == common::kRendezvousSecretBytes) {}

PeerSource::~PeerSource() = default;

bool PeerSource::MayHave(const Blob& blob) const {
  return is_usable_ && blob.size >= ArrivingFiles::kBytesMin;
}

absl::Status PeerSource::Fetch(const Blob& blob, int fd,
                               const std::function<void(uint64_t)>& progress) {
  written_ = absl::OkStatus();
  absl::Status fetched = link_ == nullptr ? Connect() : absl::OkStatus();
  if (!fetched.ok() && !stop_) {  // it may have had too many connections
    std::this_thread::sleep_for(kConnectAgainAfter);
    fetched = Connect();
  }
  if (link_ != nullptr) fetched = Receive(blob, fd, progress);
  // It has this one no more, but may have others.
  if (fetched.ok() || stop_ || (link_ != nullptr && absl::IsNotFound(fetched))) return fetched;
  if (!written_.ok()) return fetched;
  is_usable_ = false;
  link_ = nullptr;
  common::LogInfo(
      StrCat("files of the checkpoint are not fetched from another node of the job node_address=",
             peer_.address(), ":", peer_.port(), " reason=\"", fetched.message(), "\""));
  return fetched;
}

absl::Status PeerSource::Connect() {
  const common::Deadline deadline(PeerLink::kOpenWithin, &stop_);
  ASSIGN_OR_RETURN(common::UniqueFd fd, common::Dial({.host = peer_.address(),
                                                      .port = static_cast<uint16_t>(peer_.port())},
                                                     nullptr, deadline));
  ASSIGN_OR_RETURN(link_,
                   PeerLink::Open(std::move(fd), /*is_server=*/false, peer_.secret(), stop_));
  return absl::OkStatus();
}

absl::Status PeerSource::Receive(const Blob& blob, int fd,
                                 const std::function<void(uint64_t)>& progress) {
  RETURN_IF_ERROR(link_->Send(blob.sha256));
  common::Sha256 hash;
  std::string piece(PeerServer::kPieceBytesMax, '\0');
  int64_t got_ms = common::MonotonicMs();
  for (uint64_t got = 0; got < blob.size;) {
    ASSIGN_OR_RETURN(const uint32_t length, ReceiveLength(*link_));
    if (length == PeerServer::kGone) return absl::NotFoundError("it will not have the file");
    if (length > piece.size() || length > blob.size - got)
      return absl::DataLossError("it sent more than the file has");
    RETURN_IF_ERROR(link_->Receive(piece.data(), length));
    const std::string_view bytes = std::string_view(piece).substr(0, length);
    written_ = common::WriteAll(fd, bytes);
    RETURN_IF_ERROR(written_);
    hash.Update(bytes);
    got += length;
    if (length > 0) {
      progress(got);
      got_ms = common::MonotonicMs();
    } else if (common::MonotonicMs() - got_ms > std::chrono::milliseconds(kNoByteFor).count()) {
      return absl::DeadlineExceededError("it sends nothing");
    }
  }
  if (hash.FinishHex() == blob.sha256) return absl::OkStatus();
  return absl::DataLossError("what it sent does not match its SHA-256");
}

}  // namespace muster::worker
