#include "worker/rendezvous/attempt_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/hash/hex.h"
#include "common/kernel/shim_protocol.h"
#include "common/text/strings.h"
#include "worker/rendezvous/rank_zero_store.h"

namespace muster::worker {
namespace {

constexpr int kBacklog = 4'096;  // connections of a rank that the store has not accepted yet

class HeldForStore final : public Rendezvous {
 public:
  HeldForStore(std::unique_ptr<Rendezvous> port, std::string secret)
      : port_(std::move(port)), secret_(std::move(secret)) {}

  uint16_t Port() const override { return port_->Port(); }
  std::vector<int> Descriptors() const override { return port_->Descriptors(); }
  std::string Secret() const override { return secret_; }

 private:
  const std::unique_ptr<Rendezvous> port_;
  const std::string secret_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> OpenAttemptStore(const v1::PrepareAttempt& order,
                                                             PortHolder& ports) {
  ASSIGN_OR_RETURN(std::unique_ptr<Rendezvous> port, OpenForRankZero(order, ports));
  if (port == nullptr) return nullptr;
  std::string secret(common::kRendezvousSecretBytes, '\0');
  if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return common::ErrnoStatus("the kernel gives no random numbers for the attempt's secret");
  }
  return std::make_unique<HeldForStore>(std::move(port), std::move(secret));
}

absl::StatusOr<RankSockets> ListenForRanks(const v1::LaunchAttempt& launch) {
  RankSockets all;
  for (uint32_t i = 0; i < launch.part().local_world_size(); ++i) {
    ASSIGN_OR_RETURN(HeldPort port, PortHolder::HoldOnLoopback());
    // Now, so that a rank that is faster than the store's process waits for it and is not refused.
    if (listen(port.socket.get(), kBacklog) != 0) {
      return common::ErrnoStatus("cannot listen on 127.0.0.1 for the ranks");
    }
    all.ports.push_back(port.port);
    all.sockets.push_back(std::move(port.socket));
  }
  return all;
}

void TellOfAttemptStore(const v1::LaunchAttempt& launch, const std::vector<uint16_t>& rank_ports,
                        uint32_t local_rank, std::map<std::string, std::string>* environment) {
  (*environment)["MASTER_ADDR"] = "127.0.0.1";
  (*environment)["MASTER_PORT"] =
      common::StrCat(local_rank < rank_ports.size() ? rank_ports[local_rank] : 0);
  (*environment)["MUSTER_MASTER_ADDR"] = launch.master_addr();
  (*environment)["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // no rank opens one
}

std::string AttemptStoreSettings(const v1::LaunchAttempt& launch, size_t offered, size_t sockets) {
  std::string text =
      common::StrCat("nodes ", launch.group_world_size(), "\nworld ", launch.world_size(), "\n");
  if (launch.group_world_size() > 1) {
    common::StrAppend(&text, "secret ", common::ToHex(launch.rendezvous_secret()), "\n");
  }
  if (!launch.is_master()) {
    common::StrAppend(&text, "upstream ", launch.master_addr(), " ", launch.master_port(), "\n");
  } else if (launch.group_world_size() > 1) {
    common::StrAppend(&text, "listen ", common::kFirstHeldPortFd, "\n");
  }
  for (size_t i = 0; i < sockets; ++i) {
    common::StrAppend(&text, "local ", common::kFirstHeldPortFd + offered + i, "\n");
  }
  return text;
}

}  // namespace muster::worker
