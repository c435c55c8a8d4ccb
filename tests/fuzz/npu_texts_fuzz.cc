// What a node reads of its NPUs: npu-smi's table, hccn.conf and the kernel's reserved ports. Input: two pieces
// and the rest, one for each.
#include "common/base/limits.h"
#include "common/base/loopback.h"
#include "common/reserved_ports.h"
#include "fuzz/harness.h"
#include "worker/devices/ascend_npus.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  testing::Pieces input(testing::Text(data, size));
  std::string_view table, addresses;
  if (!input.Next(&table) || !input.Next(&addresses)) return 0;
  for (const auto& [index, device] : worker::ParseNpuSmi(table)) {
    FUZZ_EXPECT(index == device.index && index < common::kNodeDevicesMax);
    FUZZ_EXPECT(device.model.size() <= 64 && device.model.find('|') == std::string::npos);
    FUZZ_EXPECT(device.memory_bytes <= uint64_t{16} << 40);
  }
  for (const auto& [index, address] : worker::ParseHccnConf(addresses)) {
    FUZZ_EXPECT(index < common::kNodeDevicesMax && common::IsIpAddress(address));
  }
  for (const common::PortSpan& span : common::ParseReservedPorts(input.Rest())) {
    FUZZ_EXPECT(span.first <= span.last);
  }
  const common::PortSettings settings = {common::ParsePortRangeSetting(input.Rest()),
                                         common::ParseReservedPorts(input.Rest())};
  const common::PortSpan open = common::OpenToConnections(settings, {60000, 65535});
  FUZZ_EXPECT(open.first == 0 || (open.first >= 60000 && open.first <= open.last));
  return 0;
}
