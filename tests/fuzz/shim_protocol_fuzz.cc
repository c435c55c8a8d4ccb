// The files that a worker finds in an attempt's directory, where the attempt's ranks can write: the
// shim's launch file and its exit record. What was read is written back unchanged.
#include <cstring>

#include "common/hash/crc32c.h"
#include "common/kernel/shim_protocol.h"
#include "fuzz/harness.h"

namespace muster::common {
namespace {

void ReadLaunch(std::string_view bytes) {
  ShimLaunch launch;
  if (!DecodeShimLaunch(bytes, &launch)) return;
  FUZZ_EXPECT(launch.ranks.size() <= kRanksPerShimMax);
  const std::string written = EncodeShimLaunch(launch);
  ShimLaunch again;
  FUZZ_EXPECT(DecodeShimLaunch(written, &again));
  FUZZ_EXPECT(EncodeShimLaunch(again) == written);
}

// A fuzzer cannot find a valid checksum, so compute it.
std::string Summed(std::string_view bytes) {
  const uint64_t sum = Crc32c(bytes);
  std::string summed(bytes);
  summed.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return summed;
}

void ReadExit(std::string_view text) {
  ExitRecord record;
  if (!DecodeExitRecord(text, &record)) return;
  const std::string written = EncodeExitRecord(record);
  ExitRecord again;
  FUZZ_EXPECT(DecodeExitRecord(written, &again));
  FUZZ_EXPECT(EncodeExitRecord(again) == written);
}

}  // namespace
}  // namespace muster::common

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = muster::testing::Text(data, size);
  muster::common::ReadLaunch(bytes);
  muster::common::ReadLaunch(muster::common::Summed(bytes));
  muster::common::ReadExit(bytes);
  return 0;
}
