// The connections that were handed to gRPC: who is at the other end as far as the socket shows, and which
// certificate was seen on it, so that the connection is closed when the certificate ends. Written before the
// hand-over; gRPC closes the descriptor when the last call of the connection is gone, so no call ever sees the
// next owner of the number. Any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

namespace muster::coordinator {

class Peers {
 public:
  struct Connection {
    int fd = -1;
    uint64_t inode = 0;     // distinguishes it from a later one with the same descriptor
    std::string principal;  // "uid:1000", "peer:10.0.0.7"
  };
  // `name`: what gRPC will call it: "fd:7", and with TLS its address, "ipv4:10.0.0.7:41180". Closes an
  // older connection of that name.
  void Set(const std::string& name, Connection connection);
  // "uid:1000", "peer:10.0.0.7". For a connection that it does not know, "peer:" and gRPC's text.
  std::string PrincipalOf(const std::string& name) const;
  struct Certificate {
    std::string serial;
    int64_t until_ms = 0;
  };
  // Records that calls arrive on the connection with this certificate. True: that is new.
  bool SawCertificate(const std::string& name, const Certificate& certificate);
  bool HasCertificate(const std::string& name) const;
  // Each of these closes connections and returns how many. Connections that were made with one of
  // these certificates,
  uint32_t Cut(const std::set<std::string>& serials);
  // connections of a local account ("uid:1000"),
  uint32_t CutPrincipal(const std::string& principal);
  // connections whose certificate has ended. Costs nothing while none has.
  uint32_t CutExpired(int64_t now_ms);

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  struct Known {
    Connection connection;
    Certificate certificate;
  };
  // False: it is gone already.
  static bool Close(const Known& known);
  template <typename Rule>
  uint32_t CutIf(Rule rule);

  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string, Known> known_;
  std::unordered_map<int, std::string> name_of_;  // by descriptor: a reused number replaces
  int64_t next_end_ms_ = kNever;                  // no certificate ends before
};

uint64_t InodeOf(int fd);

}  // namespace muster::coordinator
