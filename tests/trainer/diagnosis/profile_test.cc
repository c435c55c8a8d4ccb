// Traces of real ranks, read by Python's json as Chrome and Perfetto would; the schedule against
// torch.profiler's.
#include <gtest/gtest.h>

#include <sstream>

#include "base/files.h"
#include "muster/profiling/profiler.h"
#include "support/child_process.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kPatience(120);

std::map<std::string, std::string> read_traces(const std::string& directory, int cycle) {
  ChildProcess python(
      {TestPython(), TestSource("tests/trainer/diagnosis/read_trace.py"),
       TestSource("trainer/tools/trace_timeline.py"), directory, std::to_string(cycle)},
      {});
  const ChildResult result = python.wait(std::chrono::steady_clock::now() + kPatience);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return said(result);
}

class Profile : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// Layers below 4 MiB are reduced through shared memory, larger ones by Gloo's threads.
TEST_P(Profile, ShowsOperatorsCommunicationAndTheOverlapThatTheTraceHas) {
  const auto [width, communication] = GetParam();
  const TemporaryDirectory directory;
  for (const ChildResult& rank : run_ranks(
           {.argv = {TestBuild("bin/tests/diagnosis_ranks"), "profile", directory / "t", width},
 .world_size = 2,
 .deadline = kPatience})) {
    ASSERT_EQ(rank.exit_code, 0) << rank.output;
    EXPECT_EQ(said(rank)["cycles"], "2");
    EXPECT_NE(rank.output.find(" hidden\n"), std::string::npos) << rank.output;
  }
  const std::map<int, std::string> steps = {{0, "ProfilerStep#2 ProfilerStep#3"},
                                            {1, "ProfilerStep#6 ProfilerStep#7"}};
  for (const auto& [cycle, names] : steps) {
    auto read = read_traces(directory / "t", cycle);
    for (const std::string rank : {"rank0_", "rank1_"}) {
      EXPECT_EQ(read[rank + "world_size"], "2");
      EXPECT_EQ(read[rank + "steps"], names);
      EXPECT_EQ(read[rank + "communication"], communication);
      for (const char* fact : {"nests", "has_operators", "same_overlap", "communicates",
                               "fraction_fits", "trace_named"}) {
        EXPECT_EQ(read[rank + fact], "True") << fact;
      }
    }
    EXPECT_EQ(read_file(directory / "t/timeline.svg", 16 << 20).find("<svg "), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, Profile,
                         ::testing::Values(std::pair("128", "shared_memory:all_reduce"),
                                           std::pair("1100", "gloo:all_reduce")),
                         [](const auto& test) { return std::string("Of") + test.param.first; });

const char* name_of(ProfileAction action) {
  switch (action) {
    case ProfileAction::none:
      return "NONE";
    case ProfileAction::warmup:
      return "WARMUP";
    case ProfileAction::record:
      return "RECORD";
    case ProfileAction::record_and_save:
      return "RECORD_AND_SAVE";
  }
  return "";
}

TEST(Schedule, IsTorchProfilers) {
  const std::vector<ProfileOptions> cases = {
      {.wait = 1, .warmup = 1, .active = 2},
      {.wait = 2, .warmup = 1, .active = 3, .repeat = 2, .skip_first = 4},
      {.wait = 3, .warmup = 0, .active = 1, .repeat = 1},
      {.wait = 2, .warmup = 1, .active = 1, .skip_first = 3, .skip_first_wait = true},
      {.wait = 0, .warmup = 0, .active = 1}};
  std::string program = "import torch, warnings\nwarnings.simplefilter('ignore')\n";
  std::string ours;
  for (const ProfileOptions& options : cases) {
    std::ostringstream line;
    line << "s = torch.profiler.schedule(wait=" << options.wait << ", warmup=" << options.warmup
         << ", active=" << options.active << ", repeat=" << options.repeat
         << ", skip_first=" << options.skip_first << ", skip_first_wait=" << options.skip_first_wait
         << ")\n"
         << "print(' '.join(s(i).name for i in range(30)))\n";
    program += line.str();
    for (int step = 0; step < 30; ++step) {
      ours += std::string(step == 0 ? "" : " ") + name_of(profile_action(options, step));
    }
    ours += "\n";
  }
  ChildProcess python({TestPython(), "-c", program}, {});
  const ChildResult theirs = python.wait(std::chrono::steady_clock::now() + kPatience);
  ASSERT_EQ(theirs.exit_code, 0) << theirs.output;
  EXPECT_EQ(theirs.output, ours);
}

}  // namespace
}  // namespace muster
