#include "coordinator/findings/loss_name.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

// Suffixes with which loggers mark how a value was reduced.
constexpr std::array<std::string_view, 8> kReductions = {"step", "epoch", "avg",   "mean",
                                                         "sum",  "total", "batch", "running"};

bool IsReduction(std::string_view word) {
  return std::find(kReductions.begin(), kReductions.end(), word) != kReductions.end();
}

// In one part between slashes, the last word that is not a reduction names what is measured.
bool EndsWithLoss(std::string_view part) {
  std::vector<std::string> words =
      absl::StrSplit(common::ToAbsl(part), absl::ByAnyChar("_-. :"), absl::SkipEmpty());
  while (words.size() > 1 && IsReduction(words.back())) words.pop_back();
  return !words.empty() && words.back() == "loss";
}

}  // namespace

bool IsLossName(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(common::ToAbsl(name));
  const std::vector<std::string> parts = absl::StrSplit(lower, '/');
  return std::any_of(parts.begin(), parts.end(),
                     [](const std::string& part) { return EndsWithLoss(part); });
}

}  // namespace muster::coordinator
