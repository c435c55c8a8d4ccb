#include "coordinator/base/disk_share.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::coordinator {

std::string DiskShare::Text() const {
  return percent > 0 ? common::StrCat(percent, "%") : common::HumanBytes(bytes);
}

absl::StatusOr<DiskShare> ParseDiskShare(std::string_view text) {
  if (text == "0") return DiskShare{};
  absl::string_view number = common::ToAbsl(text);
  if (absl::ConsumeSuffix(&number, "%")) {
    DiskShare share;
    if (absl::SimpleAtoi(number, &share.percent) && share.percent >= 1 && share.percent <= 100) {
      return share;
    }
  } else if (const absl::StatusOr<uint64_t> bytes = common::ParseByteSize(text);
             bytes.ok() && *bytes > 0) {
    return DiskShare{.bytes = *bytes};
  }
  return absl::InvalidArgumentError(
      "must be a size like 50GB, a share like 10%, or 0 for no limit");
}

}  // namespace muster::coordinator
