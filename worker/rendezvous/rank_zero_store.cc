#include "worker/rendezvous/rank_zero_store.h"

#include <utility>

#include "common/base/status.h"
#include "common/node_shortage.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

class HeldForRankZero final : public Rendezvous {
 public:
  explicit HeldForRankZero(std::vector<HeldPort> held) : held_(std::move(held)) {}

  uint16_t Port() const override { return held_.front().port; }
  std::vector<int> Descriptors() const override {
    std::vector<int> fds;
    for (const HeldPort& port : held_) fds.push_back(port.socket.get());
    return fds;
  }

 private:
  std::vector<HeldPort> held_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Rendezvous>> OpenForRankZero(const v1::PrepareAttempt& order,
                                                            PortHolder& ports) {
  if (order.count() == 0) return nullptr;
  absl::StatusOr<std::vector<HeldPort>> held = ports.Hold(order.count(), order.contiguous());
  if (!held.ok() && order.count() == 1 && order.purpose() == common::kMasterPortOfOneNode) {
    held = PortHolder::HoldOutside();
  }
  RETURN_IF_ERROR(held.status());
  return std::make_unique<HeldForRankZero>(*std::move(held));
}

void TellOfRankZero(const v1::LaunchAttempt& launch, const std::vector<uint16_t>&, uint32_t,
                    std::map<std::string, std::string>* environment) {
  (*environment)["MASTER_ADDR"] = launch.master_addr();
  (*environment)["MASTER_PORT"] = common::StrCat(launch.master_port());
  (*environment)["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // rank 0 hosts the store itself
}

}  // namespace muster::worker
