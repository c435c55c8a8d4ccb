// Holds TCP ports for rank 0 to listen on: bound but never listening, first without, then with
// SO_REUSEADDR, so that every plain bind fails while the trainer's own SO_REUSEADDR listener
// succeeds. Any thread. Source: tested on Linux 6.18; docs/launch-contract.md. With the option set
// before bind, two holders could get the same port.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::worker {

struct PortRange {
  uint16_t first = 20000;
  uint16_t last = 28999;  // inclusive; below the kernel's ephemeral ports
};
// "LO-HI". INVALID_ARGUMENT with the reason and the fix.
absl::StatusOr<PortRange> ParsePortRange(std::string_view text);

struct HeldPort {
  uint16_t port = 0;
  common::UniqueFd socket;  // [::] for both families, 0.0.0.0 where the host has no IPv6
};

class PortHolder {
 public:
  // `seed` spreads the first candidate over the range, so that workers on one host rarely collide.
  PortHolder(PortRange range, uint64_t seed);
  // `count` free ports, contiguous if requested. Never 29400, 29500 (torch's own) or one that a
  // device's runtime listens on. RESOURCE_EXHAUSTED names the range and the fix.
  absl::StatusOr<std::vector<HeldPort>> Hold(uint32_t count, bool contiguous);
  // A free port that the kernel chooses, for when the range is used up. Never one of those above.
  static absl::StatusOr<std::vector<HeldPort>> HoldOutside();
  // One on 127.0.0.1 alone, that the kernel chooses.
  static absl::StatusOr<HeldPort> HoldOnLoopback();
  // Holds the same port again, e.g. after a restart of the worker before the launch. ALREADY_EXISTS
  // if it is in use.
  static absl::StatusOr<HeldPort> HoldExactly(uint16_t port);

 private:
  PortRange range_;
  uint64_t next_;  // round-robin: a port that was just released is not reused immediately
};

}  // namespace muster::worker
