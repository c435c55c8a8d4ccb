// What devices of a series cannot do, where that matters before a rank starts: the types that they do
// not compute in, and whether they read a rank table. The trainer SDK knows more of each series
// (trainer/plugins/ascend/series.h), and shares no code with this; a test compares the two. Immutable;
// any thread.
#pragma once

#include <span>
#include <string_view>

namespace muster::common {

struct DeviceSeries {
  std::string_view name;
  // Prefixes of its models as nodes report them, in lower case and without "ascend": "910a|910proa".
  std::string_view models;
  // Words of accelerate's mixed_precision, as "bf16|fp8".
  std::string_view lacks_types = {};
  // Reads a rank table of version 1.0. The others need more than it has, or no device addresses.
  bool reads_rank_table = false;
};

// The first row that claims a model counts. npu-smi reports Atlas A3 as "Ascend910", without what
// distinguishes it, so that name belongs to no row. Sources: the series table of CANN's HCCL reference
// (types of reductions), and of its rank table reference.
inline constexpr DeviceSeries kAscendSeries[] = {
    {.name = "Ascend 950", .models = "950|910_95"},
    {.name = "Atlas A3", .models = "910_93", .lacks_types = "fp8"},
    {.name = "Atlas A2",
     .models = "910b1|910b2|910b3|910b4",
     .lacks_types = "fp8",
     .reads_rank_table = true},
    // "910B" without a digit is a first-generation device.
    {.name = "Atlas training (910A)",
     .models = "910a|910b|910proa|910prob|910premiuma",
     .lacks_types = "bf16|fp8",
     .reads_rank_table = true},
    {.name = "Atlas 300I Duo", .models = "310p", .lacks_types = "bf16|fp8"},
};

// Null: no row claims the model, so nothing is known to be missing.
const DeviceSeries* FindDeviceSeries(std::span<const DeviceSeries> rows, std::string_view model);

}  // namespace muster::common
