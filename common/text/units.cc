#include "common/text/units.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

struct SizeUnit {
  std::string_view name;
  uint64_t bytes;
};
// Longest names first: "MiB" ends in "B", too.
constexpr SizeUnit kSizeUnits[] = {
    {"TiB", uint64_t{1} << 40}, {"GiB", 1 << 30},      {"MiB", 1 << 20},  {"KiB", 1 << 10},
    {"TB", 1'000'000'000'000},  {"GB", 1'000'000'000}, {"MB", 1'000'000}, {"KB", 1'000}};
constexpr int64_t kThousandthsMost = 1'000'000'000;

}  // namespace

absl::StatusOr<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return absl::InvalidArgumentError("not a whole number");
  }
  return value;
}

absl::StatusOr<int64_t> ParseDurationMs(std::string_view text) {
  constexpr int64_t kMostMs = int64_t{1000} * 86400 * 365 * 100;
  if (const absl::StatusOr<int64_t> seconds = ParseInteger(text); seconds.ok()) {
    if (*seconds < 0 || *seconds > kMostMs / 1000)
      return absl::InvalidArgumentError("out of range");
    return *seconds * 1000;
  }
  double total = 0;
  if (text.empty()) return absl::InvalidArgumentError("empty");
  while (!text.empty()) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    // from_chars takes "inf", "nan" and signs, too.
    if (error != std::errc() || (!absl::ascii_isdigit(text[0]) && text[0] != '.')) {
      return absl::InvalidArgumentError("not a duration");
    }
    text.remove_prefix(end - text.data());
    constexpr std::pair<std::string_view, double> kUnits[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    const auto unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                   [&](const auto& each) { return text.starts_with(each.first); });
    if (unit == std::end(kUnits)) return absl::InvalidArgumentError("not a duration");
    text.remove_prefix(unit->first.size());
    total += number * unit->second;
  }
  if (total > static_cast<double>(kMostMs)) return absl::InvalidArgumentError("out of range");
  return static_cast<int64_t>(total + 0.5);
}

absl::StatusOr<uint64_t> ParseMemory(std::string_view text) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {{"GB", 1'000'000'000},
                                                              {"MB", 1'000'000}};
  const std::string upper = absl::AsciiStrToUpper(ToAbsl(text));
  for (const auto& [unit, bytes] : kUnits) {
    if (!upper.ends_with(unit)) continue;
    const absl::StatusOr<int64_t> amount =
        ParseInteger(std::string_view(upper).substr(0, upper.size() - unit.size()));
    if (amount.ok() && *amount >= 1 && *amount <= 1'000'000) {
      return static_cast<uint64_t>(*amount) * bytes;
    }
  }
  return absl::InvalidArgumentError("not a memory size");
}

absl::StatusOr<int64_t> ParseThousandths(std::string_view text) {
  const size_t dot = text.find('.');
  const std::string_view whole = text.substr(0, dot);
  const std::string_view decimals = dot == std::string_view::npos ? "0" : text.substr(dot + 1);
  const auto digits = [](std::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), absl::ascii_isdigit);
  };
  if (!digits(whole) || !digits(decimals) || whole.size() > 7 || decimals.size() > 3) {
    return absl::InvalidArgumentError("not a number with at most three decimals");
  }
  int64_t value = *ParseInteger(whole);
  for (size_t i = 0; i < 3; ++i) value = value * 10 + (i < decimals.size() ? decimals[i] - '0' : 0);
  if (value > kThousandthsMost) return absl::InvalidArgumentError("out of range");
  return value;
}

absl::StatusOr<uint64_t> ParseByteSize(std::string_view text) {
  std::string upper = absl::AsciiStrToUpper(ToAbsl(text));
  // "4G", "4Gi"
  if (!upper.empty() && std::string_view("KMGT").find(upper.back()) != std::string_view::npos)
    upper += 'I';
  if (upper.ends_with('I')) upper += 'B';
  for (const SizeUnit& unit : kSizeUnits) {
    const std::string name = absl::AsciiStrToUpper(ToAbsl(unit.name));
    if (!upper.ends_with(name)) continue;
    const absl::StatusOr<int64_t> amount =
        ParseThousandths(std::string_view(upper).substr(0, upper.size() - name.size()));
    if (!amount.ok() || *amount == 0) break;
    // At most 1,000,000 TiB: no overflow before the division by 1,000.
    const auto bytes = static_cast<__uint128_t>(*amount) * unit.bytes / 1'000;
    return static_cast<uint64_t>(bytes);
  }
  return absl::InvalidArgumentError("not a size");
}

std::string HumanDuration(int64_t milliseconds) {
  if (milliseconds > 0 && milliseconds < 1000) return StrCat(milliseconds, "ms");
  const int64_t seconds = std::max<int64_t>(milliseconds, 0) / 1000;
  if (seconds < 60) return StrCat(seconds, "s");
  if (seconds < 3600) return StrCat(seconds / 60, "m ", seconds % 60, "s");
  if (seconds < 86400) return StrCat(seconds / 3600, "h ", seconds % 3600 / 60, "m");
  return StrCat(seconds / 86400, "d ", seconds % 86400 / 3600, "h");
}

std::string RoughDuration(int64_t milliseconds) {
  const int64_t seconds = std::max<int64_t>(milliseconds, 0) / 1000;
  if (seconds < 60) return StrCat(seconds, "s");
  if (seconds < 3600) return StrCat(seconds / 60, "m");
  return HumanDuration(milliseconds);
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1000) return StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  const char* units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  return value < 9.95 ? absl::StrFormat("%.1f %s", value, units[unit])
                      : absl::StrFormat("%.0f %s", value, units[unit]);
}

std::string Thousandths(uint64_t thousandths) {
  std::string text = absl::StrFormat("%d.%03d", thousandths / 1'000, thousandths % 1'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Of the units that need at most three decimals, the one with the shortest text: 4 GB, not 3906250
// KiB.
std::string ExactBytes(uint64_t bytes) {
  std::string shortest = StrCat(bytes, " B");
  for (const SizeUnit& unit : kSizeUnits) {
    const auto thousandths = static_cast<__uint128_t>(bytes) * 1'000;
    if (bytes < unit.bytes || thousandths % unit.bytes != 0) continue;
    const std::string text =
        StrCat(Thousandths(static_cast<uint64_t>(thousandths / unit.bytes)), " ", unit.name);
    if (text.size() < shortest.size()) shortest = text;
  }
  return shortest;
}

}  // namespace muster::common
