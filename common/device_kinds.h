// The kinds of devices that ranks run on, one row each, with everything that differs between them.
// A new kind is a row here plus its discovery in worker/devices/device_discovery.cc. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/device_series.h"

namespace muster::common {

// A variable in a rank's environment. In the value, ${address} is the node's address and ${port} the
// first port of the block that the attempt has leased on the node. A variable with ${address} is set
// only if that is an IP address.
struct RankVariable {
  std::string_view name;
  std::string_view value;
};

struct DeviceKind {
  std::string_view name;    // in specs, on the wire, on command lines, in messages: "2 gpu"
  std::string_view plural;  // "gpus"
  // Aliases, and the prefixes of its model names, as "a|b". A model that no kind claims belongs to
  // the first accelerator; a "NAME-" prefix is stripped.
  std::string_view spellings = {};
  std::string_view models = {};
  // Processor slots: with no device behind them there are as many as requested, and a private
  // worker does not count them. Exactly one kind is the host.
  bool is_host = false;
  // Runs CUDA: the versions of a node's driver (v1::NodeFacts) are those of its driver.
  bool is_cuda = false;
  // Lists the indexes of the devices that a rank may see, ascending. Empty: devices cannot be
  // hidden.
  std::string_view visible_variable = {};
  // Makes the runtime number devices in discovery order; set for every rank.
  RankVariable order = {};
  // Names the network interface for collectives; set for every rank that does not set it.
  std::string_view interface_variable = {};
  // Defaults for its ranks' environment.
  std::span<const RankVariable> rank_variables = {};
  // Ports that its runtime listens on, on every node: each attempt leases a block of `ports` in
  // first_port to last_port (worker/rendezvous/port_block.h). 0 ports: it needs none.
  uint16_t first_port = 0;
  uint16_t last_port = 0;
  uint16_t ports = 0;
  // Names the file with the addresses of all ranks' devices, if these are known.
  std::string_view table_variable = {};
  // What tells its models apart before a rank starts.
  std::span<const DeviceSeries> series = {};
  // distributed_type of accelerate's configuration.
  std::string_view accelerate_type = {};
};

// The host's own kind first, then accelerators. A job that names no kind gets the first accelerator
// that the cluster has.
std::span<const DeviceKind> DeviceKinds();

// The row of a spec's or a node's kind; null if unknown.
const DeviceKind* FindDeviceKind(std::string_view name);
// By name or alias, lower case; null if unknown.
const DeviceKind* FindSpelledDeviceKind(std::string_view word);
// A word that names a model, lower case: "h100", "npu-910b".
struct DeviceModel {
  const DeviceKind* kind;  // never null
  std::string_view model;  // without "NAME-"
};
DeviceModel FindDeviceModel(std::string_view word);
// By distributed_type; null if none.
const DeviceKind* FindAccelerateType(std::string_view type);

const DeviceKind& HostKind();
const DeviceKind& FirstAccelerator();
bool IsHostKind(std::string_view name);
bool IsCudaKind(std::string_view name);
// True if a device runtime that Muster did not start listens on this port: the first block of a kind.
bool IsDevicePort(uint32_t port);
// True if the port is in a block that an attempt may lease.
bool IsInDeviceBlocks(uint32_t port);

// "cpu, gpu or npu": each name surrounded by `quote`.
std::string DeviceKindNames(std::string_view last_separator, std::string_view quote = {});

}  // namespace muster::common
