// Any text that goes into a bundle: the value of a job's secret variable never does, in whatever it
// is embedded.
#include "client/diagnosis/redaction.h"
#include "fuzz/harness.h"
#include "muster/v1/job.pb.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = muster::testing::Text(data, size);
  muster::client::Redaction redaction;
  muster::v1::JobSpec spec;
  (*spec.mutable_env())["API_TOKEN"] = "a-secret-value-1";
  redaction.LearnFrom(spec);
  FUZZ_EXPECT(redaction.Apply(text).find("a-secret-value-1") == std::string::npos);
  return 0;
}
