// docs/lifecycle.md is generated from the table; MUSTER_UPDATE_SCENARIOS=1 rewrites it.
#include "coordinator/core/state/lifecycle.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/files/files.h"
#include "coordinator/core/state/state.h"
#include "tests/support/paths.h"

namespace muster::coordinator {
namespace {

std::string PrintedTable() {
  std::string text =
      "# The life of a job\n\nPrinted from the table in `coordinator/core/state/lifecycle.cc`; "
      "every "
      "other edge is a bug that "
      "stops the daemon.\n\n| from | to | when |\n|---|---|---|\n";
  for (const JobEdge& edge : JobEdges()) {
    absl::StrAppend(&text, "| ", StateName(edge.from), " | ", StateName(edge.to), " | ", edge.when,
                    " |\n");
  }
  return text;
}

TEST(Lifecycle, TheDocumentShowsTheTable) {
  const std::string path = TestSource("docs/lifecycle.md");
  const std::string recorded = common::ReadFile(path).value_or("missing");
  const bool rewrite = std::getenv("MUSTER_UPDATE_SCENARIOS") != nullptr;
  if (rewrite && recorded != PrintedTable()) std::ofstream(path) << PrintedTable();
  EXPECT_EQ(recorded, PrintedTable());
}

TEST(Lifecycle, FinalStatesHaveNoWayOutAndAllOthersReachOne) {
  std::set<v1::JobState> reaches;
  for (size_t round = 0; round < JobEdges().size(); ++round) {
    for (const JobEdge& edge : JobEdges()) {
      EXPECT_FALSE(IsFinal(edge.from)) << edge.when;
      if (IsFinal(edge.to) || reaches.contains(edge.to)) reaches.insert(edge.from);
    }
  }
  EXPECT_EQ(reaches.size(), 5u);  // QUEUED, STARTING, RUNNING, STOPPING, RESTARTING
}

}  // namespace
}  // namespace muster::coordinator
