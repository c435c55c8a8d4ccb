// Builds what a rank sees: argv, environment, working directory. The complete launch contract, in
// one place. BuildRanks is pure; CheckLaunch accesses the file system. Any thread.
//
// Decided here, documented in docs/launch-contract.md:
// - The base is the client's environment as in the spec, never this daemon's. Foreign MUSTER_*
//   variables in it (a jobctl inside a job) are removed.
// - A job without gpus on a node that has some gets CUDA_VISIBLE_DEVICES="", and likewise for every
//   kind (common/device_kinds.cc): devices that were not granted are not visible. On a node without
//   such
//   devices the client's value is kept.
// - PATH, HOME, USER and LOGNAME are filled in if the spec has none (--clean-env).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/kernel/shim_protocol.h"

namespace muster::v1 {
class LaunchAttempt;
class RunNotify;
}  // namespace muster::v1

namespace muster::worker {

struct InterfaceAddress {
  std::string interface;
  std::string address;  // numeric, without a scope
};
// getifaddrs, IPv4 and IPv6.
std::vector<InterfaceAddress> ListInterfaceAddresses();

// What the worker adds to a LaunchAttempt.
struct LaunchFacts {
  std::vector<uint16_t> rank_ports = {};  // of RankSockets
  std::string node;                       // its name, for messages
  std::string advertise;
  std::vector<InterfaceAddress> interfaces;
  uint32_t usable_cores = 1;           // physical
  std::set<std::string> device_kinds;  // of this node's devices, granted or not
  uint16_t first_port = 0;             // of the block that the attempt has leased; 0: none
  std::string rank_table;              // RANK_TABLE_FILE; empty: there is none
  std::string mark;                    // NewAttemptMark
  std::string trainer_socket;          // MUSTER_SOCKET
  std::string rank_token_file;         // MUSTER_RANK_TOKEN_FILE
  std::string errors_dir;       // TORCHELASTIC_ERROR_FILE = <errors_dir>/rank-R.json; must exist
  std::string checkpoint_dir;   // MUSTER_CHECKPOINT_DIR
  std::string tensorboard_dir;  // MUSTER_TENSORBOARD_DIR
  std::string diagnostics_dir;  // MUSTER_DIAGNOSTICS_DIR
  std::string secrets_dir;      // MUSTER_SECRETS_DIR; empty: the job asks for none
  std::string resume_dir;       // MUSTER_RESUME_FROM; empty: fresh start, the variable is unset
  std::string home, user;       // of the ranks' account, used if the spec has none
};

// One per local rank, in order. `program` is argv[0] until CheckLaunch has resolved it.
std::vector<common::RankLaunch> BuildRanks(const muster::v1::LaunchAttempt& launch,
                                           const LaunchFacts& facts);

// Builds what a command of the job's `notify` sees: the job's environment, without the variables
// that only a rank has. No device is visible, because others may hold the job's by then.
common::RankLaunch BuildNotify(const muster::v1::RunNotify& order, const LaunchFacts& facts);

// Why no rank can start here.
struct LaunchProblem {
  int launch_errno = 0;  // goes to RankExit.launch_errno
  int exit_code = 0;     // 127 missing, 126 not executable or bad workdir
  std::string text;      // one sentence: node, value, reason, "; fix: …"
};

// Checks workdir and command as a shell would, before any rank starts, and fills in every rank's
// `program`.
std::optional<LaunchProblem> CheckLaunch(const std::string& node,
                                         std::vector<common::RankLaunch>* ranks);

}  // namespace muster::worker
