// A launcher's command line, one word per line, as `jobctl run -- torchrun …` takes it.
#include <vector>

#include "client/launchers/launchers.h"
#include "fuzz/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  std::string_view rest = testing::Text(data, size);
  if (rest.find('\0') != rest.npos) return 0;  // a command line argument cannot contain one
  std::vector<std::string> words;
  for (bool more = true; more;) {
    const size_t end = rest.find('\n');
    words.emplace_back(rest.substr(0, end));
    more = end != rest.npos;
    if (more) rest.remove_prefix(end + 1);
  }
  const auto nothing_set = [](std::string_view) { return std::string(); };
  const auto plan = client::ReadLauncherLine(words, nothing_set);
  if (plan.ok() && plan->has_value()) {
    FUZZ_EXPECT(!(*plan)->launcher.empty() && !(*plan)->command.empty());
    client::DescribePlan(**plan);
  }
  client::InnerLauncher(words);
  return 0;
}
