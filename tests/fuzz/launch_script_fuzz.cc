// A shell script with or without #SBATCH lines, as `jobctl init --from` takes it: whatever is in it, the
// job file that comes out is one that the loader accepts.
#include "client/job_file/job_file.h"
#include "client/launchers/job_draft.h"
#include "client/launchers/launch_script.h"
#include "fuzz/harness.h"
#include "muster/v1/job.pb.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const std::string_view script = testing::Text(data, size);
  if (script.size() > client::kScriptBytesMax) return 0;
  const auto nothing_set = [](std::string_view) { return std::string(); };
  const auto two_devices = [](const std::string&) { return 2u; };
  for (const bool is_batch : {false, true}) {
    client::JobDraft draft;
    const absl::Status taken =
        is_batch
            ? client::TakeSbatch(script, {"a", "--lr=0.1", "b c"}, nothing_set, two_devices, &draft)
            : client::TakeScript(script, {}, nullptr, nothing_set, two_devices, &draft);
    if (!taken.ok()) continue;
    const absl::StatusOr<std::string> text = client::JobFileOf(draft, "train.yaml");
    if (!text.ok()) continue;
    v1::JobSpec spec;
    FUZZ_EXPECT(client::ParseJobFile("train.yaml", *text, {}, &spec).ok());
    FUZZ_EXPECT(std::vector<std::string>(spec.command().begin(), spec.command().end()) ==
                draft.command);
  }
  return 0;
}
