// The files that jobctl compare reads and writes: CSV, JUnit.
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "client/compare/csv_metrics.h"
#include "client/compare/csv_rows.h"
#include "client/compare/junit.h"
#include "client/compare/read_run.h"
#include "common/text/exact_number.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using compare::ComparedRun;
using compare::Comparison;
using compare::ComparisonSetup;
using compare::Point;
using compare::PointBudget;
using compare::RunBuilder;
using compare::WantedMetrics;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

ComparedRun LossRun(const std::string& name, const std::vector<Point>& points) {
  ComparedRun run{.name = name, .names = {"loss"}};
  for (const Point& point : points) run.series["loss"].Add(point.step, point.value);
  run.series["loss"].Finish();
  return run;
}

TEST(ReadRunTest, AWordIsAPathIfItCannotBeAJob) {
  for (const char* path : {"./a", "runs/x", "/x", "a.csv", "events.out.tfevents.1.host", ".", ".."})
    EXPECT_TRUE(IsPathOfRun(path)) << path;
  for (const char* job : {"a", "@last", "12", "csv", "a.csv.b"})
    EXPECT_FALSE(IsPathOfRun(job)) << job;
}

std::vector<std::vector<std::string>> ReadRows(const std::string& text, size_t piece,
                                               absl::Status* status) {
  std::vector<std::vector<std::string>> rows;
  CsvRows reader([&](const std::vector<std::string>& fields, size_t) {
    rows.push_back(fields);
    return absl::OkStatus();
  });
  *status = absl::OkStatus();
  for (size_t at = 0; at < text.size(); at += piece) {
    status->Update(reader.Feed(std::string_view(text).substr(at, piece)));
  }
  status->Update(reader.Finish());
  return rows;
}

TEST(CsvRowsTest, QuotesLineBreaksAndReturnsInPiecesOfAnySize) {
  const std::string text =
      "step,\"a,b\",c\r\n1,\"say \"\"hi\"\"\",\n\n2,\"two\r\nlines\",x\"y\n3,\"\",end";
  const std::vector<std::vector<std::string>> wanted = {{"step", "a,b", "c"},
                                                        {"1", "say \"hi\"", ""},
                                                        {"2", "two\r\nlines", "x\"y"},
                                                        {"3", "", "end"}};
  for (size_t piece = 1; piece < 12; ++piece) {
    absl::Status status;
    EXPECT_EQ(ReadRows(text, piece, &status), wanted) << piece;
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(CsvRowsTest, WhatIsWrittenReadsBack) {
  for (const std::string field :
       {"plain", "a,b", "\"", "=1+1", "two\nlines", "\r", " spaced ", "\x01\xff", "\"\"quoted"}) {
    absl::Status status;
    const auto rows = ReadRows("x," + CsvField(field) + "\n", 3, &status);
    ASSERT_TRUE(status.ok() && rows.size() == 1 && rows[0].size() == 2) << field;
    EXPECT_EQ(rows[0][1], field);
  }
}

TEST(CsvRowsTest, AnUnclosedQuoteAndAnEndlessRowAreErrors) {
  absl::Status status;
  ReadRows("a,\"b\nc", 100, &status);
  EXPECT_FALSE(status.ok());
  ReadRows("\"" + std::string(CsvRows::kRowBytesMax + 1, 'x'), 1 << 20, &status);
  EXPECT_FALSE(status.ok());
  ReadRows(std::string(CsvRows::kColumnsMax + 2, ','), 1 << 20, &status);
  EXPECT_FALSE(status.ok());
}

// The points of `loss` in a CSV file, or what is wrong with it.
std::string LossOf(const std::string& text) {
  const WantedMetrics wanted{.keys = {"loss", "Value"}};
  PointBudget budget(1'000, "");
  RunBuilder builder(wanted, &budget);
  std::optional<CsvMetrics> csv;
  CsvRows rows([&](const std::vector<std::string>& fields, size_t) -> absl::Status {
    if (csv) return csv->AddRow(fields, wanted, &builder);
    absl::StatusOr<CsvMetrics> header = CsvMetrics::FromHeader(fields);
    if (header.ok()) csv = *header;
    return header.status();
  });
  absl::Status status = rows.Feed(text);
  status.Update(rows.Finish());
  if (!status.ok()) return std::string(status.message());
  const ComparedRun run = builder.Finish("x");
  std::string out;
  for (const auto& [name, series] : run.series) {
    for (const Point& point : series.points()) {
      common::StrAppend(&out, name, "@", point.step, "=", common::ExactNumber(point.value), " ");
    }
  }
  return out;
}

TEST(CsvMetricsTest, TheColumnsMayBeMetricsOrNameAndValue) {
  EXPECT_EQ(LossOf("step,loss,acc\n1,0.5,x\n2,,\n3,NaN,1\n"), "loss@1=0.5 loss@3=NaN ");
  EXPECT_EQ(LossOf("name,step,value\nloss,1,0.5\nacc,1,2\nloss,2,-inf\n"),
            "loss@1=0.5 loss@2=-Infinity ");
  EXPECT_EQ(LossOf("Wall time,Step,Value\n1.5,10.0,3\n"), "Value@10=3 ") << "TensorBoard's own";
  EXPECT_EQ(LossOf("epoch,loss\n1,3\n2,4\n"), "loss@1=3 loss@2=4 ");
  EXPECT_EQ(LossOf("step,loss,epoch\n1,3,0.5\n"), "epoch@1=0.5 loss@1=3 ");
  EXPECT_EQ(
      LossOf("job,attempt,rank,step,time_ms,name,value\nx,0,1,1,5,loss,7\nx,0,0,1,5,loss,8\n"),
      "loss@1=8 ")
      << "what export writes";
}

TEST(CsvMetricsTest, WhatIsNotMetricsIsAnError) {
  EXPECT_NE(LossOf("loss,acc\n1,2\n").find("no column \"step\""), std::string::npos);
  EXPECT_NE(LossOf("step,loss\n1.5,2\n").find("not a whole number"), std::string::npos);
  EXPECT_NE(LossOf("step,loss\n1,abc\n").find("not a number"), std::string::npos);
  EXPECT_NE(LossOf("step,name,value\n1\n").find("no name or no value"), std::string::npos);
  const auto two = CsvMetrics::FromHeader({"job", "step", "loss"});
  EXPECT_EQ(two->JobOf({"lr-low-1", "1", "2"}), "lr-low-1");
  EXPECT_TRUE(two->metrics()[0].empty()) << "a job is not a metric";
}

TEST(JUnitTest, TextIsEscapedForXml) {
  EXPECT_EQ(XmlText("a<b>&\"c\"\n\x01\xff"), "a&lt;b&gt;&amp;&quot;c&quot;&#10;\\x01\\xff");
  EXPECT_EQ(XmlText("\xEF\xBF\xBE").find("\xEF\xBF\xBE"), std::string::npos) << "not in XML";
}

TEST(JUnitTest, EachEpochIsACaseAndManyStepsShareOne) {
  std::vector<Point> a, b;
  for (int64_t step = 1; step <= 1000; ++step) {
    a.push_back({step, 1});
    b.push_back({step, step == 705 ? 2.0 : 1.0});
  }
  const ComparedRun first = LossRun("a", a);
  const ComparedRun second = LossRun("b\"<", b);
  const ComparisonSetup setup{.limit = {.given = true, .rtol = 0.1}};
  const std::vector<Comparison> pairs = {*compare::CompareRuns("loss", first, second, setup)};
  const std::string report = JUnitReport(pairs, setup);
  EXPECT_TRUE(report.starts_with(kJUnitHead));
  EXPECT_NE(report.find("tests=\"100\" failures=\"1\""), std::string::npos) << report;
  EXPECT_NE(report.find("name=\"loss steps 701 to 710\""), std::string::npos);
  EXPECT_NE(report.find("step 705: relative difference 100% is past the limit"), std::string::npos);
  EXPECT_EQ(report.find("b\"<"), std::string::npos);
}

TEST(ExactNumberTest, ReadsBackAsTheSameDouble) {
  for (const double value : {0.1, 1e-300, 1.0 / 3, 0.43124997615814209, -0.0, 5e-324}) {
    EXPECT_EQ(strtod(common::ExactNumber(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(common::ExactNumber(0.1), "0.1");
  EXPECT_EQ(common::ExactJson(kNan), "\"NaN\"");
  EXPECT_EQ(common::ExactJson(-kInfinity), "\"-Infinity\"");
}

}  // namespace
}  // namespace muster::client
