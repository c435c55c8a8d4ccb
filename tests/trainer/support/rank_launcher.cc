// The launcher's side of the contract: ranks, a held MASTER_PORT, one thread per rank.
#include "support/rank_launcher.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <sstream>

#include "base/files.h"

namespace muster {
namespace {

// A reserved port that no other process gets while it is held: a plain bind, then SO_REUSEADDR, so
// that rank 0's own bind with SO_REUSEADDR succeeds.
class HeldPort {
 public:
  HeldPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t bytes = sizeof(address);
    ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), bytes);
    const int on = 1;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  FileDescriptor fd_;
  int port_ = 0;
};

}  // namespace

std::vector<ChildResult> run_ranks(const RankPlan& plan) {
  const HeldPort port;
  std::vector<ChildProcess> ranks;
  for (int rank = 0; rank < plan.world_size; ++rank) {
    const int node = rank * plan.nodes / plan.world_size;
    const int first = (node * plan.world_size + plan.nodes - 1) / plan.nodes;
    const int after = ((node + 1) * plan.world_size + plan.nodes - 1) / plan.nodes;
    std::map<std::string, std::string> environment = {
        {"RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(plan.world_size)},
        {"LOCAL_RANK", std::to_string(rank - first)},
        {"LOCAL_WORLD_SIZE", std::to_string(after - first)},
        {"GROUP_RANK", std::to_string(node)},
        {"GROUP_WORLD_SIZE", std::to_string(plan.nodes)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port.port())},
        {"OMP_NUM_THREADS", "1"}};
    for (const auto& [name, value] : plan.environment) environment[name] = value;
    if (plan.environment_of) {
      for (const auto& [name, value] : plan.environment_of(rank)) environment[name] = value;
    }
    ranks.emplace_back(plan.argv, environment);
  }
  const auto deadline = std::chrono::steady_clock::now() + plan.deadline;
  std::vector<ChildResult> results;
  for (ChildProcess& rank : ranks) results.push_back(rank.wait(deadline));
  return results;
}

std::map<std::string, std::string> said(const ChildResult& result) {
  std::map<std::string, std::string> values;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    if (space != std::string::npos) values[line.substr(0, space)] = line.substr(space + 1);
  }
  return values;
}

}  // namespace muster
