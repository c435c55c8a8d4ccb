#include "coordinator/services/peers.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {

uint64_t InodeOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

void Peers::Set(const std::string& name, Connection connection) {
  std::lock_guard lock(mutex_);
  // The same port of the same client, connected to another of our addresses: if both had one name,
  // only one of them could be closed later.
  const auto same = known_.find(name);
  if (same != known_.end() && same->second.connection.fd != connection.fd) Close(same->second);
  std::string& used_by = name_of_[connection.fd];
  // A later connection may have the name by now, over another descriptor.
  const auto before = used_by == name ? known_.end() : known_.find(used_by);
  if (before != known_.end() && before->second.connection.fd == connection.fd) {
    known_.erase(before);
  }
  used_by = name;
  known_[name] = {.connection = std::move(connection), .certificate = {}};
}

std::string Peers::PrincipalOf(const std::string& name) const {
  {
    std::lock_guard lock(mutex_);
    const auto known = known_.find(name);
    if (known != known_.end()) return known->second.connection.principal;
  }
  return absl::StrCat("peer:", name);
}

bool Peers::SawCertificate(const std::string& name, const Certificate& certificate) {
  std::lock_guard lock(mutex_);
  const auto known = known_.find(name);
  if (known == known_.end() || known->second.certificate.serial == certificate.serial) return false;
  known->second.certificate = certificate;
  next_end_ms_ = std::min(next_end_ms_, certificate.until_ms);
  return true;
}

bool Peers::HasCertificate(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto known = known_.find(name);
  return known != known_.end() && !known->second.certificate.serial.empty();
}

bool Peers::Close(const Known& known) {
  const auto& [fd, inode, principal] = known.connection;
  return InodeOf(fd) == inode && shutdown(fd, SHUT_RDWR) == 0;
}

// With mutex_ held.
template <typename Rule>
uint32_t Peers::CutIf(Rule rule) {
  uint32_t cut = 0;
  for (auto& [name, known] : known_) {
    if (rule(known) && Close(known)) ++cut;
  }
  return cut;
}

uint32_t Peers::Cut(const std::set<std::string>& serials) {
  std::lock_guard lock(mutex_);
  return CutIf([&](const Known& known) { return serials.contains(known.certificate.serial); });
}

uint32_t Peers::CutPrincipal(const std::string& principal) {
  std::lock_guard lock(mutex_);
  return CutIf([&](const Known& known) { return known.connection.principal == principal; });
}

uint32_t Peers::CutExpired(int64_t now_ms) {
  std::lock_guard lock(mutex_);
  if (now_ms < next_end_ms_) return 0;
  next_end_ms_ = kNever;
  return CutIf([&](Known& known) {
    const int64_t until_ms = known.certificate.until_ms;
    if (until_ms == 0) return false;
    if (now_ms < until_ms) next_end_ms_ = std::min(next_end_ms_, until_ms);
    // Close it only once.
    if (now_ms >= until_ms) known.certificate.until_ms = 0;
    return now_ms >= until_ms;
  });
}

}  // namespace muster::coordinator
