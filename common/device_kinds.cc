#include "common/device_kinds.h"

#include <algorithm>
#include <iterator>

#include "common/text/strings.h"
#include "common/text/word_list.h"

namespace muster::common {
namespace {

constexpr RankVariable kNpuVariables[] = {
    {"HCCL_IF_BASE_PORT", "${port}"},
    {"HCCL_IF_IP", "${address}"},
    // Ranks reach their first collective minutes apart when each loads its model; HCCL's own 120 s
    // would fail them, and torch_npu wants at least 300 s with a rank table. A dead rank is reported
    // by its worker, not by this timeout. CANN takes 120 to 7200.
    {"HCCL_CONNECT_TIMEOUT", "600"},
    {"HCCL_WHITELIST_DISABLE", "1"},
};

constexpr DeviceKind kKinds[] = {
    {.name = "cpu", .plural = "cpus", .is_host = true, .accelerate_type = "MULTI_CPU"},
    {.name = "gpu",
     .plural = "gpus",
     .spellings = "cuda|nvidia",
     .is_cuda = true,
     .visible_variable = "CUDA_VISIBLE_DEVICES",
     .order = {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},  // NVML's
     .interface_variable = "NCCL_SOCKET_IFNAME",
     .accelerate_type = "MULTI_GPU"},
    {.name = "npu",
     .plural = "npus",
     .spellings = "ascend",
     .models = "910|ascend|npu-",
     .visible_variable = "ASCEND_RT_VISIBLE_DEVICES",  // rejects a list that is not ascending
     .interface_variable = "HCCL_SOCKET_IFNAME",
     .rank_variables = kNpuVariables,
     // CANN 8.3 and later listen on 32 ports from HCCL_IF_BASE_PORT on, earlier ones on 16. The base
     // may be 1024 to 65520. Source: CANN 9.0, HCCL environment variables, HCCL_IF_BASE_PORT.
     .first_port = 60000,
     .last_port = 65535,
     .ports = 32,
     .table_variable = "RANK_TABLE_FILE",
     .series = kAscendSeries,
     .accelerate_type = "MULTI_NPU"},
};
static_assert(kKinds[0].is_host && !kKinds[1].is_host);

template <typename Function>
const DeviceKind* FindIf(const Function& what) {
  const auto found = std::find_if(std::begin(kKinds), std::end(kKinds), what);
  return found == std::end(kKinds) ? nullptr : found;
}

}  // namespace

std::span<const DeviceKind> DeviceKinds() { return kKinds; }
const DeviceKind& HostKind() { return kKinds[0]; }
const DeviceKind& FirstAccelerator() { return kKinds[1]; }

const DeviceKind* FindDeviceKind(std::string_view name) {
  return FindIf([name](const DeviceKind& kind) { return kind.name == name; });
}

const DeviceKind* FindSpelledDeviceKind(std::string_view word) {
  return FindIf([word](const DeviceKind& kind) {
    return kind.name == word || HasWord(kind.spellings, word);
  });
}

DeviceModel FindDeviceModel(std::string_view word) {
  std::string_view begin;
  const DeviceKind* claims = FindIf([&](const DeviceKind& kind) {
    return AnyWord(kind.models, [&](std::string_view each) {
      begin = each;
      return word.starts_with(each);
    });
  });
  if (claims == nullptr) return {&FirstAccelerator(), word};
  const bool is_prefixed = begin == StrCat(claims->name, "-");
  return {claims, is_prefixed ? word.substr(begin.size()) : word};
}

const DeviceKind* FindAccelerateType(std::string_view type) {
  if (type.empty()) return nullptr;
  return FindIf([type](const DeviceKind& kind) { return kind.accelerate_type == type; });
}

bool IsHostKind(std::string_view name) { return name == HostKind().name; }

bool IsCudaKind(std::string_view name) {
  const DeviceKind* kind = FindDeviceKind(name);
  return kind != nullptr && kind->is_cuda;
}

bool IsDevicePort(uint32_t port) {
  return FindIf([port](const DeviceKind& kind) {
           return port >= kind.first_port && port < uint32_t{kind.first_port} + kind.ports;
         }) != nullptr;
}

bool IsInDeviceBlocks(uint32_t port) {
  return FindIf([port](const DeviceKind& kind) {
           return kind.ports > 0 && port >= kind.first_port && port <= kind.last_port;
         }) != nullptr;
}

std::string DeviceKindNames(std::string_view last_separator, std::string_view quote) {
  std::string text;
  for (const DeviceKind& kind : kKinds) {
    const bool is_last = &kind == std::end(kKinds) - 1;
    StrAppend(&text, text.empty() ? "" : is_last ? last_separator : ", ", quote, kind.name, quote);
  }
  return text;
}

}  // namespace muster::common
