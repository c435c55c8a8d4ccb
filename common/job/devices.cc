// Parses a request for devices: "gpu", "h100", "npu>=64GB", "gpu:8".
#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "common/base/limits.h"
#include "common/device_kinds.h"
#include "common/job/refuse.h"
#include "common/job/shape.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::job {

using common::StrCat;

absl::Status ParseDevices(std::string_view text, v1::DeviceConstraint* device, uint32_t* total) {
  const std::string shown = common::Printable(text);
  const auto wrong = [&](std::string_view why) {
    return Refuse("JC1104", StrCat("\"", shown, "\" is not a device request: ", why),
                  StrCat("use ", common::DeviceKindNames(", "),
                         ", a model like h100, npu>=64GB, or gpu:8 for a total"));
  };
  if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    const absl::StatusOr<int64_t> count = common::ParseInteger(text.substr(colon + 1));
    if (!count.ok() || *count < 1 || *count > common::kRanksMax) {
      return wrong(StrCat("`:` must be followed by a count from 1 to ", common::kRanksMax));
    }
    *total = static_cast<uint32_t>(*count);
    text = text.substr(0, colon);
  }
  if (const size_t at_least = text.find(">="); at_least != std::string_view::npos) {
    const absl::StatusOr<uint64_t> memory = common::ParseMemory(text.substr(at_least + 2));
    if (!memory.ok()) return wrong("`>=` must be followed by a memory size like 64GB");
    device->set_min_memory_bytes(*memory);
    text = text.substr(0, at_least);
  }
  const std::string word = absl::AsciiStrToLower(common::ToAbsl(text));
  if (word.empty() || !std::all_of(word.begin(), word.end(),
                                   [](unsigned char c) { return std::isalnum(c) || c == '-'; })) {
    return wrong("a kind or model consists of letters and digits");
  }
  if (const common::DeviceKind* named = common::FindSpelledDeviceKind(word)) {
    device->set_kind(std::string(named->name));
    return absl::OkStatus();
  }
  const auto [kind, model] = common::FindDeviceModel(word);
  device->set_kind(std::string(kind->name));
  device->set_model(std::string(model));
  return absl::OkStatus();
}

}  // namespace muster::job
