// jobctl's record of a cluster that it started: one small JSON file beside config.yaml,
// clusters/NAME.json, mode 0600.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cluster/node_list.h"
#include "client/session/settings.h"

namespace muster::client::cluster {

struct ClusterRecord {
  std::string name;
  std::string on;         // "ssh", "slurm"
  std::string id;         // also in a file on each node: jobctl removes only what has it
  std::string directory;  // ssh: of each node, relative to the home or absolute; slurm: shared
  // ssh
  std::string ssh_config;                // empty: ssh's own
  std::vector<std::string> ssh_options;  // "StrictHostKeyChecking=accept-new"
  std::string head;                      // name of the coordinator's node
  std::vector<SshNode> nodes;
  // slurm
  std::string job;   // the newest allocation
  std::string size;  // its nodes, "4" or "2-4"
};

// CONFIG-DIR/clusters/NAME.json.
std::string RecordPath(const ConfigFile& file, std::string_view name);
// ALREADY_EXISTS (JC1809): another jobctl was faster.
absl::Status CreateRecord(const ConfigFile& file, const ClusterRecord& record);
absl::Status SaveRecord(const ConfigFile& file, const ClusterRecord& record);
// NOT_FOUND (JC1802): there is none; DATA_LOSS (JC1803): it is not a record.
absl::StatusOr<ClusterRecord> LoadRecord(const ConfigFile& file, const std::string& name);
absl::Status RemoveRecord(const ConfigFile& file, const std::string& name);
// Sorted.
absl::StatusOr<std::vector<std::string>> RecordNames(const ConfigFile& file);

// To the file's text and back. A record that is read is checked like typed input. Pure.
std::string TextOfRecord(const ClusterRecord& record);
absl::StatusOr<ClusterRecord> ParseRecord(std::string_view text);

}  // namespace muster::client::cluster
