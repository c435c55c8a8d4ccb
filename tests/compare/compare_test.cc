// How runs are compared: series, epochs, limits, keys, words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/problem.h"
#include "compare/comparison.h"
#include "compare/words.h"

namespace muster::compare {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Series SeriesOf(const std::vector<Point>& points) {
  Series series;
  for (const Point& point : points) series.Add(point.step, point.value);
  series.Finish();
  return series;
}

ComparedRun RunOf(const std::string& name,
                  const std::map<std::string, std::vector<Point>>& metrics) {
  ComparedRun run{.name = name};
  for (const auto& [key, points] : metrics) {
    run.names.push_back(key);
    run.series[key] = SeriesOf(points);
  }
  return run;
}

TEST(SeriesTest, TheLastValueOfAStepCountsInWhateverOrderTheyCome) {
  const Series series = SeriesOf({{3, 30}, {1, 10}, {2, 20}, {1, 11}, {3, 31}, {3, 32}});
  EXPECT_EQ(series.points(), (std::vector<Point>{{1, 11}, {2, 20}, {3, 32}}));
}

TEST(SeriesTest, ARestartReplacesWhatWasLoggedFromItsFirstStepOn) {
  Series series;
  for (const int64_t step : {1, 2, 3, 4}) series.Add(step, 1);
  series.ReplaceFrom(3);
  series.Add(3, 2);
  series.Finish();
  EXPECT_EQ(series.points(), (std::vector<Point>{{1, 1}, {2, 1}, {3, 2}}));
}

TEST(EpochsTest, StepsPerEpochCountDoneSteps) {
  const Epochs epochs = Epochs::OfSteps(10);
  const std::vector<std::pair<int64_t, int64_t>> cases = {{0, 1},  {1, 1},  {10, 1}, {11, 2},
                                                          {20, 2}, {21, 3}, {-5, 1}};
  for (const auto& [step, epoch] : cases) EXPECT_EQ(epochs.At(step), epoch) << step;
}

TEST(EpochsTest, AMetricDefinesThemAsAFractionOrAsAWholeNumber) {
  // Hugging Face: the share that is done. Lightning: the number of the epoch, from 0.
  const Epochs fraction = Epochs::OfMetric(SeriesOf({{10, 0.5}, {20, 1}, {30, 1.5}, {40, 2}}));
  EXPECT_EQ(fraction.At(10), 1);
  EXPECT_EQ(fraction.At(20), 1);
  EXPECT_EQ(fraction.At(30), 2);
  EXPECT_EQ(fraction.At(35), 2);
  EXPECT_EQ(fraction.At(1), 1) << "before the first point";
  EXPECT_EQ(fraction.At(41), 3) << "after the last point";
  const Epochs whole = Epochs::OfMetric(SeriesOf({{0, 0}, {5, 0}, {6, 1}}));
  EXPECT_EQ(whole.At(5), 0);
  EXPECT_EQ(whole.At(6), 1);
}

TEST(EpochsTest, AMetricThatIsLoggedOnceAnEpochMayBeAtItsEnd) {
  const Epochs epochs = Epochs::OfMetric(SeriesOf({{100, 1}, {200, 2}}));
  const std::vector<std::pair<int64_t, int64_t>> cases = {
      {1, 1}, {100, 1}, {101, 2}, {200, 2}, {201, 3}};
  for (const auto& [step, epoch] : cases) EXPECT_EQ(epochs.At(step), epoch) << step;
}

TEST(EpochsTest, AFloatThatIsSlightlyMoreThanAWholeEpochBelongsToIt) {
  EXPECT_EQ(Epochs::OfMetric(SeriesOf({{9, 3.0000001}})).At(9), 3);
}

TEST(EpochsTest, HostileValuesDefineNoEpoch) {
  EXPECT_FALSE(Epochs::OfMetric(SeriesOf({{1, kNan}, {2, kInfinity}, {3, 1e300}})).known());
  EXPECT_FALSE(Epochs().known());
}

TEST(EpochsTest, AnEpochsValueIsTheMeanOfItsPoints) {
  const std::vector<Point> points = {{1, 1}, {2, 3}, {3, 10}};
  EXPECT_EQ(Epochs::OfSteps(2).Means(points), (std::vector<Point>{{1, 2}, {2, 10}}));
}

TEST(EpochsTest, AnEpochThatComesAgainIsOneAndItsValuesAreAddedInTheOrderOfSteps) {
  const Epochs epochs = Epochs::OfMetric(SeriesOf({{1, 2}, {2, 1}, {3, 2}, {4, 2}, {5, 1}}));
  const std::vector<Point> points = {{1, 1e16}, {2, 5}, {3, 1}, {4, -1e16}, {5, 7}};
  EXPECT_EQ(epochs.Means(points), (std::vector<Point>{{1, 6}, {2, (1e16 + 1 - 1e16) / 3}}));
}

TEST(EpochsTest, TheNeighborOfAMetricDefinesItsEpochs) {
  const std::vector<std::string> names = {"epoch", "eval/epoch", "train/epoch", "train/loss"};
  EXPECT_EQ(EpochMetricOf("train/loss", names), "train/epoch");
  EXPECT_EQ(EpochMetricOf("loss", names), "epoch");
  EXPECT_EQ(EpochMetricOf("test/loss", names), "epoch");
  EXPECT_EQ(EpochMetricOf("loss", std::vector<std::string>{"a/epoch", "loss"}), "a/epoch");
  EXPECT_EQ(EpochMetricOf("loss", std::vector<std::string>{"epochs", "my_epoch", "loss"}), "");
}

struct LimitCase {
  double baseline, value, rtol, atol;
  bool past;
};

TEST(DifferenceTest, TheLimitIsNumpysAndNoNanPasses) {
  const std::vector<LimitCase> cases = {
      {1, 1.0005, 0.000483, 0, true},
      {1, 1.00048, 0.000483, 0, false},
      {-2, -2.02, 0.01, 0.001, false},  // of |baseline|
      {100, 101, 0.01, 0, false},       // exactly the limit
      {101, 100, 0, 0.5, true},
      {0, 0, 0.1, 0, false},
      {0, 1e-9, 0.1, 0, true},  // relative to nothing: only atol helps
      {0, 1e-9, 0.1, 1e-8, false},
      {kNan, kNan, 1, 1, true},
      {1, kNan, 1, 1, true},
      {kInfinity, 1, 1, 1, true},
      {kInfinity, kInfinity, 1, 1, true},
      {1e308, -1e308, 0.1, 0, true},  // the difference overflows
      {5e-324, 1e-323, 0, 1e-300, false},
  };
  for (const LimitCase& each : cases) {
    const Limit limit{.given = true, .rtol = each.rtol, .atol = each.atol};
    EXPECT_EQ(MakeRow(1, each.baseline, each.value, limit).past, each.past)
        << each.baseline << " " << each.value;
    const Row unlimited = MakeRow(1, each.baseline, each.value, Limit{});
    EXPECT_EQ(unlimited.past, !std::isfinite(each.baseline) || !std::isfinite(each.value));
  }
}

TEST(DifferenceTest, OnlyCommonStepsCountAndTheRestIsCounted) {
  const std::vector<Point> a = {{1, 1}, {2, 2}, {3, 4}, {5, 0}, {9, 9}};
  const std::vector<Point> b = {{2, 2}, {3, 5}, {4, 7}, {5, 1}};
  std::vector<int64_t> rows;
  const Differences all = Compare(a, b, {.given = true, .rtol = 0.1, .atol = 0},
                                  [&](const Row& row) { rows.push_back(row.at); });
  EXPECT_EQ(rows, (std::vector<int64_t>{2, 3, 5}));
  EXPECT_EQ(all.compared, 3u);
  EXPECT_EQ(all.only_baseline, 2u);
  EXPECT_EQ(all.only_run, 1u);
  EXPECT_EQ(all.past, 2u);
  EXPECT_EQ(all.first_past->at, 3);
  EXPECT_EQ(all.zero_baseline, 1u);
  EXPECT_DOUBLE_EQ(all.mean_rel, 0.125) << "without the row whose baseline is 0";
  EXPECT_DOUBLE_EQ(all.mean_abs, 2.0 / 3);
  EXPECT_EQ(all.largest_rel->at, 3);
}

TEST(DifferenceTest, NothingComparedDoesNotPass) {
  EXPECT_FALSE(Compare({}, {}, {.given = true, .rtol = 1}).passes());
}

TEST(ComparisonTest, RunsWithoutACommonStepAreAnErrorNotAPass) {
  const ComparedRun a = RunOf("a", {{"loss", {{0, 1}, {10, 1}}}});
  const ComparedRun b = RunOf("b", {{"loss", {{5, 1}, {15, 1}}}});
  const auto pair = CompareRuns("loss", a, b, {.limit = {.given = true, .rtol = 1}});
  EXPECT_EQ(common::CodeOf(pair.status()), "JC1541");
  EXPECT_EQ(common::ProblemOf(pair.status()).what,
            "loss has no step in common: a has 0 to 10, b has 5 to 15");
}

TEST(ComparisonTest, ByEpochRunsWithOtherStepsAreComparedByTheirMeans) {
  const ComparedRun a = RunOf(
      "a", {{"loss", {{1, 4}, {2, 2}, {3, 1}, {4, 1}}}, {"epoch", {{1, 0.5}, {2, 1}, {4, 2}}}});
  const ComparedRun b = RunOf("b", {{"loss", {{1, 3}, {2, 1.5}}}, {"epoch", {{1, 1}, {2, 2}}}});
  const ComparisonSetup setup{.by = By::kEpoch, .limit = {.given = true, .rtol = 0.1}};
  const auto pair = CompareRuns("loss", a, b, setup);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->differences.compared, 2u);
  EXPECT_EQ(pair->differences.first_past->at, 2);
  EXPECT_EQ(pair->first_step_past->at, 1) << "a step that both have";
}

TEST(ComparisonTest, WithoutAnEpochMetricTheErrorNamesTheWaysOut) {
  const ComparedRun a = RunOf("a", {{"loss", {{1, 4}}}});
  const auto pair = CompareRuns("loss", a, a, {.by = By::kEpoch});
  EXPECT_EQ(common::CodeOf(pair.status()), "JC1542");
  EXPECT_NE(common::ProblemOf(pair.status()).fix.find("--steps-per-epoch"), std::string::npos);
  EXPECT_TRUE(CompareRuns("loss", a, a, {.by = By::kEpoch, .steps_per_epoch = 1}).ok());
}

TEST(ComparisonTest, NamesAreInEveryRunAndPatternsLeaveOutWhatIsNot) {
  const std::vector<ComparedRun> runs = {
      RunOf("a", {{"loss", {{1, 1}}}, {"train/acc", {{1, 1}}}, {"train/lr", {{1, 1}}}}),
      RunOf("b", {{"loss", {{1, 1}}}, {"train/acc", {{1, 1}}}})};
  std::vector<std::string> left_out;
  EXPECT_EQ(*KeysOf({"loss", "train/*"}, runs, &left_out),
            (std::vector<std::string>{"loss", "train/acc"}));
  EXPECT_EQ(left_out, std::vector<std::string>{"train/lr"});
  EXPECT_EQ(*KeysOf({}, runs, &left_out), std::vector<std::string>{"loss"});
  const std::vector<ComparedRun> trainers = {
      RunOf("a", {{"loss", {{1, 1}}}, {"eval_loss", {{1, 1}}}, {"train_loss", {{1, 1}}}}),
      RunOf("b", {{"eval_loss", {{1, 1}}}, {"lr", {{1, 1}}}, {"train_loss", {{1, 1}}}})};
  EXPECT_EQ(*KeysOf({}, trainers, &left_out), std::vector<std::string>{"train_loss"});
  const auto none = KeysOf({}, {trainers[0], RunOf("c", {{"lr", {{1, 1}}}})}, &left_out);
  EXPECT_NE(common::ProblemOf(none.status()).what.find("c has no metric \"loss\""),
            std::string::npos);
  for (const char* missing : {"los", "train/lr", "x*"}) {
    const auto keys = KeysOf({missing}, runs, &left_out);
    EXPECT_EQ(common::CodeOf(keys.status()), "JC1503") << missing;
    EXPECT_EQ(keys.status().code(), absl::StatusCode::kNotFound);
  }
}

TEST(ComparisonTest, TolerancesMayBePercent) {
  EXPECT_DOUBLE_EQ(*ParseTolerance("0.0483%"), 0.000483);
  EXPECT_DOUBLE_EQ(*ParseTolerance("1e-3"), 1e-3);
  for (const char* bad : {"", "%", "-1", "nan", "inf", "2 percent", "1%%"}) {
    EXPECT_FALSE(ParseTolerance(bad).ok()) << bad;
  }
}

TEST(ComparedRunTest, TheLowestRankOfEachMetricCounts) {
  const WantedMetrics wanted{.keys = {"loss"}};
  PointBudget budget(100, "");
  RunBuilder builder(wanted, &budget);
  ASSERT_TRUE(builder.Add("loss", 1, 5, 1.0).ok());
  ASSERT_TRUE(builder.Add("loss", 0, 5, 2.0).ok());
  ASSERT_TRUE(builder.Add("loss", 1, 6, 3.0).ok());
  ASSERT_TRUE(builder.Add("other", 0, 6, 3.0).ok());
  const ComparedRun run = builder.Finish("x");
  EXPECT_EQ(run.Find("loss")->points(), (std::vector<Point>{{5, 2.0}}));
  EXPECT_EQ(run.Find("other"), nullptr);
  EXPECT_EQ(run.names, (std::vector<std::string>{"loss", "other"}));
}

TEST(ComparedRunTest, PointsThatAreReplacedGiveTheirRoomBack) {
  const WantedMetrics wanted{.keys = {"loss"}};
  PointBudget budget(4, "name fewer");
  RunBuilder builder(wanted, &budget);
  for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(builder.Add("loss", 1, step, 1.0).ok());
  for (const int64_t step : {1, 2, 2, 2}) ASSERT_TRUE(builder.Add("loss", 0, step, 2.0).ok());
  builder.ReplaceFrom("loss", 2);
  for (const int64_t step : {3, 3, 4}) ASSERT_TRUE(builder.Add("loss", 0, step, 2.0).ok());
  const absl::Status full = builder.Add("loss", 0, 5, 2.0);
  EXPECT_EQ(common::CodeOf(full), "JC1544");
  EXPECT_EQ(common::ProblemOf(full).fix, "name fewer");
  EXPECT_EQ(builder.Finish("x").Find("loss")->points().size(), 3u);
}

std::vector<int64_t> ShownOf(int64_t rows, const std::map<int64_t, double>& other) {
  std::vector<Point> a, b;
  for (int64_t step = 0; step < rows; ++step) {
    a.push_back({step, 1});
    b.push_back({step, other.contains(step) ? other.at(step) : 1});
  }
  const ComparedRun first = RunOf("a", {{"loss", a}}), second = RunOf("b", {{"loss", b}});
  const ComparisonSetup setup{.limit = {.given = true, .rtol = 0.1}};
  std::vector<int64_t> shown;
  const auto pair = CompareRuns("loss", first, second, setup);
  for (const Row& row : ShownRows(*pair, setup.limit)) shown.push_back(row.at);
  return shown;
}

TEST(WordsTest, OfManyRowsThoseThatMatterAreShown) {
  EXPECT_EQ(ShownOf(3, {}), (std::vector<int64_t>{0, 1, 2}));
  const std::vector<int64_t> shown = ShownOf(1'000, {{333, 2}, {777, 9}});
  EXPECT_EQ(shown.size(), 43u);
  for (const int64_t step : {0, 25, 333, 777, 999}) {
    EXPECT_EQ(std::count(shown.begin(), shown.end(), step), 1) << step;
  }
}

TEST(WordsTest, ASummarySaysAllThatMattersOnce) {
  const ComparedRun a = RunOf("a", {{"loss", {{1, 1}, {2, 0}, {3, 2}, {4, kNan}, {5, 1}}}});
  const ComparedRun b = RunOf("b", {{"loss", {{1, 1}, {2, 1}, {3, 3}, {4, 1}, {6, 1}, {7, 1}}}});
  const ComparisonSetup setup{.limit = {.given = true, .rtol = 0.1}};
  const auto pair = CompareRuns("loss", a, b, setup);
  EXPECT_EQ(VerdictOf(*pair, setup.limit), "FAIL");
  EXPECT_EQ(HeadOf(*pair, setup.by), "loss of b against a: 4 steps, 3 past the limit");
  EXPECT_EQ(
      SummaryOf(*pair, setup),
      (std::vector<std::string>{
          "mean  abs 0.666667  rel 25%", "max   rel 50% at step 3  abs 1 at step 2",
          "limit |a-b| <= 10% of |baseline|", "first past the limit: step 2 (0 and 1, rel inf%)",
          "1 step with NaN or infinity", "1 step with a baseline of 0: no relative difference",
          "left out: 1 step that only a has, 2 steps that only b has"}));
  const auto same = CompareRuns("loss", b, b, {});
  EXPECT_EQ(VerdictOf(*same, {}), "not judged");
  EXPECT_EQ(VerdictOf(*same, setup.limit), "PASS");
}

TEST(WordsTest, DigitsSufficeForSmallDifferences) {
  EXPECT_EQ(PeoplePercent(0.000483), "0.0483%");
  EXPECT_EQ(PeoplePercent(0.00048347), "0.04835%");
  EXPECT_EQ(LimitText({.given = true, .rtol = 0.000483, .atol = 1e-8}),
            "|a-b| <= 1e-08 + 0.0483% of |baseline|");
}

}  // namespace
}  // namespace muster::compare
