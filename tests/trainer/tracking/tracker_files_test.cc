// What independent readers find in the trackers' files: TensorBoard itself, Python's json and csv.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/errors.h"
#include "muster/tracking/tracker.h"
#include "support/child_process.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"
#include "tracking/event_record.h"
#include "tracking/png.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The last line that the reader prints; libraries may print others before it.
Json python_reads(const std::string& what, const std::string& path) {
  ChildProcess child(
      {TestPython(), TestSource("tests/trainer/tracking/read_trackers.py"), what, path}, {});
  const ChildResult result =
      child.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  if (result.exit_code != 0) throw std::runtime_error(result.output);
  const std::string text = result.output.substr(0, result.output.find_last_not_of('\n') + 1);
  const size_t line = text.rfind('\n');
  return Json::parse(text.substr(line == text.npos ? 0 : line + 1));
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_content(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

template <typename T, typename... Values>
void log(T& tracker, int64_t step, Values... values) {
  const std::vector<ScalarValue> list = {values...};
  tracker.scalars(list, step, 1.79e9 + static_cast<double>(step));
}

using One = ScalarValue;

class TrackerFilesTest : public ::testing::Test {
 protected:
  std::string only_event_file(const std::string& directory) {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) {
        EXPECT_EQ(found, "");
        found = entry.path();
      }
    }
    return found;
  }

  TemporaryDirectory directory_;
};

class TensorBoardFilesTest : public TrackerFilesTest {
 protected:
  void SetUp() override {
    static const bool found = [] {
      ChildProcess child({TestPython(), "-c", "import tensorboard"}, {});
      return child.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60)).exit_code == 0;
    }();
    if (!found) GTEST_SKIP() << "no Python with tensorboard";
  }
};

TEST_F(TensorBoardFilesTest, TensorBoardReadsScalarsHistogramsImagesTextsAndSettings) {
  TensorBoardTracker tracker({directory_.path()});
  tracker.start({"run", {{"lr", 1e-3}, {"batch", 32}, {"amp", true}, {"optimizer", "adamw"}}, 0});
  for (int step = 0; step < 100; ++step) {
    log(tracker, step, One{"train/loss", 1.0 / (step + 1)}, One{"lr", step * 0.25});
  }
  log(tracker, 100, One{"odd", kNaN});
  log(tracker, 101, One{"odd", kInfinity});
  log(tracker, 102, One{"odd", -kInfinity});
  log(tracker, int64_t{1} << 40, One{"odd", 7}, One{"not\xffutf8\n", 1});
  HistogramData histogram{-1, 2, 3, 1.5, 5, {-1, 0.5, 2.5}, {0, 1, 2}, 0};
  tracker.histogram("weights", histogram, 5, 1.79e9);
  ImageData image{2, 3, 3, {}};
  for (int i = 0; i < 18; ++i) image.pixels.push_back(static_cast<uint8_t>(10 * i));
  tracker.image("digit", image, 6, 1.79e9);
  tracker.text("sample", "In the beginning\n* \xc3\xa4 \xff", 7, 1.79e9);
  tracker.hparams({{"lr", 0.5}, {"name", "b"}}, {{"accuracy", 0.75}}, 1.79e9);
  tracker.finish();

  const Json seen = python_reads("tensorboard", directory_ / "run");
  ASSERT_EQ(seen["scalars"]["train/loss"].size(), 100u);
  for (int step = 0; step < 100; ++step) {
    const Json& point = seen["scalars"]["train/loss"][step];
    EXPECT_EQ(point[0], step);
    EXPECT_EQ(point[1], static_cast<float>(1.0 / (step + 1)));
    EXPECT_EQ(point[2], 1.79e9 + step);
    EXPECT_EQ(seen["scalars"]["lr"][step][1], step * 0.25);
  }
  EXPECT_TRUE(seen["scalars"].contains("not_utf8_"));
  ASSERT_EQ(seen["scalars"]["odd"].size(), 4u);
  EXPECT_EQ(seen["scalars"]["odd"][0][1], "nan");
  EXPECT_EQ(seen["scalars"]["odd"][1][1], "inf");
  EXPECT_EQ(seen["scalars"]["odd"][2][1], "-inf");
  EXPECT_EQ(seen["scalars"]["odd"][3][0], int64_t{1} << 40);

  const Json& found = seen["histograms"]["weights"][0];
  EXPECT_EQ(found["step"], 5);
  EXPECT_EQ(found["min"], -1);
  EXPECT_EQ(found["sum_squares"], 5);
  EXPECT_EQ(found["bucket_limit"], Json({-1, 0.5, 2.5}));
  EXPECT_EQ(found["bucket"], Json({0, 1, 2}));

  const Json& pixels = seen["images"]["digit"][0];
  EXPECT_EQ(pixels["width"], 3);
  EXPECT_EQ(pixels["height"], 2);
  EXPECT_EQ(pixels["mode"], "RGB");
  EXPECT_EQ(pixels["sum"], 10 * 17 * 18 / 2);
  EXPECT_EQ(pixels["first"], Json({0, 10, 20, 30, 40, 50, 60, 70}));

  EXPECT_EQ(seen["texts"]["sample"][0], Json({7, "In the beginning\n* \xc3\xa4 \xef\xbf\xbd"}));
  EXPECT_EQ(seen["plugins"]["train/loss"], "scalars");
  EXPECT_EQ(seen["plugins"]["weights"], "histograms");
  EXPECT_EQ(seen["plugins"]["digit"], "images");
}

TEST_F(TensorBoardFilesTest, TheHParamsPlugInListsARunWithItsSettingsAndLastMetrics) {
  for (const double lr : {0.1, 0.2}) {
    TensorBoardTracker tracker({directory_.path()});
    const std::string run = lr == 0.1 ? "a" : "b";
    tracker.start({run, {{"lr", lr}, {"batch", 32}, {"amp", lr == 0.1}, {"name", run}}, 0});
    log(tracker, 1, One{"accuracy", 0.5});
    log(tracker, 2, One{"accuracy", lr + 0.5});
    if (lr == 0.1) tracker.finish();
    tracker.flush();
  }
  const Json groups = python_reads("hparams", directory_.path())["groups"];
  ASSERT_EQ(groups.size(), 2u);
  for (const Json& group : groups) {
    const bool first = group["hparams"]["name"] == "a";
    EXPECT_EQ(group["hparams"]["lr"], first ? 0.1 : 0.2);
    EXPECT_EQ(group["hparams"]["batch"], 32);
    EXPECT_EQ(group["hparams"]["amp"], first);
    EXPECT_EQ(group["status"], first ? "STATUS_SUCCESS" : "STATUS_UNKNOWN");
    EXPECT_FLOAT_EQ(group["metrics"]["accuracy"], first ? 0.6f : 0.7f);
  }
}

TEST_F(TensorBoardFilesTest, TheHParamsPlugInListsTrialsThatWereGivenWithTheirMetrics) {
  TensorBoardTracker tracker({directory_.path()});
  tracker.start({"", {}, 0});
  tracker.hparams({{"lr", 0.5}, {"name", "first"}}, {{"accuracy", 0.75}}, 1.79e9);
  tracker.hparams({{"lr", 0.25}, {"name", "second"}}, {{"accuracy", 0.5}}, 1.79e9 + 1);
  tracker.finish();
  const Json hparams = python_reads("hparams", directory_.path());
  EXPECT_EQ(hparams["columns"], Json({"lr", "name"}));
  ASSERT_EQ(hparams["groups"].size(), 2u);
  for (const Json& group : hparams["groups"]) {
    const bool first = group["hparams"]["name"] == "first";
    EXPECT_EQ(group["hparams"]["lr"], first ? 0.5 : 0.25);
    EXPECT_EQ(group["metrics"]["accuracy"], first ? 0.75 : 0.5);
    EXPECT_EQ(group["status"], "STATUS_SUCCESS");
  }
}

TEST_F(TensorBoardFilesTest, EventFilesAreNamedAndBegunAsTensorBoardExpects) {
  TensorBoardTracker first({directory_.path()}), second({directory_.path()});
  first.start({"", {}, 0});
  second.start({"", {}, 0});  // in the same second
  EXPECT_NE(first.path(), second.path());
  const Json events = python_reads("events", first.path());
  EXPECT_EQ(events["events"], 1);
  EXPECT_EQ(events["file_version"], "brain.Event:2");
  EXPECT_EQ(events["writer"], "muster");
}

TEST_F(TensorBoardFilesTest, TensorBoardSeesADamagedByteInARecord) {
  TensorBoardTracker tracker({directory_.path()});
  tracker.start({"", {}, 0});
  for (int step = 0; step < 9; ++step) log(tracker, step, One{"loss", 1});
  tracker.finish();
  const std::string path = only_event_file(directory_.path());
  const std::string whole = content_of(path);
  EXPECT_EQ(python_reads("events", path)["events"], 10);
  std::string damaged = whole;
  damaged[whole.size() - 8] ^= 1;  // in the data of the last record
  write_content(path, damaged);
  EXPECT_EQ(python_reads("events", path)["events"], 9);
  damaged = whole;
  damaged[0] ^= 1;  // in the length of the first one
  write_content(path, damaged);
  EXPECT_EQ(python_reads("events", path)["events"], 0);
}

// Source of the first two: RFC 3720 appendix B.4.
TEST(EventRecord, ChecksumsAreThoseOfTheRfc) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST_F(TrackerFilesTest, PythonReadsTheJsonLines) {
  JsonLinesTracker tracker({directory_.path()});
  tracker.start({"run", {{"lr", 1e-3}, {"amp", false}, {"n", 3}, {"s", "a\"\n\xff"}}, 0});
  log(tracker, 1, One{"loss", 0.1}, One{"na\"me\xff", 1e300});
  log(tracker, 2, One{"loss", kNaN}, One{"up", kInfinity}, One{"down", -kInfinity});
  tracker.histogram("weights", {-1, 2, 3, 1.5, 5, {-1, 0.5, 2.5}, {0, 1, 2}, 4}, 5, 1.79e9);
  tracker.image("a/b", {1, 2, 1, {3, 4}}, 6, 1.79e9);
  tracker.text("sample", "tab\t\x01 \xff", 7, 1.79e9);
  tracker.hparams({{"lr", 0.5}}, {{"accuracy", kNaN}}, 1.79e9);
  tracker.finish();
  const Json seen = python_reads("jsonl", directory_ / "run/metrics.jsonl");
  const Json& lines = seen["lines"];
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_EQ(lines[0]["config"],
            Json({{"lr", 1e-3}, {"amp", false}, {"n", 3}, {"s", "a\"\n\xef\xbf\xbd"}}));
  EXPECT_EQ(lines[1], Json({{"name", "loss"},
                            {"step", 1},
                            {"value", 0.1},
                            {"time_ms", 1'790'000'001'000},
                            {"rank", 0}}));
  EXPECT_EQ(lines[2]["name"], "na\"me_");
  EXPECT_EQ(seen["values"], Json({"0.1", "1e+300", "nan", "inf", "-inf"}));
  EXPECT_EQ(lines[6]["bucket_counts"], Json({0, 1, 2}));
  EXPECT_EQ(lines[6]["not_finite"], 4);
  EXPECT_EQ(lines[7]["pixels"]["first"], Json({3, 4}));
  EXPECT_EQ(lines[8]["text"], "tab\t\x01 \xef\xbf\xbd");
  EXPECT_EQ(lines[9]["metrics"]["accuracy"], "NaN");
}

TEST_F(TrackerFilesTest, TheCsvHasARowAStepAndGrowsColumns) {
  CsvTracker tracker({directory_.path()});
  tracker.start({"run", {}, 0});
  log(tracker, 1, One{"loss", 0.5});
  log(tracker, 1, One{"lr", 0.001});  // the same row
  log(tracker, 2, One{"loss", kNaN}, One{"lr", kInfinity});
  tracker.flush();
  EXPECT_EQ(content_of(directory_ / "run/metrics.csv"),
            "step,time_ms,loss,lr\n1,1790000001000,0.5,0.001\n");
  log(tracker, 3, One{"a \"b\", c", -kInfinity}, One{"step", 4});
  log(tracker, 3, One{"step", 5});  // the cell is taken: another row
  tracker.finish();
  const Json seen = python_reads("csv", directory_ / "run/metrics.csv");
  EXPECT_EQ(seen["header"], Json({"step", "time_ms", "loss", "lr", "a \"b\", c", "step.1"}));
  const Json none = nullptr;
  EXPECT_EQ(seen["rows"], Json({{"1.0", "1790000001000.0", "0.5", "0.001", none, none},
                                {"2.0", "1790000002000.0", "nan", "inf", none, none},
                                {"3.0", "1790000003000.0", none, none, "-inf", "4.0"},
                                {"3.0", "1790000003000.0", none, none, none, "5.0"}}));
}

TEST_F(TrackerFilesTest, TheCsvContinuesAfterARestart) {
  {
    CsvTracker tracker({directory_.path()});
    tracker.start({"", {}, 0});
    log(tracker, 1, One{"loss", 0.5}, One{"a,b", 1});
    tracker.finish();
  }
  const std::string path = directory_ / "metrics.csv";
  std::ofstream(path, std::ios::app) << "2,17900";  // the process died here
  {
    CsvTracker tracker({directory_.path()});
    tracker.start({"", {}, 0});
    log(tracker, 2, One{"loss", 0.25}, One{"a,b", 2});
    log(tracker, 3, One{"new", 3});
    tracker.finish();
  }
  EXPECT_EQ(content_of(path),
            "step,time_ms,loss,\"a,b\",new\n1,1790000001000,0.5,1,\n2,1790000002000,0.25,2,\n"
            "3,1790000003000,,,3\n");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST_F(TrackerFilesTest, TheCsvLeavesOtherPeoplesFilesAlone) {
  write_content(directory_ / "metrics.csv", "name,age\nx,1\n");
  CsvTracker tracker({directory_.path()});
  EXPECT_THROW(tracker.start({"", {}, 0}), Error);
  EXPECT_EQ(content_of(directory_ / "metrics.csv"), "name,age\nx,1\n");
}

TEST_F(TrackerFilesTest, TheCsvRefusesNamesWithoutEnd) {
  CsvTracker tracker({directory_.path()});
  tracker.start({"", {}, 0});
  for (int i = 0; i < 1000; ++i) log(tracker, 1, One{"loss at step " + std::to_string(i), 1});
  EXPECT_THROW(log(tracker, 1, One{"loss at step 1000", 1}), Error);
  tracker.finish();
  EXPECT_EQ(python_reads("csv", directory_ / "metrics.csv")["header"].size(), 1002u);
}

TEST_F(TrackerFilesTest, OtherRanksWriteBelowTheirOwnDirectories) {
  for (const int rank : {0, 3}) {
    JsonLinesTracker tracker({directory_.path()});
    tracker.start({"run", {}, rank});
    tracker.finish();
  }
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run/metrics.jsonl"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run/rank-3/metrics.jsonl"));
}

// A file-size limit simulates a full disk. With SIGXFSZ blocked or ignored, exceeding it is an
// error.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, SIG_DFL);
  }

 private:
  rlimit before_{};
};

TEST_F(TensorBoardFilesTest, ARecordThatDoesNotFitOnTheDiskIsTruncated) {
  TensorBoardTracker events({directory_ / "events"});
  JsonLinesTracker lines({directory_ / "lines"});
  CsvTracker table({directory_ / "table"});
  const std::vector<Tracker*> all = {&events, &lines, &table};
  for (Tracker* tracker : all) {
    tracker->start({"", {}, 0});
    log(*tracker, 1, One{"loss", 1});
    log(*tracker, 2, One{"loss", 2});
    tracker->flush();
  }
  const std::string event_file = events.path();
  {
    const FullDisk full(std::filesystem::file_size(event_file) + 10);
    for (Tracker* tracker : all) {
      for (int step = 3; step < 20; ++step) log(*tracker, step, One{"loss", 3});
      EXPECT_THROW(tracker->flush(), Error) << tracker->name();
    }
  }
  for (Tracker* tracker : all) {
    log(*tracker, 20, One{"loss", 20});
    tracker->finish();
  }
  EXPECT_EQ(python_reads("events", event_file)["events"], 1 + 3);
  EXPECT_EQ(python_reads("jsonl", directory_ / "lines/metrics.jsonl")["values"],
            Json({"1.0", "2.0", "20.0"}));
  const Json rows = python_reads("csv", directory_ / "table/metrics.csv")["rows"];
  EXPECT_EQ(rows.front()[2], "1.0");
  EXPECT_EQ(rows.back()[2], "20.0");
}

TEST_F(TensorBoardFilesTest, ImagesOfOneToFourChannelsAreCompressedAndReadBackBitForBit) {
  TensorBoardTracker tracker({directory_.path()});
  tracker.start({"run", {}, 0});
  constexpr int kSide = 100;
  for (int channels = 1; channels <= 4; ++channels) {
    ImageData image{kSide, kSide, channels, {}};
    for (int i = 0; i < kSide * kSide * channels; ++i) {
      image.pixels.push_back(static_cast<uint8_t>(i / kSide));
    }
    tracker.image(std::to_string(channels), image, 1, 1.79e9);
  }
  tracker.finish();

  const Json images = python_reads("tensorboard", directory_ / "run")["images"];
  const char* modes[] = {"L", "LA", "RGB", "RGBA"};
  for (int channels = 1; channels <= 4; ++channels) {
    const Json& seen = images[std::to_string(channels)][0];
    const int bytes = kSide * kSide * channels;
    int sum = 0;
    for (int i = 0; i < bytes; ++i) sum += static_cast<uint8_t>(i / kSide);
    EXPECT_EQ(seen["mode"], modes[channels - 1]);
    EXPECT_EQ(seen["width"], kSide);
    EXPECT_EQ(seen["sum"], sum);
    EXPECT_LT(seen["bytes"].get<int>(), bytes / 4);
  }
}

TEST(Png, RefusesSizesThatDoNotFit) {
  EXPECT_THROW(encode_png({2, 2, 3, std::vector<uint8_t>(11)}), std::invalid_argument);
  EXPECT_THROW(encode_png({0, 2, 3, {}}), std::invalid_argument);
  EXPECT_THROW(encode_png({1, 1, 5, std::vector<uint8_t>(5)}), std::invalid_argument);
  EXPECT_THROW(encode_png({INT_MAX, INT_MAX, 4, {}}), std::invalid_argument);
  EXPECT_NO_THROW(encode_png({300, 300, 4, std::vector<uint8_t>(360'000)}));
}

}  // namespace
}  // namespace muster
