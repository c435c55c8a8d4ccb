#include "coordinator/services/peers.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {

uint64_t InodeOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

void Peers::Set(const std::string& name, Connection connection) {
  std::lock_guard lock(mutex_);
  std::string& used_by = name_of_[connection.fd];
  // A later connection may have the name by now, over another descriptor.
  const auto before = used_by == name ? known_.end() : known_.find(used_by);
  if (before != known_.end() && before->second.connection.fd == connection.fd) {
    known_.erase(before);
  }
  used_by = name;
  known_[name] = {.connection = std::move(connection), .serial = ""};
}

std::string Peers::PrincipalOf(const std::string& name) const {
  {
    std::lock_guard lock(mutex_);
    const auto known = known_.find(name);
    if (known != known_.end()) return known->second.connection.principal;
  }
  return absl::StrCat("peer:", name);
}

void Peers::SawCertificate(const std::string& name, const std::string& serial) {
  std::lock_guard lock(mutex_);
  const auto known = known_.find(name);
  if (known != known_.end() && known->second.serial != serial) known->second.serial = serial;
}

uint32_t Peers::Cut(const std::set<std::string>& serials) {
  std::lock_guard lock(mutex_);
  uint32_t cut = 0;
  for (const auto& [name, known] : known_) {
    const Connection& connection = known.connection;
    if (!serials.contains(known.serial) || InodeOf(connection.fd) != connection.inode) continue;
    if (shutdown(connection.fd, SHUT_RDWR) == 0) ++cut;
  }
  return cut;
}

}  // namespace muster::coordinator
