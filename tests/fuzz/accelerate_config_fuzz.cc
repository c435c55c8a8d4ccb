// accelerate's configuration file.
#include "client/launchers/launchers.h"
#include "fuzz/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  static const testing::Directory directory;
  directory.Write("config.yaml", testing::Text(data, size));
  const auto nothing_set = [](std::string_view) { return std::string(); };
  const auto plan = client::PlanFromAccelerateConfig(directory.Path("config.yaml"),
                                                     {"python3", "train.py"}, nothing_set);
  if (plan.ok()) {
    FUZZ_EXPECT(!plan->command.empty());
    client::DescribePlan(*plan);
  }
  return 0;
}
