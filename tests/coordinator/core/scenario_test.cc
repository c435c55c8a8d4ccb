// Golden scenarios: tests/scenarios/*.txt hold inputs and all their consequences.
// MUSTER_UPDATE_SCENARIOS=1 rewrites them; review the diff.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/base/version.h"
#include "common/files/files.h"
#include "tests/support/cluster_script.h"
#include "tests/support/paths.h"

namespace muster::testing {
namespace {

std::vector<std::string> ScenarioFiles() {
  std::vector<std::string> names;
  const std::vector<std::string> all = common::ListDirectory(TestSource("tests/scenarios")).value();
  for (const std::string& name : all) {
    if (name.ends_with(".txt")) names.push_back(name);
  }
  return names;
}

class Scenario : public ::testing::TestWithParam<std::string> {};

TEST_P(Scenario, LeadsToTheRecordedEventsCommandsAndReasons) {
  const std::string path = TestSource("tests/scenarios/" + GetParam());
  const std::string recorded = common::ReadFile(path).value();
  // A release changes no scenario.
  const std::string now =
      absl::StrReplaceAll(RunScenario(recorded), {{common::kVersion, "VERSION"}});
  const bool rewrite = std::getenv("MUSTER_UPDATE_SCENARIOS") != nullptr;
  if (rewrite && now != recorded) std::ofstream(path) << now;
  // A run that rewrites still fails: only a second run shows that the new text is correct.
  EXPECT_EQ(recorded, now) << (rewrite ? "rewritten: review the diff and run again: "
                                       : "if the change is meant: MUSTER_UPDATE_SCENARIOS=1 ")
                           << path;
}

INSTANTIATE_TEST_SUITE_P(All, Scenario, ::testing::ValuesIn(ScenarioFiles()), [](const auto& info) {
  std::string name = info.param.substr(0, info.param.size() - 4);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace muster::testing
