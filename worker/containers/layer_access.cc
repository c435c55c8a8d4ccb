#include "worker/containers/layer_access.h"

#include <sys/xattr.h>

#include <bit>
#include <cerrno>
#include <cstdint>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

// Source: linux/posix_acl_xattr.h, linux/posix_acl.h; little-endian.
constexpr char kAccessList[] = "system.posix_acl_access";
constexpr uint32_t kVersion = 2;
constexpr uint16_t kOwner = 0x01, kUser = 0x02, kGroup = 0x04, kMask = 0x10, kOther = 0x20;
constexpr uint16_t kAll = 7, kPass = 1, kNothing = 0;
constexpr uint32_t kNobody = ~0U;

struct Entry {
  uint16_t tag = 0;
  uint16_t rights = 0;
  uint32_t id = kNobody;
};
struct List {
  uint32_t version = kVersion;
  Entry entries[5];
};
static_assert(sizeof(List) == 44 && std::endian::native == std::endian::little);

}  // namespace

absl::Status LetPass(const std::string& directory, uid_t account) {
  const List list{.entries = {{kOwner, kAll},
                              {kUser, kPass, account},
                              {kGroup, kNothing},
                              {kMask, kPass},
                              {kOther, kNothing}}};
  if (setxattr(directory.c_str(), kAccessList, &list, sizeof list, 0) == 0) return absl::OkStatus();
  if (errno == ENOTSUP)
    return absl::UnimplementedError(
        common::StrCat("the file system of ", directory, " has no access control lists"));
  return common::ErrnoStatus(common::StrCat("cannot open ", directory, " to its ranks' account"));
}

}  // namespace muster::worker
