// The system's ssh as a child: BatchMode, so that it never asks, with bounded output and time. Any
// thread; blocks.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cluster/node_list.h"

namespace muster::client::cluster {

struct SshSettings {
  std::string program;               // its path
  std::string config;                // -F; empty: ssh's own
  std::vector<std::string> options;  // -o each
};
// Finds ssh. JC1804 if there is none.
absl::StatusOr<SshSettings> FindSsh(std::string config, std::vector<std::string> options);

class SshHost {
 public:
  SshHost(SshSettings settings, SshNode node);

  const SshNode& node() const { return node_; }
  // The host name that ssh's configuration gives for an alias; the given name if ssh does not report one.
  std::string HostName() const;
  // The output of `script` on the node; /bin/sh reads it from standard input, so no other user sees it.
  // JC1804: ssh cannot reach the node. JC1805: the script failed, with the end of its stderr.
  absl::StatusOr<std::string> Run(std::string_view script, std::chrono::seconds within) const;
  // The same for one command line of plain words that reads `input`.
  absl::StatusOr<std::string> Feed(const std::string& line, std::string_view input,
                                   std::chrono::seconds within) const;

 private:
  std::vector<std::string> Words() const;

  const SshSettings settings_;
  const SshNode node_;
};

// The argv up to the command. Pure.
std::vector<std::string> SshWords(const SshSettings& settings, const SshNode& node);

}  // namespace muster::client::cluster
