#include "common/device_series.h"

#include <string>

#include "absl/strings/ascii.h"
#include "common/text/strings.h"
#include "common/text/word_list.h"

namespace muster::common {

const DeviceSeries* FindDeviceSeries(std::span<const DeviceSeries> rows, std::string_view model) {
  constexpr std::string_view kVendor = "ascend";
  const std::string lower = absl::AsciiStrToLower(ToAbsl(model));
  std::string_view name = lower;
  if (name.starts_with(kVendor)) name.remove_prefix(kVendor.size());
  for (const DeviceSeries& row : rows) {
    if (AnyWord(row.models, [name](std::string_view each) { return name.starts_with(each); }))
      return &row;
  }
  return nullptr;
}

}  // namespace muster::common
