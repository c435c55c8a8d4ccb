#include "common/loss_name.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

using Words = std::vector<std::string>;

// Suffixes that loggers use to mark how a value was reduced. A single letter counts, too: "loss_G".
constexpr std::array<std::string_view, 8> kReductions = {"step", "epoch", "avg",   "mean",
                                                         "sum",  "total", "batch", "running"};
constexpr std::array<std::string_view, 9> kEvaluations = {
    "eval", "evaluation", "val", "valid", "validation", "test", "testing", "dev", "holdout"};

template <size_t N>
bool IsOneOf(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

Words WordsOf(std::string_view text, const char* separators) {
  return absl::StrSplit(absl::AsciiStrToLower(ToAbsl(text)), absl::ByAnyChar(separators),
                        absl::SkipEmpty());
}

// Within a part between slashes, the last word that is not a reduction names the quantity.
bool EndsWithLoss(std::string_view part) {
  Words words = WordsOf(part, "_-. :");
  while (words.size() > 1 && (words.back().size() == 1 || IsOneOf(kReductions, words.back())))
    words.pop_back();
  return !words.empty() && words.back() == "loss";
}

int PlaceOf(std::string_view name) {
  const Words words = WordsOf(name, "/_-. :");
  if (words == Words{"loss"}) return 0;
  const bool is_evaluation = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return IsOneOf(kEvaluations, word);
  });
  if (is_evaluation) return 3;
  const auto is_of_training = [](const std::string& word) {
    return word == "loss" || word == "train" || word == "training";
  };
  return words.size() == 2 && words[0] != words[1] &&
                 std::all_of(words.begin(), words.end(), is_of_training)
             ? 1
             : 2;
}

}  // namespace

bool IsLossName(std::string_view name) {
  // A fast path: every point of a job comes through here, and most names are not losses.
  const std::string lower = absl::AsciiStrToLower(ToAbsl(name));
  if (lower.find("loss") == std::string::npos) return false;
  const Words parts = WordsOf(lower, "/");
  return std::any_of(parts.begin(), parts.end(), EndsWithLoss);
}

bool IsRatherTheLoss(std::string_view name, std::string_view other) {
  return std::tuple(PlaceOf(name), name.size(), name) <
         std::tuple(PlaceOf(other), other.size(), other);
}

std::string LossOf(const std::vector<std::string>& names) {
  std::string_view best;
  for (const std::string& name : names) {
    if (IsLossName(name) && (best.empty() || IsRatherTheLoss(name, best))) best = name;
  }
  return std::string(best);
}

}  // namespace muster::common
