#include "coordinator/notify/delivery.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/text/strings.h"

namespace muster::coordinator {

using common::StrCat;

std::string NameOf(const std::string& cluster_id, const Delivery& delivery) {
  std::string name = StrCat(cluster_id, "-", delivery.job, "-", delivery.entry);
  if (!delivery.IsEnd()) common::StrAppend(&name, "-", delivery.attempt, "-", delivery.finding);
  return name;
}

std::string LineOf(const Delivery& delivery, int64_t since_ms) {
  std::string line = StrCat(delivery.job, " ", delivery.entry, " ", since_ms);
  if (!delivery.IsEnd()) common::StrAppend(&line, " ", delivery.attempt, " ", delivery.finding);
  return line;
}

std::optional<std::pair<Delivery, int64_t>> ParseLine(std::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(common::ToAbsl(line), ' ');
  Delivery delivery;
  int64_t since_ms = 0;
  const bool has_end = words.size() == 3 || words.size() == 5;
  if (!has_end || !absl::SimpleAtoi(words[0], &delivery.job) ||
      !absl::SimpleAtoi(words[1], &delivery.entry) || !absl::SimpleAtoi(words[2], &since_ms)) {
    return std::nullopt;
  }
  if (words.size() == 3) return std::pair(delivery, since_ms);
  if (!absl::SimpleAtoi(words[3], &delivery.attempt) || words[4].empty()) return std::nullopt;
  delivery.finding = std::string(words[4]);
  return std::pair(delivery, since_ms);
}

}  // namespace muster::coordinator
