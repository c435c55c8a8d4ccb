// Running sums and their packed all-reduce; see metric_accumulator.h.
#include "tracking/metric_accumulator.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "muster/base/errors.h"
#include "tracking/event_record.h"

namespace muster {
namespace {

// The first reduction always has this size, so that it works even if the ranks' names differ: a 1,
// the fingerprint of the names, and pairs of sum and weight.
constexpr size_t kFirstSeries = 64;
constexpr size_t kPieces = 4;
constexpr size_t kHeader = 1 + 2 * kPieces;

// A checksum in 6-bit pieces: over 4,096 ranks, the sums of a piece and of its square are integers
// that even a 32-bit float represents exactly.
std::array<double, kPieces> fingerprint_of(const std::string& text) {
  const uint32_t checksum = crc32c(text);
  std::array<double, kPieces> pieces{};
  for (size_t i = 0; i < kPieces; ++i) pieces[i] = (checksum >> (6 * i)) & 63;
  return pieces;
}

// "4:loss3:acc", which can encode any name.
void append_name(std::string& text, const std::string& name) {
  text += std::to_string(name.size()) + ":" + name;
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size();) {
    const size_t colon = text.find(':', at);
    const size_t bytes = std::stoul(text.substr(at, colon - at));
    names.push_back(text.substr(colon + 1, bytes));
    at = colon + 1 + bytes;
  }
  return names;
}

// The element of a host tensor, bypassing the dispatcher for common dtypes.
double host_value(const at::Tensor& value) {
  switch (value.scalar_type()) {
    case at::kFloat:
      return *value.const_data_ptr<float>();
    case at::kDouble:
      return *value.const_data_ptr<double>();
    case at::kLong:
      return static_cast<double>(*value.const_data_ptr<int64_t>());
    default:
      return value.item<double>();
  }
}

}  // namespace

MetricAccumulator::MetricAccumulator(MetricAccumulatorOptions options)
    : options_(std::move(options)), type_(options_.dtype) {
  if (options_.every < 1) {
    throw std::invalid_argument("MetricAccumulatorOptions::every must be at least 1, not " +
                                std::to_string(options_.every));
  }
}

MetricAccumulator::Series& MetricAccumulator::series_of(std::string_view name) {
  // With a handful of names, a linear search is faster than hashing.
  for (Series& series : series_) {
    if (series.name == name) return series;
  }
  series_.push_back({std::string(name), 0, 0, {}});
  return series_.back();
}

void MetricAccumulator::add(std::string_view name, double value, double weight) {
  Series& series = series_of(name);
  series.sum += value * weight;
  series.weight += weight;
}

void MetricAccumulator::add(std::string_view name, const at::Tensor& value, double weight) {
  if (!value.defined() || value.numel() != 1) {
    std::ostringstream text;
    text << "the metric \"" << name << "\" must be a tensor of one element, not ";
    if (value.defined()) {
      text << "of shape " << value.sizes() << ": use its mean() or sum()";
    } else {
      text << "an undefined one";
    }
    throw std::invalid_argument(text.str());
  }
  if (value.device().is_cpu()) return add(name, host_value(value), weight);
  const at::NoGradGuard no_grad;
  Series& series = series_of(name);
  if (!series.device_sum.defined()) {
    series.device_sum = at::zeros({}, value.options().dtype(type_).requires_grad(false));
  }
  series.device_sum.add_(value.detach().reshape({}), weight);
  series.weight += weight;
}

MetricMeans MetricAccumulator::end_step() {
  if (++steps_ % options_.every != 0) return {};
  return reduce();
}

std::string MetricAccumulator::names_text() const {
  std::string text;
  for (const Series& series : series_) append_name(text, series.name);
  return text;
}

// Packs sums and weights of series [begin, end) after `header` free elements; at least `size` long.
at::Tensor MetricAccumulator::pack(size_t begin, size_t end, size_t header, size_t size) const {
  std::vector<double> values(std::max(size, header + 2 * (end - begin)), 0.0);
  for (size_t i = begin; i < end; ++i) {
    values[header + 2 * (i - begin)] = series_[i].sum;
    values[header + 2 * (i - begin) + 1] = series_[i].weight;
  }
  if (header > 0) {
    values[0] = 1;
    const auto pieces = fingerprint_of(names_text());
    for (size_t i = 0; i < kPieces; ++i) {
      values[1 + 2 * i] = pieces[i];
      values[2 + 2 * i] = pieces[i] * pieces[i];
    }
  }
  at::Tensor packed = torch::tensor(values, at::kDouble).to(options_.device, type_);
  for (size_t i = begin; i < end; ++i) {
    if (!series_[i].device_sum.defined()) continue;
    const auto place = static_cast<int64_t>(header + 2 * (i - begin));
    packed.select(0, place).add_(series_[i].device_sum.to(options_.device, type_));
  }
  return packed;
}

// Gives the same answer on every rank: all W pieces equal f exactly if their sum is W f and the sum
// of their squares is W f^2 (Cauchy-Schwarz).
bool MetricAccumulator::names_agree(const at::Tensor& packed) const {
  const double* values = packed.const_data_ptr<double>();
  const auto pieces = fingerprint_of(names_text());
  for (size_t i = 0; i < kPieces; ++i) {
    if (values[1 + 2 * i] != values[0] * pieces[i]) return false;
    if (values[2 + 2 * i] != values[0] * pieces[i] * pieces[i]) return false;
  }
  return true;
}

// Afterwards every rank has the names of all ranks, in the same order.
void MetricAccumulator::agree_on_names() {
  if (!options_.gather_texts) {
    std::string names;
    for (const Series& series : series_) names += " " + series.name;
    throw CommunicationError(
        "the ranks must log the same metrics in the same order; this one has:" + names);
  }
  std::set<std::string> all;
  for (const std::string& text : options_.gather_texts(names_text())) {
    for (std::string& name : split_names(text)) all.insert(std::move(name));
  }
  std::vector<Series> ordered;
  for (const std::string& name : all) ordered.push_back(std::move(series_of(name)));
  series_ = std::move(ordered);
}

// The sum and weight of each series over all ranks.
std::vector<double> MetricAccumulator::sums_over_ranks() {
  const auto reduced = [&](at::Tensor packed) {
    if (options_.sum_over_ranks) packed = options_.sum_over_ranks(std::move(packed));
    return packed.to(at::kCPU, at::kDouble).contiguous();
  };
  const auto first = [&] {
    return reduced(
        pack(0, std::min(series_.size(), kFirstSeries), kHeader, kHeader + 2 * kFirstSeries));
  };
  at::Tensor values = first();
  if (!names_agree(values)) {
    agree_on_names();
    values = first();
  }
  const double* begin = values.const_data_ptr<double>() + kHeader;
  std::vector<double> sums(begin, begin + 2 * std::min(series_.size(), kFirstSeries));
  if (series_.size() > kFirstSeries) {
    const at::Tensor rest = reduced(pack(kFirstSeries, series_.size(), 0, 0));
    sums.insert(sums.end(), rest.const_data_ptr<double>(),
                rest.const_data_ptr<double>() + rest.numel());
  }
  return sums;
}

MetricMeans MetricAccumulator::reduce() {
  const at::NoGradGuard no_grad;
  const std::vector<double> sums = sums_over_ranks();
  MetricMeans means;
  for (size_t i = 0; i < series_.size(); ++i) {
    Series& series = series_[i];
    if (sums[2 * i + 1] != 0) means.emplace_back(series.name, sums[2 * i] / sums[2 * i + 1]);
    series.sum = series.weight = 0;
    if (series.device_sum.defined()) series.device_sum.zero_();
  }
  return means;
}

}  // namespace muster
