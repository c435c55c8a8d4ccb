#include "coordinator/core/state/owner.h"

namespace muster::coordinator {
namespace {

constexpr char kBeforeId = '#';

}  // namespace

std::string OwnerKey(std::string_view name, std::string_view id) {
  std::string key(name);
  if (!id.empty()) key.append(1, kBeforeId).append(id);
  return key;
}

std::string OwnerKey(const Caller& caller) { return OwnerKey(caller.principal, caller.user_id); }

std::string OwnerKey(const v1::JobRecord& job) { return OwnerKey(job.owner(), job.owner_id()); }

Owner OwnerOfKey(std::string_view key) {
  const size_t mark = key.rfind(kBeforeId);
  if (mark == std::string_view::npos) return {.name = std::string(key), .id = ""};
  return {.name = std::string(key.substr(0, mark)), .id = std::string(key.substr(mark + 1))};
}

}  // namespace muster::coordinator
