// What a coordinator answers while another one leads: who that is, to GetServer; who is registered, to
// ListCoordinators; to every other call that it stands by (UNAVAILABLE, JC1630). On the same addresses, and with the same certificates, as when it leads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/net/listener.h"
#include "coordinator/stores/leading.h"

namespace muster::coordinator {

class Cluster;

class StandbyServer {
 public:
  struct Options {
    std::string socket;                // path, prepared; empty: none
    TcpPort port;                      // already listening; without descriptors: none
    const Cluster* cluster = nullptr;  // the port speaks TLS with its certificates; null: plaintext
    std::string name;                  // of this coordinator
    std::function<HeadsView()> view;   // any thread
  };
  static absl::StatusOr<std::unique_ptr<StandbyServer>> Start(Options options);
  // Ends all calls, and frees the addresses.
  ~StandbyServer();

 private:
  struct Parts;
  explicit StandbyServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::coordinator
