// A page of metrics for Prometheus: its text format 0.0.4, or OpenMetrics 1.0.0. Pure.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace muster::coordinator::http {

class Exposition {
 public:
  enum class Format { kText, kOpenMetrics };
  // A counter's name ends in _total, an info's in _info.
  enum class Kind { kGauge, kCounter, kInfo };
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  explicit Exposition(Format format) : format_(format) {}

  // Begins a family; the samples that follow belong to it. Each name once.
  void Family(std::string_view name, Kind kind, std::string_view help);
  void Sample(Labels labels, double value);
  void Sample(double value) { Sample({}, value); }
  // A family with one sample.
  void One(std::string_view name, Kind kind, std::string_view help, double value);
  std::string Finish() &&;

 private:
  const Format format_;
  std::string name_;  // of the current family's samples
  std::string text_;
};

// The format that a scraper accepts; text unless it names OpenMetrics 1.0.0.
Exposition::Format ChooseFormat(std::string_view accept);
std::string_view ContentTypeOf(Exposition::Format format);

}  // namespace muster::coordinator::http
