#include "coordinator/findings/say.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::coordinator {
namespace {

constexpr size_t kCommandShownBytes = 200;

bool IsPlain(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./=:,@%+").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string Quoted(const std::string& word) {
  if (IsPlain(word)) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

v1::Finding MakeFinding(v1::FindingSeverity severity, Saying saying) {
  v1::Finding finding;
  finding.set_severity(severity);
  finding.set_sentence(std::move(saying.sentence));
  finding.set_cause(std::move(saying.cause));
  finding.set_fix(std::move(saying.fix));
  return finding;
}

void AddNumber(v1::Finding& finding, std::string_view name, double value, std::string_view unit) {
  v1::FindingNumber* number = finding.add_evidence();
  number->set_name(std::string(name));
  number->set_value(value);
  number->set_unit(std::string(unit));
}

void SetWaste(v1::Finding& finding, double device_seconds) {
  finding.set_wasted_device_us(static_cast<int64_t>(std::clamp(device_seconds, 0.0, 9e12) * 1e6));
}

std::string WithCommas(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", share * 100); }

std::string ShortTime(double seconds) {
  if (seconds < 0.0095) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 0.95) return absl::StrFormat("%.0f ms", seconds * 1e3);
  if (seconds < 9.5) return absl::StrFormat("%.1f s", seconds);
  return common::HumanDuration(static_cast<int64_t>(seconds * 1e3) / 1000 * 1000);
}

std::string CommandLine(const v1::JobSpec& spec) {
  std::string line;
  for (const std::string& word : spec.command()) {
    absl::StrAppend(&line, line.empty() ? "" : " ", Quoted(word));
    if (line.size() > kCommandShownBytes) return "COMMAND";
  }
  return common::Printable(line);
}

}  // namespace muster::coordinator
