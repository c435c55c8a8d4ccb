#include "client/text/rank_grid.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

// A step this many times the median makes a rank the slowest.
constexpr float kSlowerThanMiddle = 1.1f;
// Columns that are dropped, in this order, when the terminal is too narrow.
constexpr const char* kLeftOut[] = {"thr",   "throttled", "temp", "node",  "write",
                                    "power", "read",      "jobs", "state", "device"};

// "45", "1.2K", "3.4G": at most five columns.
std::string ShortBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T", "P"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1'000;
  return unit == 0 ? std::to_string(bytes)
                   : absl::StrFormat(value < 9.95 ? "%.1f%s" : "%.0f%s", value, kUnits[unit]);
}

Cell BytesCell(uint64_t bytes) {
  return Cell(Value(static_cast<int64_t>(bytes)), ShortBytes(bytes));
}
Cell PercentCell(double share) { return Cell(Value(share), absl::StrFormat("%.0f", share * 100)); }

template <typename T, typename Add>
void Merge(bool has, T value, std::optional<T>* into, Add add) {
  if (has) *into = into->has_value() ? add(**into, value) : value;
}

// The use of the devices [first, first + count) of a batch, which lists them in the attempt's order.
DeviceUse UseOf(const v1::SampleBatch& batch, size_t first, size_t count) {
  DeviceUse use;
  size_t with_utilization = 0;
  const auto sum = [](auto a, auto b) { return a + b; };
  for (size_t i = first; i < first + count && i < static_cast<size_t>(batch.devices_size()); ++i) {
    const v1::DeviceSample& device = batch.devices(static_cast<int>(i));
    with_utilization += device.has_utilization();
    Merge(device.has_utilization(), double{device.utilization()}, &use.utilization, sum);
    Merge(device.has_memory_used_bytes(), uint64_t{device.memory_used_bytes()}, &use.memory_used,
          sum);
    Merge(device.has_memory_total_bytes(), uint64_t{device.memory_total_bytes()}, &use.memory_total,
          sum);
    Merge(device.has_power_watts(), double{device.power_watts()}, &use.power_watts, sum);
    Merge(device.has_temperature_celsius(), double{device.temperature_celsius()}, &use.temperature,
          [](double a, double b) { return std::max(a, b); });
    const std::string reasons = absl::StrJoin(device.throttled_by(), ",");
    if (use.throttled_by.empty()) use.throttled_by = reasons;
  }
  if (with_utilization > 1) *use.utilization /= static_cast<double>(with_utilization);
  return use;
}

// "gpu:0,1"
std::string DeviceNames(const v1::NodePart& part, size_t first, size_t count) {
  std::vector<uint32_t> indexes;
  for (size_t i = first; i < first + count && i < static_cast<size_t>(part.device_indexes_size());
       ++i) {
    indexes.push_back(part.device_indexes(static_cast<int>(i)));
  }
  return indexes.empty() ? "" : StrCat(part.device_kind(), ":", absl::StrJoin(indexes, ","));
}

void AddPart(const v1::NodePart& part, const v1::SampleBucket* bucket, std::vector<RankRow>* rows) {
  const uint32_t ranks = part.local_world_size();
  const size_t each = ranks == 0 ? 0 : static_cast<size_t>(part.device_indexes_size()) / ranks;
  std::map<uint32_t, const v1::RankSample*> samples;
  if (bucket != nullptr) {
    for (const v1::RankSample& sample : bucket->last().ranks()) samples[sample.rank()] = &sample;
  }
  for (uint32_t local = 0; local < ranks; ++local) {
    RankRow row{.rank = part.first_rank() + local, .node = part.node()};
    if (bucket != nullptr) {
      row.device = UseOf(bucket->last(), local * each, each);
      row.age_ms = bucket->age_ms();
    }
    row.device.names = DeviceNames(part, local * each, each);
    if (const auto found = samples.find(row.rank); found != samples.end()) {
      row.sample = *found->second;
    }
    rows->push_back(std::move(row));
  }
}

// Marks the rank whose steps take longest; if none stands out, one that is behind the others.
void MarkSlowest(std::vector<RankRow>* rows) {
  std::vector<RankRow*> timed;
  RankRow* behind = nullptr;
  int64_t foremost = 0;
  for (RankRow& row : *rows) {
    if (!row.sample.has_value()) continue;
    if (row.sample->has_step_ms()) timed.push_back(&row);
    if (!row.sample->has_step()) continue;
    foremost = std::max<int64_t>(foremost, row.sample->step());
    if (behind == nullptr || row.sample->step() < behind->sample->step()) behind = &row;
  }
  if (timed.size() > 1) {
    std::sort(timed.begin(), timed.end(), [](const RankRow* a, const RankRow* b) {
      return a->sample->step_ms() < b->sample->step_ms();
    });
    const float middle = timed[(timed.size() - 1) / 2]->sample->step_ms();
    if (timed.back()->sample->step_ms() > middle * kSlowerThanMiddle) {
      timed.back()->is_slowest = true;
      return;
    }
  }
  // Ranks report their steps at different moments, so one step less does not count as behind.
  if (behind != nullptr && behind->sample->step() + 1 < foremost) behind->is_slowest = true;
}

std::vector<Cell> RankCells(const RankRow& row) {
  std::vector<Cell> cells = {Cell(int64_t{row.rank}), Cell(row.node)};
  if (row.sample.has_value()) {
    const v1::RankSample& sample = *row.sample;
    cells.push_back(PercentCell(sample.cpu_cores()));
    cells.push_back(BytesCell(sample.resident_bytes()));
    cells.push_back(Cell(int64_t{sample.threads()}));
    cells.push_back(BytesCell(sample.read_bytes_per_s()));
    cells.push_back(BytesCell(sample.written_bytes_per_s()));
  } else {
    cells.resize(cells.size() + 5);
  }
  const DeviceUse& device = row.device;
  cells.push_back(Cell(device.names));
  cells.push_back(device.utilization ? PercentCell(*device.utilization) : Cell());
  cells.push_back(device.memory_used ? BytesCell(*device.memory_used) : Cell());
  cells.push_back(device.power_watts ? Cell(Value(*device.power_watts),
                                            absl::StrFormat("%.0fW", *device.power_watts))
                                     : Cell());
  cells.push_back(device.temperature ? Cell(Value(*device.temperature),
                                            absl::StrFormat("%.0f", *device.temperature))
                                     : Cell());
  const bool has_step = row.sample.has_value() && row.sample->has_step();
  const bool has_time = row.sample.has_value() && row.sample->has_step_ms();
  cells.push_back(has_step ? Cell(row.sample->step()) : Cell());
  cells.push_back(has_time ? Cell(Value(double{row.sample->step_ms()}),
                                  absl::StrFormat("%.*f", row.sample->step_ms() < 10 ? 1 : 0,
                                                  row.sample->step_ms()))
                           : Cell());
  cells.push_back(Cell(Value(row.is_slowest), row.is_slowest ? "◀" : ""));
  cells.push_back(Cell(device.throttled_by));
  cells.push_back(row.sample.has_value() ? Cell(Value(row.age_ms), Took(row.age_ms)) : Cell());
  return cells;
}

// What all jobs use of one node.
struct NodeUse {
  double cpu_cores = 0;
  uint64_t resident_bytes = 0;
  bool has_samples = false;
  DeviceUse devices;
  double utilization = 0;
  size_t measured = 0;
};

std::map<std::string, NodeUse> UseOfNodes(const std::vector<v1::SampleBucket>& newest) {
  std::map<std::string, NodeUse> uses;
  const auto sum = [](auto a, auto b) { return a + b; };
  for (const v1::SampleBucket& bucket : newest) {
    NodeUse& use = uses[bucket.last().node()];
    use.has_samples = true;
    for (const v1::RankSample& sample : bucket.last().ranks()) {
      use.cpu_cores += sample.cpu_cores();
      use.resident_bytes += sample.resident_bytes();
    }
    for (int i = 0; i < bucket.last().devices_size(); ++i) {
      const DeviceUse device = UseOf(bucket.last(), static_cast<size_t>(i), 1);
      if (device.utilization) {
        use.utilization += *device.utilization;
        ++use.measured;
      }
      Merge(device.memory_used.has_value(), device.memory_used.value_or(0),
            &use.devices.memory_used, sum);
      Merge(device.power_watts.has_value(), device.power_watts.value_or(0),
            &use.devices.power_watts, sum);
      Merge(device.temperature.has_value(), device.temperature.value_or(0),
            &use.devices.temperature, [](double a, double b) { return std::max(a, b); });
    }
  }
  return uses;
}

std::string DevicesText(const v1::NodeView& node) {
  std::string text;
  for (const v1::DeviceUse& use : node.uses()) {
    const bool is_unlimited =
        common::IsHostKind(use.kind()) && node.record().facts().oversubscribe_cpu();
    common::StrAppend(&text, text.empty() ? "" : ", ", use.used(),
                      is_unlimited ? "" : StrCat("/", use.total()), " ", use.kind());
  }
  return text;
}

size_t WidestLine(const std::string& text) {
  size_t widest = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    widest = std::max(widest, DisplayWidth(common::FromAbsl(line)));
  }
  return widest;
}

}  // namespace

std::vector<RankRow> RankRows(const v1::JobRecord& record,
                              const std::vector<v1::SampleBucket>& newest) {
  std::vector<RankRow> rows;
  if (record.attempts().empty()) return rows;
  const v1::Attempt& attempt = *record.attempts().rbegin();
  std::map<std::string, const v1::SampleBucket*> of_node;
  for (const v1::SampleBucket& bucket : newest) {
    if (bucket.last().attempt() == attempt.number()) of_node[bucket.last().node()] = &bucket;
  }
  for (const v1::NodePart& part : attempt.parts()) {
    const auto found = of_node.find(part.node());
    AddPart(part, found == of_node.end() ? nullptr : found->second, &rows);
  }
  std::sort(rows.begin(), rows.end(),
            [](const RankRow& a, const RankRow& b) { return a.rank < b.rank; });
  MarkSlowest(&rows);
  return rows;
}

void SortRows(GridOrder order, std::vector<RankRow>* rows) {
  const auto key = [order](const RankRow& row) -> double {
    if (order == GridOrder::kRank) return -static_cast<double>(row.rank);
    if (!row.sample.has_value()) return -1e300;
    if (order == GridOrder::kCpu) return row.sample->cpu_cores();
    if (order == GridOrder::kMemory) return static_cast<double>(row.sample->resident_bytes());
    // Ranks without step times compare by how far they are behind.
    return row.sample->has_step_ms() ? row.sample->step_ms()
                                     : -1 - static_cast<double>(row.sample->step());
  };
  std::stable_sort(rows->begin(), rows->end(),
                   [&key](const RankRow& a, const RankRow& b) { return key(a) > key(b); });
}

Listing RankListing(const std::vector<RankRow>& rows) {
  Listing listing;
  listing.kind = "RankList";
  listing.columns = {{.key = "rank", .right = true},
                     {.key = "node", .names = true},
                     {.key = "cpu%", .right = true, .value_name = "cpu_cores"},
                     {.key = "rss", .right = true, .value_name = "resident_bytes"},
                     {.key = "thr", .right = true, .value_name = "threads"},
                     {.key = "read", .right = true, .value_name = "read_bytes_per_s"},
                     {.key = "write", .right = true, .value_name = "written_bytes_per_s"},
                     {.key = "device"},
                     {.key = "util", .right = true, .value_name = "utilization"},
                     {.key = "mem", .right = true, .value_name = "device_memory_bytes"},
                     {.key = "power", .right = true, .value_name = "power_watts"},
                     {.key = "temp", .right = true, .value_name = "temperature_celsius"},
                     {.key = "step", .right = true},
                     {.key = "step-ms", .right = true, .value_name = "step_ms"},
                     {.key = "slow", .value_name = "slowest"},
                     {.key = "throttled", .wide = true, .value_name = "throttled_by"},
                     {.key = "age", .wide = true, .right = true, .value_name = "age_ms"}};
  for (const RankRow& row : rows) listing.rows.push_back(RankCells(row));
  return listing;
}

Listing NodeListing(const v1::ListNodesResponse& nodes,
                    const std::vector<v1::SampleBucket>& newest) {
  Listing listing;
  listing.kind = "NodeUseList";
  listing.columns = {{.key = "node", .names = true},
                     {.key = "state"},
                     {.key = "jobs", .list = true},
                     {.key = "devices"},
                     {.key = "cpu%", .right = true, .value_name = "cpu_cores"},
                     {.key = "cores", .right = true},
                     {.key = "rss", .right = true, .value_name = "resident_bytes"},
                     {.key = "memory", .right = true, .value_name = "memory_bytes"},
                     {.key = "util", .right = true, .value_name = "utilization"},
                     {.key = "mem", .right = true, .value_name = "device_memory_bytes"},
                     {.key = "power", .right = true, .value_name = "power_watts"},
                     {.key = "temp", .right = true, .value_name = "temperature_celsius"}};
  const std::map<std::string, NodeUse> uses = UseOfNodes(newest);
  for (const v1::NodeView& node : nodes.nodes()) {
    const v1::NodeFacts& facts = node.record().facts();
    const auto found = uses.find(facts.name());
    const NodeUse use = found == uses.end() ? NodeUse{} : found->second;
    listing.rows.push_back(
        {Cell(facts.name()), Cell(NodeStateName(node.record().state())),
         Cell(Value(absl::StrJoin(node.jobs(), ",")), absl::StrJoin(node.jobs(), ", ")),
         Cell(DevicesText(node)), use.has_samples ? PercentCell(use.cpu_cores) : Cell(),
         Cell(int64_t{facts.cores()}), use.has_samples ? BytesCell(use.resident_bytes) : Cell(),
         BytesCell(facts.memory_bytes()),
         use.measured > 0 ? PercentCell(use.utilization / static_cast<double>(use.measured))
                          : Cell(),
         use.devices.memory_used ? BytesCell(*use.devices.memory_used) : Cell(),
         use.devices.power_watts ? Cell(Value(*use.devices.power_watts),
                                        absl::StrFormat("%.0fW", *use.devices.power_watts))
                                 : Cell(),
         use.devices.temperature ? Cell(Value(*use.devices.temperature),
                                        absl::StrFormat("%.0f", *use.devices.temperature))
                                 : Cell()});
  }
  return listing;
}

absl::StatusOr<std::string> GridText(const Listing& listing, const Terminal& terminal) {
  ListingOptions options;
  for (const Column& column : listing.columns) {
    const size_t index = static_cast<size_t>(&column - listing.columns.data());
    const bool is_empty = std::all_of(listing.rows.begin(), listing.rows.end(),
                                      [index](const auto& row) { return row[index].text.empty(); });
    if (!column.wide && (!is_empty || listing.rows.empty())) options.columns.push_back(column.key);
  }
  ASSIGN_OR_RETURN(std::string text, RenderListing(listing, options, terminal));
  for (const char* column : kLeftOut) {
    if (WidestLine(text) <= terminal.width) break;
    std::erase(options.columns, column);
    ASSIGN_OR_RETURN(text, RenderListing(listing, options, terminal));
  }
  return text;
}

}  // namespace muster::client
