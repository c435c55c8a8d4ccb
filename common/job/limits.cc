// Parses what each rank may use: "2", "0.5" processors; "512MiB", "4GB" of memory.
#include "common/job/refuse.h"
#include "common/job/rules.h"
#include "common/job/shape.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::job {

using common::StrCat;

absl::Status ParseCpus(std::string_view text, v1::RankLimits* limits) {
  const absl::StatusOr<int64_t> millis = common::ParseThousandths(text);
  if (!millis.ok() || *millis < kCpuMillis.least || *millis > kCpuMillis.most) {
    return Refuse("JC1108",
                  StrCat("\"", common::Printable(text), "\" is not a number of processors from ",
                         common::Thousandths(kCpuMillis.least), " to ",
                         common::Thousandths(kCpuMillis.most), " with at most three decimals"),
                  "2, 0.5");
  }
  limits->set_cpu_millis(static_cast<uint32_t>(*millis));
  return absl::OkStatus();
}

absl::Status ParseRankMemory(std::string_view text, v1::RankLimits* limits) {
  const absl::StatusOr<uint64_t> bytes = common::ParseByteSize(text);
  if (!bytes.ok() || *bytes < static_cast<uint64_t>(kMemoryBytes.least) ||
      *bytes > static_cast<uint64_t>(kMemoryBytes.most)) {
    return Refuse("JC1108",
                  StrCat("\"", common::Printable(text), "\" is not a size of memory from ",
                         common::ExactBytes(kMemoryBytes.least), " to ",
                         common::ExactBytes(kMemoryBytes.most)),
                  "512MiB (powers of 1,024), 4GB (powers of 1,000)");
  }
  limits->set_memory_bytes(*bytes);
  return absl::OkStatus();
}

}  // namespace muster::job
