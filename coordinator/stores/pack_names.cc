#include "coordinator/stores/pack_names.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/text/strings.h"

namespace muster::coordinator {

using common::StrCat;

std::string PackName(const PackTerm& term, uint64_t number) {
  return StrCat(term.epoch, "-", term.life, "-", number);
}

std::string MergedPackName(const PackTerm& term, uint64_t number) {
  return StrCat(term.epoch, "-", term.life, "-m", number);
}

std::string PackPrefix(const std::string& prefix, PackKind kind) {
  return StrCat(prefix, kind == PackKind::kLogs ? "logs/" : "metrics/");
}

std::string PackKey(const std::string& prefix, const PackLane& lane, const std::string& name) {
  const std::string of_attempt =
      StrCat(PackPrefix(prefix, lane.kind), lane.job, "/", lane.attempt, "/");
  return lane.kind == PackKind::kLogs ? StrCat(of_attempt, lane.node, "/", name)
                                      : StrCat(of_attempt, name);
}

std::optional<PackAddress> ParsePackKey(const std::string& prefix, const std::string& key) {
  if (!key.starts_with(prefix)) return std::nullopt;
  std::vector<std::string> parts = absl::StrSplit(key.substr(prefix.size()), '/');
  PackAddress address;
  if (parts[0] == "metrics" && parts.size() == 4) {
    address.lane.kind = PackKind::kMetrics;
  } else if (parts[0] == "logs" && parts.size() == 5) {
    address.lane.node = parts[3];
  } else {
    return std::nullopt;
  }
  address.name = parts.back();
  if (!absl::SimpleAtoi(parts[1], &address.lane.job) ||
      !absl::SimpleAtoi(parts[2], &address.lane.attempt)) {
    return std::nullopt;
  }
  return address;
}

}  // namespace muster::coordinator
