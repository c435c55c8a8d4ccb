#include "worker/launch/rank_table.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/base/loopback.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/files/plain_files.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr mode_t kTableMode = 0400;

bool IsFitNode(const v1::RankTableNode& node) {
  bool is_fit =
      node.devices_size() == node.device_addresses_size() && common::IsIpAddress(node.address());
  for (const std::string& address : node.device_addresses()) {
    is_fit = is_fit && common::IsIpAddress(address);
  }
  return is_fit;
}

}  // namespace

// All values are texts, numbers too: HCCL refuses others.
std::string RankTableText(const v1::LaunchAttempt& launch) {
  if (launch.rank_table().empty()) return "";
  common::JsonArray servers("\n  ");
  for (const v1::RankTableNode& node : launch.rank_table()) {
    if (!IsFitNode(node)) return "";
    common::JsonArray devices("\n    ");
    for (int i = 0; i < node.devices_size(); ++i) {
      const uint32_t rank = node.first_rank() + static_cast<uint32_t>(i);
      devices.Add(common::JsonObject()
                      .Add("device_id", StrCat(node.devices(i)))
                      .Add("device_ip", node.device_addresses(i))
                      .Add("rank_id", StrCat(rank))
                      .Done());
    }
    servers.Add(common::JsonObject()
                    .Add("server_id", node.address())
                    .Add("device", devices.Done())
                    .Add("host_nic_ip", "reserve")
                    .Done());
  }
  return common::JsonObject()
      .Add("version", "1.0")
      .Add("server_count", StrCat(launch.rank_table_size()))
      .Add("server_list", servers.Done("\n"))
      .Add("status", "completed")
      .Line();
}

absl::Status WriteRankTable(const Paths& paths, const AttemptKey& key,
                            const v1::LaunchAttempt& launch, const common::LaunchAccount& account) {
  const std::string text = RankTableText(launch);
  if (text.empty()) return absl::OkStatus();
  const std::string path = paths.RankTable(key);
  // Not synced, like launch.pb: no rank that needs it survives a power failure.
  if (!common::ReplaceFile(path, text, /*durable=*/false) || chmod(path.c_str(), kTableMode) != 0 ||
      (account.is_other && lchown(path.c_str(), account.uid, account.gid) != 0)) {
    return common::ErrnoStatus(StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
