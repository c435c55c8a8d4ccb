// The command line of muster-worker (worker/flags.cc, worker/config.cc).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/text/strings.h"
#include "worker/config.h"
#include "worker/init_command.h"

namespace muster::worker {
namespace {

ParsedFlags Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "muster-worker");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return ParseFlags(static_cast<int>(words.size()), argv.data());
}

std::string Refusal(std::vector<std::string> words) {
  words.insert(words.begin(), {"--coordinator", "unix:/c", "--state-dir", "/s"});
  const ParsedFlags parsed = Parse(std::move(words));
  EXPECT_TRUE(parsed.stop);
  EXPECT_EQ(parsed.exit_code, 2);
  return parsed.text.substr(0, parsed.text.find('\n'));
}

TEST(WorkerFlags, ALineFillsTheConfig) {
  const ParsedFlags parsed =
      Parse({"--coordinator", "head:7700", "--state-dir=/s", "--name", "n1", "--devices", "cpu:2",
             "--port-range", "21000-21999", "--private"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
  EXPECT_EQ(parsed.config.coordinator, "head:7700");
  EXPECT_EQ(parsed.config.state_dir, "/s");
  EXPECT_EQ(parsed.config.devices, "cpu:2");
  EXPECT_EQ(parsed.config.ports.first, 21'000);
  EXPECT_EQ(parsed.config.ports.last, 21'999);
  EXPECT_TRUE(parsed.config.is_private);
}

TEST(WorkerFlags, AWrongLineIsRefusedWithTheFix) {
  EXPECT_EQ(Refusal({"--nmae", "n1"}), "muster-worker: unknown: --nmae n1");
  EXPECT_EQ(Refusal({"--name"}), "muster-worker: --name: 1 required TEXT missing");
  EXPECT_EQ(Refusal({"--port-range", "9"}),
            "muster-worker: port range '9' is not two numbers; fix: use LO-HI, e.g. 20000-28999");
  EXPECT_EQ(Parse({"--coordinator", "unix:/c"}).text,
            "muster-worker: --state-dir is missing: name the directory for what must survive a "
            "restart\n  fix: muster-worker --help lists all flags\n");
}

TEST(WorkerFlags, ANodeThatHasJoinedNeedsNoCoordinator) {
  EXPECT_FALSE(Parse({"--state-dir", "/s"}).stop);
}

ParsedInit ParseInit(std::vector<std::string> words) {
  words.insert(words.begin(), "init");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return ParseInitFlags(static_cast<int>(words.size()), argv.data());
}

TEST(WorkerFlags, InitTakesItsOwnFlagsAndTheWorkersBehindTheDashes) {
  const ParsedInit parsed = ParseInit({"--stop-within", "2m", "--join", "head:7701", "--token-file",
                                       "/t", "--", "--state-dir", "/s", "--name", "n1"});
  ASSERT_FALSE(parsed.stop) << parsed.text;
  EXPECT_EQ(parsed.options.stop_within_ms, 120'000);
  EXPECT_EQ(parsed.options.join, "head:7701");
  EXPECT_EQ(parsed.options.config.name, "n1");
  EXPECT_EQ(parsed.options.worker, (std::vector<std::string>{"--state-dir", "/s", "--name", "n1"}));
  EXPECT_EQ(ParseInit({"--", "--state-dir", "/s"}).options.stop_within_ms, 8'000);
  EXPECT_TRUE(ParseInit({"--state-dir", "/s"}).stop);
  EXPECT_EQ(ParseInit({"--", "--nmae", "n1"}).exit_code, 2);
}

TEST(InitCommand, PausesGrowUntilAWorkerHasRunForAWhile) {
  RestartPause pause;
  std::vector<int64_t> pauses;
  for (int i = 0; i < 7; ++i) pauses.push_back(pause.After(50));
  EXPECT_EQ(pauses, (std::vector<int64_t>{200, 400, 800, 1'600, 3'200, 5'000, 5'000}));
  EXPECT_EQ(pause.After(RestartPause::kHealthyMs), 200);
}

TEST(InitCommand, TheCodeOfAContainerIsThatOfAShell) {
  EXPECT_EQ(ContainerCode(3 << 8), 3);  // exit(3)
  EXPECT_EQ(ContainerCode(9), 137);     // SIGKILL
}

TEST(WorkerFlags, HelpAndVersionNeedNoOtherFlag) {
  for (const char* flag : {"--help", "--version"}) {
    const ParsedFlags parsed = Parse({flag});
    EXPECT_TRUE(parsed.stop);
    EXPECT_EQ(parsed.exit_code, 0);
    EXPECT_FALSE(parsed.text.empty());
  }
}

absl::Status Checked(Config config, Config* result = nullptr) {
  if (config.coordinator.empty()) config.coordinator = "unix:/c";
  if (config.state_dir.empty()) config.state_dir = "/s";
  const absl::Status checked = CheckConfig(&config);
  if (result != nullptr) *result = config;
  return checked;
}

TEST(WorkerConfig, WhatIsLeftOutIsFilledIn) {
  Config config;
  ASSERT_TRUE(Checked({.name = "n1", .state_dir = "/a/../s/./t"}, &config).ok());
  EXPECT_EQ(config.state_dir, "/s/t");
  EXPECT_FALSE(config.runtime_dir.empty());
  EXPECT_EQ(config.advertise, "127.0.0.1") << "a unix socket: no other machine reaches it";
  ASSERT_TRUE(Checked({}, &config).ok());
  EXPECT_FALSE(config.name.empty());
  ASSERT_TRUE(Checked({.coordinator = "head:7700"}, &config).ok());
  EXPECT_FALSE(config.advertise.empty());
}

TEST(WorkerConfig, SeveralCoordinatorsAreAList) {
  Config config;
  ASSERT_TRUE(Checked({.coordinator = "a:7700,b:7700,a:7700"}, &config).ok());
  EXPECT_EQ(config.coordinators, (std::vector<std::string>{"a:7700", "b:7700"}));
  ASSERT_TRUE(Checked({.coordinator = "unix:/c,d"}, &config).ok());
  EXPECT_EQ(config.coordinators, std::vector<std::string>{"unix:/c,d"}) << "a path with a comma";
}

TEST(WorkerConfig, AValueThatCannotBeUsedIsNamed) {
  const auto refusal = [](Config config) { return std::string(Checked(config).message()); };
  const std::string rule = common::StrCat(" must be 1 to ", common::kNameBytesMax,
                                          " bytes of UTF-8 without control characters and slashes");
  EXPECT_EQ(refusal({.name = "a/b"}), "--name \"a/b\"" + rule);
  EXPECT_EQ(refusal({.name = "a\nb"}), "--name \"a\\x0ab\"" + rule);
  const std::string long_name(common::kNameBytesMax + 1, 'x');
  EXPECT_EQ(refusal({.name = long_name}), "--name \"" + long_name + "\"" + rule);
  EXPECT_EQ(refusal({.coordinator = "head"}),
            "--coordinator \"head\" is neither unix:/path nor HOST:PORT");
  EXPECT_EQ(refusal({.coordinator = "a:7700,b"}),
            "--coordinator \"a:7700,b\": \"b\" is neither unix:/path nor HOST:PORT; fix: "
            "HOST:PORT,HOST:PORT");
  EXPECT_EQ(refusal({.coordinator = "a:7700,"}),
            "--coordinator \"a:7700,\": \"\" is neither unix:/path nor HOST:PORT; fix: "
            "HOST:PORT,HOST:PORT");
  std::string many = "h:1";
  for (int port = 2; port <= 17; ++port) common::StrAppend(&many, ",h:", port);
  EXPECT_EQ(refusal({.coordinator = many}),
            "--coordinator names 17 addresses, but at most 16 are dialed; fix: name fewer");
  const std::string deep = "/" + std::string(100, 'd');
  EXPECT_EQ(refusal({.runtime_dir = deep}),
            "--runtime-dir " + deep + " is longer than " + std::to_string(kRuntimeDirBytesMax) +
                " bytes, and a unix socket's path is limited to 108; fix: use a shorter one");
}

}  // namespace
}  // namespace muster::worker
