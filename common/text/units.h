// Whole numbers, durations and sizes as people write and read them: on command lines, in job files,
// in messages. Pure; any thread. Errors are INVALID_ARGUMENT without a code: the caller knows what
// the value is for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::common {

// Decimal digits with an optional minus sign, nothing else.
absl::StatusOr<int64_t> ParseInteger(std::string_view text);
// Milliseconds in "500ms", "30s", "10m", "2h", "1d", "1h30m", or whole seconds. Not negative, at
// most 100 years.
absl::StatusOr<int64_t> ParseDurationMs(std::string_view text);
// Bytes in "64GB" or "512MB", any case: powers of 1,000, at most 1,000,000 of the unit, at least
// one byte.
absl::StatusOr<uint64_t> ParseMemory(std::string_view text);

// Bytes in "512MiB", "1.5GiB" (powers of 1,024) or "4GB" (powers of 1,000), any case, from KB to
// TiB, with at most three decimals. "4G" and "4Gi" are 4 GiB, as docker and Slurm count (Kubernetes'
// G is 1,000 MB). A bare "512" is refused, as tools disagree about what it means.
absl::StatusOr<uint64_t> ParseByteSize(std::string_view text);
// Thousandths: 500 for "0.5", 2000 for "2". At most three decimals and 1,000,000; not negative.
absl::StatusOr<int64_t> ParseThousandths(std::string_view text);

// "41s", "12m 3s", "3h 20m", "2d 4h"; under a second "300ms".
std::string HumanDuration(int64_t milliseconds);
// For what is only expected: "41s", "7m", "3h 20m", "2d 4h".
std::string RoughDuration(int64_t milliseconds);
// "1.2 GB", "340 KB", "17 B": powers of 1,000, as disk makers count.
std::string HumanBytes(uint64_t bytes);
// The same number as people gave it: "512 MiB", "1.5 GiB", "4 GB". ParseByteSize reads it back
// without the space.
std::string ExactBytes(uint64_t bytes);
// "2", "0.5": the reverse of ParseThousandths.
std::string Thousandths(uint64_t thousandths);

}  // namespace muster::common
