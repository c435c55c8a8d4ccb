// The kinds of devices that ranks run on, one row each: all that differs between them. A new kind
// is a row here and its discovery in worker/device_discovery.cc. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace muster::common {

// A variable of a rank's environment. In the value ${address} is the node's address and ${port} the
// first of the kind's ports.
struct RankVariable {
  std::string_view name;
  std::string_view value;
};

struct DeviceKind {
  std::string_view name;    // in specs, on the wire, on command lines, in texts: "2 gpu"
  std::string_view plural;  // "gpus"
  // Other words for it, and how the names of its models begin, as "a|b". A model that no kind
  // claims belongs to the first accelerator; one that begins with "NAME-" goes without that.
  std::string_view spellings = {};
  std::string_view models = {};
  // Processor slots: without a device behind them, as many as are asked for, and on a private
  // worker not counted. One kind is.
  bool is_host = false;
  // Holds the indexes of the devices that a rank may see, ascending. Empty: nothing can be hidden.
  std::string_view visible_variable = {};
  // Makes the runtime count devices in the order in which discovery found them; for every rank.
  RankVariable order = {};
  // Names the network interface that its collectives use; for every rank that does not set it.
  std::string_view interface_variable = {};
  // What its ranks get unless they set it.
  std::span<const RankVariable> rank_variables = {};
  // Ports that its runtime listens on, on every node. Never held for anything else.
  uint16_t first_port = 0;
  uint16_t ports = 0;
  // distributed_type of accelerate's configuration.
  std::string_view accelerate_type = {};
};

// The host's own first, then accelerators: the first of them that a cluster has is what a job gets
// that names no kind.
std::span<const DeviceKind> DeviceKinds();

// The row of a spec's or a node's kind; null: unknown.
const DeviceKind* FindDeviceKind(std::string_view name);
// By name or other spelling, in lower case; null: unknown.
const DeviceKind* FindSpelledDeviceKind(std::string_view word);
// What names a model, in lower case: "h100", "npu-910b".
struct DeviceModel {
  const DeviceKind* kind;  // never null
  std::string_view model;  // without "NAME-"
};
DeviceModel FindDeviceModel(std::string_view word);
// By distributed_type; null: none.
const DeviceKind* FindAccelerateType(std::string_view type);

const DeviceKind& HostKind();
const DeviceKind& FirstAccelerator();
bool IsHostKind(std::string_view name);
// A runtime listens there.
bool IsDevicePort(uint32_t port);

// "cpu, gpu or npu": the names with `quote` around each.
std::string DeviceKindNames(std::string_view last_separator, std::string_view quote = {});

}  // namespace muster::common
