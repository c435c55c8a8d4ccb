// Ports that the kernel keeps out of what it gives to outgoing connections: without that, a connection may
// take a port that a device's runtime is about to bind. Decoders are pure. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::common {

struct PortSpan {
  uint16_t first = 0;
  uint16_t last = 0;  // inclusive
  bool operator==(const PortSpan&) const = default;
};

struct PortSettings {
  PortSpan ephemeral;              // net.ipv4.ip_local_port_range; 0-0: not known
  std::vector<PortSpan> reserved;  // net.ipv4.ip_local_reserved_ports
};
// `root` precedes /proc/sys: "" for this machine.
PortSettings ReadPortSettings(const std::string& root = "");

// "32768\t60999\n"; 0-0 if it is not that.
PortSpan ParsePortRangeSetting(std::string_view text);
// "8080,60000-65535\n"; what is not a port or a span is skipped.
std::vector<PortSpan> ParseReservedPorts(std::string_view text);

// What of `ports` the kernel may give to outgoing connections; 0-0: nothing.
PortSpan OpenToConnections(const PortSettings& settings, PortSpan ports);
// The command that reserves `ports` and keeps what is reserved already:
// "sysctl -w net.ipv4.ip_local_reserved_ports=8080,60000-65535".
std::string ReserveCommand(const PortSettings& settings, PortSpan ports);

}  // namespace muster::common
