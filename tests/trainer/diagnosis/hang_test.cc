// Real ranks, one of them stuck: their records, the summary sentence, and the files.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "client/diagnosis/hang_report.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr int kRanks = 3;
constexpr std::chrono::seconds kPatience(60);

// The worker's side of the trainer socket for several ranks.
class Worker {
 public:
  explicit Worker(const std::string& path)
      : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener_.get(), kRanks) != 0) {
      throw std::runtime_error("the worker cannot listen");
    }
  }

  void welcome_all() {
    while (ranks_.size() < kRanks) {
      wait_for(listener_.get());
      Rank& rank = ranks_.emplace_back();
      rank.fd.reset(::accept(listener_.get(), nullptr, nullptr));
      EXPECT_EQ(next(rank).at("type"), "hello");
      send(rank, {{"type", "welcome"}, {"version", 1}, {"metrics_seq", 0}});
    }
  }

  // Every rank's record, in the order received.
  std::vector<std::string> diagnose(int number) {
    for (Rank& rank : ranks_) {
      send(rank, {{"type", "diagnose"}, {"number", number}, {"reason", "the test asks"}});
    }
    std::vector<std::string> records;
    for (Rank& rank : ranks_) {
      const Json answer = next(rank);
      EXPECT_EQ(answer.at("type"), "diagnosis");
      EXPECT_EQ(answer.at("number"), number);
      records.push_back(answer.at("record").dump());
      EXPECT_LE(records.back().size(), 64u << 10);
    }
    return records;
  }

 private:
  struct Rank {
    FileDescriptor fd;
    std::string input;
  };
  static void wait_for(int fd) {
    pollfd ready{fd, POLLIN, 0};
    const int patience_ms = static_cast<int>(std::chrono::milliseconds(kPatience).count());
    if (::poll(&ready, 1, patience_ms) != 1) throw std::runtime_error("a rank is silent");
  }
  static Json next(Rank& rank) {
    size_t end = 0;
    while ((end = rank.input.find('\n')) == std::string::npos) {
      wait_for(rank.fd.get());
      char piece[16 << 10];
      const ssize_t bytes = ::recv(rank.fd.get(), piece, sizeof(piece), 0);
      if (bytes <= 0) throw std::runtime_error("a rank hung up");
      rank.input.append(piece, static_cast<size_t>(bytes));
    }
    const Json message = Json::parse(rank.input.substr(0, end));
    rank.input.erase(0, end + 1);
    return message;
  }
  static void send(Rank& rank, const Json& message) {
    const std::string line = message.dump() + "\n";
    ::send(rank.fd.get(), line.data(), line.size(), MSG_NOSIGNAL);
  }

  FileDescriptor listener_;
  std::vector<Rank> ranks_;
};

// Ranks running concurrently with the test.
class Ranks {
 public:
  Ranks(const std::string& directory, std::vector<std::string> arguments,
        const std::map<std::string, std::string>& environment)
      : directory_(directory) {
    arguments.insert(arguments.begin(), TestBuild("bin/tests/diagnosis_ranks"));
    thread_ = std::thread(
        [this, plan = RankPlan{.argv = arguments,
                               .world_size = kRanks,
                               .environment = environment,
                               .deadline = 2 * kPatience}] { results_ = run_ranks(plan); });
  }
  ~Ranks() {
    release();
    if (thread_.joinable()) thread_.join();
  }
  void release() { std::ofstream(directory_ + "/release") << "now"; }
  std::vector<ChildResult> results() {
    release();
    thread_.join();
    return results_;
  }

 private:
  const std::string directory_;
  std::vector<ChildResult> results_;
  std::thread thread_;
};

client::HangReport report_of(const std::vector<std::string>& records) {
  std::vector<client::RankRecord> parsed;
  for (const std::string& text : records) {
    auto record = client::ParseRankRecord(text);
    EXPECT_TRUE(record.ok()) << text;
    if (record.ok()) parsed.push_back(*std::move(record));
  }
  return client::MakeHangReport(kRanks, std::move(parsed));
}

std::string file(const std::string& directory, const char* kind, int rank, const char* ending) {
  return directory + "/" + kind + "-rank-0000" + std::to_string(rank) + ending;
}

std::vector<std::string> records_in(const std::string& directory) {
  std::vector<std::string> records;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string path = file(directory, "flight", rank, ".json");
    if (path_exists(path)) records.push_back(read_file(path, 64 << 20));
  }
  return records;
}

constexpr char kHang[] =
    "rank 2 has not entered all_reduce #4 (4 MiB float32, group default); ranks 0 and 1 wait in it "
    "for ";

// Repeats the request until the ranks that are not loading wait in the fourth collective.
std::vector<std::string> records_of_hang(Worker& worker) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int number = 1;; ++number) {
    const std::vector<std::string> records = worker.diagnose(number);
    if (report_of(records).sentence.find(kHang) == 0 ||
        std::chrono::steady_clock::now() > deadline) {
      return records;
    }
  }
}

class Hang : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Hang, IsExplainedAtTheWorkersRequest) {
  const auto [how, place] = GetParam();
  const TemporaryDirectory directory;
  const std::string files = directory / "files";
  make_directories(files);
  Worker worker(directory / "s");
  Ranks ranks(
      files, {"stuck", files, how},
      {{"MUSTER_SOCKET", directory / "s"}, {"MUSTER_JOB_ID", "7"}, {"MUSTER_ATTEMPT", "0"}});
  worker.welcome_all();
  const client::HangReport report = report_of(records_of_hang(worker));
  EXPECT_EQ(report.sentence.find(kHang), 0u) << report.sentence;
  EXPECT_NE(report.sentence.find(std::string("; rank 2 is in ") + place), std::string::npos)
      << report.sentence;
  std::printf("%s\n%s", report.sentence.c_str(), report.table.c_str());

  // The files have the same content, and the stacks for people name the function and other threads.
  EXPECT_EQ(report_of(records_in(files)).suspects, report.suspects);
  const std::string stacks = read_file(file(files, "stacks", 2, ".txt"), 64 << 20);
  EXPECT_NE(stacks.find(" in diagnosis_ranks+0x"), std::string::npos) << stacks;
  EXPECT_NE(stacks.find("gloo"), std::string::npos) << stacks;
  const Json waiting = Json::parse(records_in(files).at(0));
  EXPECT_FALSE(waiting.at("c10d").at("entries").empty());
  for (const ChildResult& rank : ranks.results()) EXPECT_EQ(rank.exit_code, 0) << rank.output;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Hang,
                         ::testing::Values(std::pair("sleeping", "poll < load_batch < "),
                                           std::pair("spinning", "count_for_ever < ")),
                         [](const auto& test) { return std::string(test.param.first); });

TEST(HangWithoutAWorker, IsWrittenDownByEveryRankBeforeTheTimeOutEndsIt) {
  const TemporaryDirectory directory;
  const std::string files = directory / "files";
  make_directories(files);
  Ranks ranks(files, {"timeout", files}, {});
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto failed = [&](int rank) {
    return path_exists(files + "/failed-" + std::to_string(rank));
  };
  while (!(failed(0) && failed(1)) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  const client::HangReport report = report_of(records_in(files));
  const std::vector<ChildResult> results = ranks.results();
  EXPECT_EQ(report.suspects, std::vector<int>{2}) << report.sentence;
  std::printf("%s\n%s", report.sentence.c_str(), report.table.c_str());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NE(results[static_cast<size_t>(rank)].exit_code, 0);
    EXPECT_NE(results[static_cast<size_t>(rank)].output.find("muster: rank " +
                                                             std::to_string(rank) + " of 3: in "),
              std::string::npos)
        << results[static_cast<size_t>(rank)].output;
  }
}

}  // namespace
}  // namespace muster
