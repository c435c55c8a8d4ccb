#include "common/outputs.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/text/relative_path.h"

namespace muster::common {

std::optional<std::string> CleanOutput(std::string_view output) {
  if (output.empty()) return std::nullopt;
  while (output.starts_with("./")) output.remove_prefix(2);
  while (output.size() > 1 && output.ends_with('/')) output.remove_suffix(1);
  if (output.empty() || output == ".") return std::string();
  if (!StaysInside(output)) return std::nullopt;
  return std::string(output);
}

uint64_t OutputsBytesMax(uint64_t quota_bytes) {
  return quota_bytes == 0 ? kOutputsBytesMax : std::min(quota_bytes, kOutputsBytesMax);
}

std::string WhyNoMoreOutputs(uint64_t quota_bytes) {
  if (OutputsBytesMax(quota_bytes) != quota_bytes) return "";
  return ", which is what the coordinator keeps of a job (--job-outputs-quota)";
}

bool LiesIn(std::string_view path, std::string_view clean_output) {
  return clean_output.empty() || IsWithin(path, clean_output);
}

}  // namespace muster::common
