// Precedence of settings, contexts, and a configuration file with errors.
#include "client/session/settings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "common/problem.h"
#include "tests/support/paths.h"

namespace muster::client {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/settings.XXXXXX";
    directory_ = mkdtemp(path);
    setenv("JOBCTL_CONFIG", File().c_str(), 1);
    for (const char* name : {"JOBCTL_SERVER", "JOBCTL_CONTEXT", "JOBCTL_OUTPUT", "JOBCTL_COLOR"}) {
      unsetenv(name);
    }
  }
  void TearDown() override {
    unlink(File().c_str());
    rmdir(directory_.c_str());
    for (const char* name : {"JOBCTL_CONFIG", "JOBCTL_SERVER", "JOBCTL_CONTEXT", "JOBCTL_OUTPUT"}) {
      unsetenv(name);
    }
  }
  std::string File() const { return directory_ + "/config.yaml"; }
  void Write(const std::string& text) { std::ofstream(File()) << text; }
  static absl::StatusOr<Settings> Resolve(const std::vector<std::string>& line) {
    return Settings::Resolve(*Arguments::Parse(line));
  }
  static std::string Origin(const Settings& settings, const std::string& name) {
    for (const Setting& setting : settings.all()) {
      if (setting.name == name) return setting.origin;
    }
    return "";
  }
  std::string directory_;
};

TEST_F(SettingsTest, WithoutAnythingThePrivateCoordinatorIsMeant) {
  const auto settings = Resolve({"ls"});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->server(), "");
  EXPECT_EQ(settings->Get("context"), "private");
  EXPECT_EQ(settings->timeout_ms(), 10'000);
}

TEST_F(SettingsTest, FlagsWinOverVariablesOverContextOverDefaults) {
  Write("current: lab\ncontexts:\n  lab: {server: 'head:7700'}\ndefaults: {output: wide}\n");
  EXPECT_EQ(Resolve({"ls"})->server(), "head:7700");
  EXPECT_EQ(Origin(*Resolve({"ls"}), "server"), "context lab");
  EXPECT_EQ(Origin(*Resolve({"ls"}), "output"), File());
  setenv("JOBCTL_SERVER", "other:1", 1);
  setenv("JOBCTL_OUTPUT", "json", 1);
  EXPECT_EQ(Resolve({"ls"})->server(), "other:1");
  EXPECT_EQ(Origin(*Resolve({"ls"}), "output"), "JOBCTL_OUTPUT");
  EXPECT_EQ(Resolve({"ls", "-s", "third:2"})->server(), "third:2");
  EXPECT_EQ(Resolve({"ls", "-c", "private"})->server(), "");
  EXPECT_EQ(Origin(*Resolve({"ls", "-o", "csv"}), "output"), "flag --output");
}

TEST_F(SettingsTest, WrongSettingsAreNamed) {
  const auto what = [](const std::vector<std::string>& line) {
    const auto settings = Resolve(line);
    return settings.ok() ? "" : common::ProblemOf(settings.status()).what;
  };
  EXPECT_NE(what({"ls", "-s", "a:1", "-c", "b"}).find("both select a coordinator"),
            std::string::npos);
  EXPECT_NE(what({"ls", "-c", "privat"}).find("did you mean \"private\"?"), std::string::npos);
  EXPECT_EQ(what({"ls", "-s", ""}), "--server \"\" is neither HOST:PORT nor unix:/PATH");
  for (const char* server : {"foo", "foo:", ":7700", "foo:0", "foo:99999", "unix:c.sock"}) {
    EXPECT_NE(what({"ls", "-s", server}).find("is neither HOST:PORT"), std::string::npos) << server;
  }
  for (const char* server : {"head:7700", "[::1]:7700", "unix:/run/c.sock"})
    EXPECT_EQ(what({"ls", "-s", server}), "") << server;
  setenv("JOBCTL_SERVER", "foo", 1);
  EXPECT_EQ(what({"ls"}), "JOBCTL_SERVER \"foo\" is neither HOST:PORT nor unix:/PATH");
  unsetenv("JOBCTL_SERVER");
  EXPECT_NE(what({"ls", "--timeout", "soon"}).find("a duration like 10s"), std::string::npos);
  setenv("JOBCTL_OUTPUT", "xml", 1);
  EXPECT_NE(what({"ls"}).find("output must be one of table|wide|json"), std::string::npos);
  unsetenv("JOBCTL_OUTPUT");
  Write("current: lab\ncontext: {}\ncontexts: {lab: {sever: x}}\n");
  const std::string errors = what({"ls"});
  EXPECT_NE(errors.find(":2:1: unknown key \"context\"; did you mean \"contexts\"?"),
            std::string::npos)
      << errors;
  EXPECT_NE(errors.find(":3:12: a context has server: HOST:PORT, and may have env_pass"),
            std::string::npos);
}

TEST_F(SettingsTest, AContextNamesVariablesThatJobsGet) {
  Write(
      "current: lab\ncontexts:\n  lab: {server: 'head:7700', env_pass: [HTTPS_PROXY, 'WANDB_*']}\n"
      "  other: {server: 'head:7701', env_pass: [X]}\n");
  const std::vector<std::string> named = {"HTTPS_PROXY", "WANDB_*"};
  EXPECT_EQ(Resolve({"ls"})->EnvPass(), named);
  EXPECT_EQ(Resolve({"ls", "-s", "head:7700"})->EnvPass(), named);
  EXPECT_FALSE(Resolve({"ls"})->IsLocal());
  EXPECT_TRUE(Resolve({"ls", "-c", "private"})->EnvPass().empty());
  EXPECT_TRUE(Resolve({"ls", "-c", "private"})->IsLocal());
  EXPECT_TRUE(Resolve({"ls", "-s", "unix:/run/c.sock"})->IsLocal());
  ASSERT_TRUE(Resolve({"ls"})->file().Write().ok());
  EXPECT_EQ(Resolve({"ls"})->EnvPass(), named) << "as it was written";
  Write("contexts: {lab: {server: 'head:7700', env_pass: WANDB_API_KEY}}\n");
  EXPECT_NE(
      common::ProblemOf(Resolve({"ls"}).status()).what.find("env_pass is a list of variables"),
      std::string::npos);
}

TEST_F(SettingsTest, AContextThatIsGoneCanBeLeft) {
  Write("current: gone\n");
  EXPECT_FALSE(Resolve({"ls"}).ok());
  EXPECT_TRUE(Resolve({"context", "use", "private"}).ok());
}

TEST_F(SettingsTest, AContextWithABadAddressIsNamedAndCanBeMended) {
  Write("current: lab\ncontexts: {lab: {server: head}}\n");
  EXPECT_EQ(common::ProblemOf(Resolve({"ls"}).status()).what,
            "the server of context lab, \"head\" is neither HOST:PORT nor unix:/PATH");
  EXPECT_TRUE(Resolve({"context", "add", "lab", "head:7700"}).ok());
}

TEST_F(SettingsTest, TheFileIsWrittenSoThatItReadsBack) {
  ConfigFile file;
  file.path = File();
  file.current = "lab";
  file.contexts = {{"lab", "head:7700"}, {"yes", "unix:/run/x y.sock"}};
  file.defaults = {{"output", "wide"}};
  ASSERT_TRUE(file.Write().ok());
  const auto read = ConfigFile::Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->current, "lab");
  EXPECT_EQ(read->contexts, file.contexts);
  EXPECT_EQ(read->defaults, file.defaults);
}

TEST_F(SettingsTest, AFileNamedWithoutADirectoryLiesInTheWorkingDirectory) {
  const std::string before = std::filesystem::current_path();
  ASSERT_EQ(chdir(directory_.c_str()), 0);
  setenv("JOBCTL_CONFIG", "config.yaml", 1);
  ConfigFile file;
  file.path = "config.yaml";
  file.current = "lab";
  const absl::Status written = file.Write();
  const auto read = ConfigFile::Read();
  ASSERT_EQ(chdir(before.c_str()), 0);
  EXPECT_TRUE(written.ok()) << written;
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->current, "lab");
}

TEST_F(SettingsTest, AFileOfAnotherShapeIsRefusedAndNotTakenForEmpty) {
  const auto problem = [this](const std::string& text) {
    Write(text);
    const common::Problem found = common::ProblemOf(ConfigFile::Read().status());
    return found.code + " " + found.what.substr(found.what.find('\n') + 1 + File().size());
  };
  EXPECT_EQ(problem("head:7700\n"), "JC1006 :1:1: the configuration is a map of keys");
  EXPECT_EQ(problem("- lab\n"), "JC1006 :1:1: the configuration is a map of keys");
  EXPECT_EQ(problem("contexts: lab\n"), "JC1006 :1:11: contexts is a map of keys");
  EXPECT_EQ(problem("defaults: [wide]\n"), "JC1006 :1:11: defaults is a map of keys");
  EXPECT_EQ(problem("current: [lab]\n"), "JC1006 :1:10: current is the name of a context");
  EXPECT_EQ(problem("defaults: {ouput: wide}\n"),
            "JC1006 :1:12: unknown default \"ouput\"; did you mean \"output\"?");
  Write("");
  EXPECT_TRUE(ConfigFile::Read().ok());
  Write("current:\ncontexts:\ndefaults:\n");
  EXPECT_TRUE(ConfigFile::Read().ok());
}

TEST_F(SettingsTest, AFileThatCannotBeReadOrWrittenIsNamedWithAFix) {
  setenv("JOBCTL_CONFIG", directory_.c_str(), 1);
  const common::Problem unread = common::ProblemOf(ConfigFile::Read().status());
  EXPECT_EQ(unread.code, "JC1006");
  EXPECT_NE(unread.what.find(directory_), std::string::npos) << unread.what;
  ConfigFile file;
  file.path = "/dev/null/config.yaml";
  const common::Problem unwritten = common::ProblemOf(file.Write());
  EXPECT_EQ(unwritten.code, "JC1006");
  EXPECT_EQ(unwritten.fix, "ls -ld /dev/null");
}

std::string SourceOf(const std::string& path) {
  std::ifstream file(TestSource(path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(SettingsDocumentTest, EveryVariableAndDefaultThatIsReadIsDocumented) {
  const std::string document = SourceOf("docs/operating.md");
  const std::string source = SourceOf("client/session/settings.cc");
  const std::regex variable("\"(JOBCTL_[A-Z_]+)\"");
  int found = 0;
  for (std::sregex_iterator at(source.begin(), source.end(), variable), end; at != end; ++at) {
    EXPECT_NE(document.find("`" + (*at)[1].str() + "`"), std::string::npos) << (*at)[1];
    ++found;
  }
  EXPECT_GE(found, 8);
  for (const char* name : {"output", "color", "timeout"}) {
    EXPECT_NE(document.find(std::string("`defaults: {") + name + ": …}`"), std::string::npos)
        << name;
  }
}

TEST(SettingsDocumentTest, TheDirectoriesWhoseEventFilesAreReadAreDocumented) {
  const std::string document = SourceOf("docs/protocol.md");
  const std::string worker = SourceOf("worker/events/event_search.cc");
  const std::regex root("workdir \\+ \"/([a-z_]+)\"");
  int found = 0;
  for (std::sregex_iterator at(worker.begin(), worker.end(), root), end; at != end; ++at) {
    EXPECT_NE(document.find("`" + (*at)[1].str() + "/` in the working directory"),
              std::string::npos)
        << (*at)[1];
    ++found;
  }
  EXPECT_GE(found, 2);
}

}  // namespace
}  // namespace muster::client
