#include "coordinator/services/peers.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace muster::coordinator {

void Peers::Set(int fd, std::string principal) {
  std::lock_guard lock(mutex_);
  principals_[fd] = std::move(principal);
}

std::string Peers::PrincipalOf(const std::string& peer) const {
  absl::string_view number = peer;
  int fd = -1;
  if (absl::ConsumePrefix(&number, "fd:") && absl::SimpleAtoi(number, &fd)) {
    std::lock_guard lock(mutex_);
    const auto known = principals_.find(fd);
    if (known != principals_.end()) return known->second;
  }
  return absl::StrCat("peer:", peer);
}

}  // namespace muster::coordinator
