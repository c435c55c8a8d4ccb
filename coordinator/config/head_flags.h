// The flags of a coordinator that is one of several.
#pragma once

#include <cstdint>
#include <string>

namespace muster::coordinator {

struct HeadFlags {
  std::string state;      // etcd://…; empty: the state is in the data directory alone
  std::string name;       // of this coordinator among the others; empty: the machine's name
  std::string advertise;  // HOST:PORT by which workers and people reach it; empty: from --listen
  std::string advertise_http;
  int64_t lease_ms = 5'000;
  // How much the log in etcd grows before a snapshot replaces it.
  uint64_t snapshot_bytes = 32 << 20;
  // How large the state in etcd may be before finished jobs and old entries of the audit leave it.
  uint64_t state_bytes = 256 << 20;
  std::string etcd_authority;
  std::string etcd_certificate;
  std::string etcd_key;
  std::string etcd_user;
  std::string etcd_password_file;
};

}  // namespace muster::coordinator
