// What a job's files and programs tell about versions and memory: the map of a process, torch's file
// of versions, the line of `plan --memory-estimate`.
#include <algorithm>

#include "client/submit/plan_estimate.h"
#include "common/text/text.h"
#include "fuzz/harness.h"
#include "worker/sampling/framework_probe.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view text = testing::Text(data, size);
  const worker::MappedFramework mapped = worker::FindMapped(text);
  FUZZ_EXPECT(mapped.directory.empty() || mapped.directory[0] == '/');
  FUZZ_EXPECT(mapped.directory.size() <= 1'024 && mapped.cudart.size() <= 32);
  for (const worker::FrameworkVersions& versions :
       {worker::ParseVersionPy(text), worker::ParseBuildVersion(text)}) {
    FUZZ_EXPECT(versions.framework.size() <= 64 && versions.toolkit.size() <= 32);
    FUZZ_EXPECT(common::Printable(versions.framework) == versions.framework);
    FUZZ_EXPECT(common::Printable(versions.toolkit) == versions.toolkit);
  }
  const auto bytes = client::FindEstimate(text);
  FUZZ_EXPECT(!bytes.has_value() || (*bytes > 0 && *bytes <= uint64_t{1} << 50));
  return 0;
}
