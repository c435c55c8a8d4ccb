// The reporter thread against a worker played by the test.
#include "tracking/reporter.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/files.h"
#include "support/temporary_directory.h"
#include "tracking/trainer_lines.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr int kPatienceMs = 10'000;

// One end of the trainer socket, on the worker's side.
class FakeWorker {
 public:
  explicit FakeWorker(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener_.get(), 4) != 0) {
      throw std::runtime_error("the fake worker cannot listen");
    }
  }

  void accept() {
    pollfd ready{listener_.get(), POLLIN, 0};
    if (::poll(&ready, 1, kPatienceMs) != 1) throw std::runtime_error("no reporter connected");
    connection_.reset(::accept(listener_.get(), nullptr, nullptr));
    input_.clear();
  }

  // Accepts, checks the greeting and answers it.
  Json welcome(int64_t metrics_seq) {
    accept();
    const Json hello = next();
    send({{"type", "welcome"}, {"version", 1}, {"metrics_seq", metrics_seq}});
    return hello;
  }

  Json next() {
    while (true) {
      const size_t end = input_.find('\n');
      if (end != std::string::npos) {
        const Json message = Json::parse(input_.substr(0, end));
        input_.erase(0, end + 1);
        return message;
      }
      pollfd ready{connection_.get(), POLLIN, 0};
      if (::poll(&ready, 1, kPatienceMs) != 1) throw std::runtime_error("the trainer is silent");
      char piece[4096];
      const ssize_t bytes = ::recv(connection_.get(), piece, sizeof(piece), 0);
      if (bytes <= 0) throw std::runtime_error("the trainer hung up");
      input_.append(piece, bytes);
    }
  }

  // Skips messages of other types.
  Json next_of(const std::string& type) {
    while (true) {
      const Json message = next();
      if (message.at("type") == type) return message;
    }
  }

  void send(const Json& message) { send_text(message.dump() + "\n"); }
  void send_text(const std::string& text) {
    ASSERT_EQ(::send(connection_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void hang_up() { connection_.reset(); }

 private:
  FileDescriptor listener_;
  FileDescriptor connection_;
  std::string input_;
};

class ReporterTest : public ::testing::Test {
 protected:
  ReporterOptions options() {
    ReporterOptions options;
    options.socket_path = directory_ / "s";
    options.job = 42;
    options.attempt = 1;
    options.rank = 3;
    options.flush_interval = std::chrono::milliseconds(5);
    return options;
  }

  // Waits for a flag that the reporter thread sets; there is no other notification.
  template <typename Flag>
  static bool becomes_true(Flag flag) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!flag()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  TemporaryDirectory directory_;
};

TEST_F(ReporterTest, ShowsTheTokenThatTheWorkerLeftForItsRanks) {
  FakeWorker worker(directory_ / "s");
  ReporterOptions with_token = options();
  with_token.token_file = directory_ / "token";
  std::ofstream(with_token.token_file) << "0123456789abcdef";
  Reporter reporter(with_token);
  EXPECT_EQ(worker.welcome(0).at("token"), "0123456789abcdef");
}

TEST_F(ReporterTest, GreetsTheWorkerAndNumbersBatchesFromOne) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  reporter.log("loss", 0.5, 10);
  const Json hello = worker.welcome(0);
  EXPECT_EQ(hello.at("type"), "hello");
  EXPECT_EQ(hello.at("version"), 1);
  EXPECT_EQ(hello.at("job"), 42);
  EXPECT_EQ(hello.at("attempt"), 1);
  EXPECT_EQ(hello.at("rank"), 3);
  EXPECT_EQ(hello.at("pid"), ::getpid());
  const Json metrics = worker.next();
  EXPECT_EQ(metrics.at("seq"), 1);
  const Json point = metrics.at("points").at(0);
  EXPECT_EQ(point.at("name"), "loss");
  EXPECT_EQ(point.at("step"), 10);
  EXPECT_EQ(point.at("value"), 0.5);
  EXPECT_GT(point.at("time_ms").get<int64_t>(), 1'600'000'000'000);
  worker.send({{"type", "ack"}, {"metrics_seq", 1}});
}

TEST_F(ReporterTest, SendsAgainWhatWasNotAcknowledgedBeforeTheWorkerDied) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  worker.welcome(0);
  for (int step = 1; step <= 3; ++step) {
    reporter.log("loss", step, step);
    ASSERT_EQ(worker.next_of("metrics").at("seq"), step);
  }
  worker.send({{"type", "ack"}, {"metrics_seq", 1}});
  worker.hang_up();
  // The worker returns with batch 2 stored; its acknowledgment was lost with the connection.
  worker.welcome(2);
  const Json again = worker.next_of("metrics");
  EXPECT_EQ(again.at("seq"), 3);
  EXPECT_EQ(again.at("points").at(0).at("step"), 3);
  reporter.log("loss", 4, 4);
  EXPECT_EQ(worker.next_of("metrics").at("seq"), 4);
  worker.send({{"type", "ack"}, {"metrics_seq", 4}});
}

TEST_F(ReporterTest, ContinuesTheNumberingOfAnEarlierProcessOfTheSameRank) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  reporter.log("loss", 1, 1);
  worker.welcome(17);
  EXPECT_EQ(worker.next().at("seq"), 18);
  worker.send({{"type", "ack"}, {"metrics_seq", 18}});
}

TEST_F(ReporterTest, SpellsNumbersThatJsonDoesNotHave) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  reporter.log("a", NAN, 1);
  reporter.log("b", INFINITY, 1);
  reporter.log("c", -INFINITY, 1);
  worker.welcome(0);
  const Json points = worker.next().at("points");
  EXPECT_EQ(points.at(0).at("value"), "NaN");
  EXPECT_EQ(points.at(1).at("value"), "Infinity");
  EXPECT_EQ(points.at(2).at("value"), "-Infinity");
  worker.send({{"type", "ack"}, {"metrics_seq", 1}});
}

TEST(MetricName, IsMadeAcceptableToTheWorker) {
  EXPECT_EQ(clean_metric_name("train/loss"), "train/loss");
  EXPECT_EQ(clean_metric_name("Genauigkeit in \xe2\x80\xb0"), "Genauigkeit in \xe2\x80\xb0");
  EXPECT_EQ(clean_metric_name(""), "_");
  EXPECT_EQ(clean_metric_name("a\nb\x7f\x01"), "a_b__");
  EXPECT_EQ(clean_metric_name("\xff\xc0\x80\xed\xa0\x80x"), "______x");
  EXPECT_EQ(clean_metric_name("\xc2\x85"), "__");  // a control character of two bytes
  EXPECT_EQ(clean_metric_name(std::string(255, 'a') + "\xc3\xa4"), std::string(255, 'a') + "_");
}

TEST_F(ReporterTest, DropsAndCountsWhatDoesNotFitAndNeverWaits) {
  ReporterOptions small = options();
  small.buffered_points_max = 10;
  small.close_timeout = std::chrono::milliseconds(0);
  FakeWorker worker(directory_ / "s");
  Reporter reporter(small);
  for (int step = 0; step < 15; ++step)
    reporter.log("loss", step, step);  // the worker has not answered yet
  EXPECT_EQ(reporter.dropped(), 5u);
  worker.welcome(0);
  EXPECT_EQ(worker.next_of("metrics").at("points").size(), 10u);
  EXPECT_EQ(worker.next_of("dropped").at("metrics"), 5);
  // The buffer stays full until the worker acknowledges the batch.
  reporter.log("loss", 1, 1);
  EXPECT_EQ(reporter.dropped(), 6u);
  worker.send({{"type", "ack"}, {"metrics_seq", 1}});
  EXPECT_TRUE(becomes_true([&] {
    const uint64_t before = reporter.dropped();
    reporter.log("loss", 2, 2);
    return reporter.dropped() == before;
  }));
}

TEST_F(ReporterTest, KeepsTheValuesOfAStepTogether) {
  ReporterOptions small = options();
  small.buffered_points_max = 3;
  small.close_timeout = std::chrono::milliseconds(0);
  FakeWorker worker(directory_ / "s");
  Reporter reporter(small);
  const std::vector<ScalarValue> pair = {{"loss", 1}, {"l\nr", 2}};
  reporter.log(pair, 1);
  reporter.log(pair, 2);  // only one of them would fit
  EXPECT_EQ(reporter.dropped(), 2u);
  worker.welcome(0);
  const Json points = worker.next_of("metrics").at("points");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points.at(1).at("name"), "l_r");
  EXPECT_EQ(points.at(0).at("time_ms"), points.at(1).at("time_ms"));
}

TEST_F(ReporterTest, CutsLongQueuesIntoBatches) {
  ReporterOptions batched = options();
  batched.batch_points_max = 4;
  FakeWorker worker(directory_ / "s");
  Reporter reporter(batched);
  for (int step = 0; step < 10; ++step) reporter.log(std::string(1000, 'n'), step, step);
  worker.welcome(0);
  size_t points = 0;
  for (int64_t seq = 1; points < 10; ++seq) {
    const Json metrics = worker.next_of("metrics");
    EXPECT_EQ(metrics.at("seq"), seq);
    EXPECT_LE(metrics.at("points").size(), 4u);
    EXPECT_EQ(metrics.at("points").at(0).at("name").get<std::string>().size(), 256u);
    points += metrics.at("points").size();
    worker.send({{"type", "ack"}, {"metrics_seq", seq}});
  }
}

TEST_F(ReporterTest, ReceivesNoticesAndIgnoresUnknownOnes) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  worker.welcome(0);
  EXPECT_FALSE(reporter.stop_requested());
  worker.send_text("not json\n{\"type\":\"from the future\"}\n[1]\n{\"type\":7}\n\n");
  worker.send({{"type", "checkpoint_request"}});
  worker.send({{"type", "committed"}, {"step", 120}});
  worker.send({{"type", "stop"}, {"reason", "cancelled"}, {"grace_ms", 30'000}});
  EXPECT_TRUE(becomes_true([&] { return reporter.stop_requested(); }));
  EXPECT_TRUE(reporter.checkpoint_requested());
  EXPECT_EQ(reporter.committed_step(), 120);
  reporter.clear_checkpoint_request();
  EXPECT_FALSE(reporter.checkpoint_requested());
}

TEST_F(ReporterTest, PassesOnTheWorkersQuestionAndItsAnswerAlsoWhenItComesEarly) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  worker.welcome(0);
  worker.send({{"type", "diagnose"}, {"number", 7}, {"reason", "early"}});
  worker.send({{"type", "stop"}, {"reason", "x"}, {"grace_ms", 1}});
  ASSERT_TRUE(becomes_true([&] { return reporter.stop_requested(); }));  // both have arrived
  const auto answer = [&](int64_t number, const std::string& reason) {
    reporter.diagnosis(number, "{\"why\":\"" + reason + "\"}");
  };
  reporter.on_diagnose(answer);
  Json diagnosis = worker.next_of("diagnosis");
  EXPECT_EQ(diagnosis.at("number"), 7);
  EXPECT_EQ(diagnosis.at("record").at("why"), "early");
  worker.send({{"type", "diagnose"}, {"number", 8}, {"reason", "asked"}});
  diagnosis = worker.next_of("diagnosis");
  EXPECT_EQ(diagnosis.at("number"), 8);
  EXPECT_EQ(diagnosis.at("record").at("why"), "asked");
  reporter.on_diagnose({});
}

TEST_F(ReporterTest, ReportsProgressAndCheckpoints) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  worker.welcome(0);
  reporter.progress(3, 40);
  const Json progress = worker.next_of("progress");
  EXPECT_EQ(progress.at("step"), 3);
  EXPECT_EQ(progress.at("total"), 40);
  reporter.checkpoint_saved(120);
  EXPECT_EQ(worker.next_of("checkpoint").at("step"), 120);
}

TEST_F(ReporterTest, DeliversTheLastPointsBeforeItCloses) {
  FakeWorker worker(directory_ / "s");
  Reporter reporter(options());
  worker.welcome(0);
  reporter.log("loss", 1, 1);
  std::thread closer([&] { reporter.close(); });
  EXPECT_EQ(worker.next_of("metrics").at("seq"), 1);
  worker.send({{"type", "ack"}, {"metrics_seq", 1}});
  closer.join();
}

TEST_F(ReporterTest, ClosesInTimeWhenNoWorkerAnswers) {
  ReporterOptions impatient = options();
  impatient.close_timeout = std::chrono::milliseconds(50);
  Reporter reporter(impatient);  // no process listens there
  reporter.log("loss", 1, 1);
  const auto start = std::chrono::steady_clock::now();
  reporter.close();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST_F(ReporterTest, SurvivesAWorkerThatNeverReads) {
  FakeWorker worker(directory_ / "s");
  ReporterOptions impatient = options();
  impatient.close_timeout = std::chrono::milliseconds(50);
  Reporter reporter(impatient);
  worker.welcome(0);
  for (int step = 0; step < 200'000; ++step) reporter.log("a series with a long name", step, step);
  EXPECT_GT(reporter.dropped(), 0u);
}

TEST_F(ReporterTest, AppendsJsonLinesWithoutAWorker) {
  ReporterOptions to_file;
  to_file.metrics_file = directory_ / "metrics.jsonl";
  to_file.rank = 1;
  {
    Reporter reporter(to_file);
    for (int step = 0; step < 1000; ++step) reporter.log("loss", step / 2.0, step);
  }
  std::ifstream lines(to_file.metrics_file);
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    const Json point = Json::parse(line);
    ASSERT_EQ(point.at("step"), count);
    ASSERT_EQ(point.at("value"), count / 2.0);
    ASSERT_EQ(point.at("rank"), 1);
  }
  EXPECT_EQ(count, 1000);
}

TEST_F(ReporterTest, DoesNothingWithoutASocketAndAFile) {
  Reporter reporter(ReporterOptions{});
  for (int step = 0; step < 100'000; ++step) reporter.log("loss", 1, step);
  EXPECT_EQ(reporter.dropped(), 0u);
}

}  // namespace
}  // namespace muster
