#include "coordinator/http/metrics/exposition.h"

#include <array>
#include <charconv>
#include <cmath>

#include "common/text/strings.h"

namespace muster::coordinator::http {
namespace {

using common::StrAppend;

// Quotes are escaped in label values, and by OpenMetrics in help texts too.
std::string EscapeForScraper(std::string_view text, bool quotes) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n') {
      escaped += "\\n";
      continue;
    }
    if (c == '\\' || (c == '"' && quotes)) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string SampleNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> digits{};
  // Whole numbers without an exponent, for human readers.
  constexpr double kWholeMax = 9e15;
  const bool is_whole = std::abs(value) < kWholeMax && std::trunc(value) == value;
  const auto end = is_whole
                       ? std::to_chars(digits.begin(), digits.end(), static_cast<long long>(value))
                       : std::to_chars(digits.begin(), digits.end(), value);
  return {digits.data(), end.ptr};
}

std::string_view WordOf(Exposition::Kind kind, Exposition::Format format) {
  if (kind == Exposition::Kind::kCounter) return "counter";
  if (kind == Exposition::Kind::kInfo && format == Exposition::Format::kOpenMetrics) return "info";
  return "gauge";
}

}  // namespace

void Exposition::Family(std::string_view name, Kind kind, std::string_view help) {
  name_ = name;
  const bool is_open = format_ == Format::kOpenMetrics;
  std::string_view family = name;
  // OpenMetrics names the family without the suffix that its samples have.
  if (is_open && kind == Kind::kCounter) family.remove_suffix(std::string_view("_total").size());
  if (is_open && kind == Kind::kInfo) family.remove_suffix(std::string_view("_info").size());
  StrAppend(&text_, "# HELP ", family, " ", EscapeForScraper(help, is_open), "\n# TYPE ", family,
            " ", WordOf(kind, format_), "\n");
}

void Exposition::Sample(Labels labels, double value) {
  text_ += name_;
  bool is_first = true;
  for (const auto& [name, label] : labels) {
    StrAppend(&text_, is_first ? "{" : ",", name, "=\"", EscapeForScraper(label, true), "\"");
    is_first = false;
  }
  StrAppend(&text_, is_first ? " " : "} ", SampleNumber(value), "\n");
}

void Exposition::One(std::string_view name, Kind kind, std::string_view help, double value) {
  Family(name, kind, help);
  Sample(value);
}

std::string Exposition::Finish() && {
  if (format_ == Format::kOpenMetrics) text_ += "# EOF\n";
  return std::move(text_);
}

Exposition::Format ChooseFormat(std::string_view accept) {
  while (!accept.empty()) {
    const size_t comma = accept.find(',');
    const std::string_view range = accept.substr(0, comma);
    const bool is_open = range.find("application/openmetrics-text") != std::string_view::npos;
    const bool is_refused =
        range.find("q=0") != std::string_view::npos && range.find("q=0.") == std::string_view::npos;
    const bool is_other = range.find("version=") != std::string_view::npos &&
                          range.find("version=1.0.0") == std::string_view::npos;
    if (is_open && !is_other && !is_refused) return Exposition::Format::kOpenMetrics;
    if (comma == std::string_view::npos) break;
    accept.remove_prefix(comma + 1);
  }
  return Exposition::Format::kText;
}

std::string_view ContentTypeOf(Exposition::Format format) {
  return format == Exposition::Format::kText
             ? "text/plain; version=0.0.4; charset=utf-8"
             : "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

}  // namespace muster::coordinator::http
