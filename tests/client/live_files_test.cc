// LiveFiles over calls that run their command on this machine: the scripts are the real ones.
#include "client/files/live_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

std::string Content(const std::string& path) {
  return common::ReadFile(path).value_or("(no file)");
}

class LocalCall : public ExecCall {
 public:
  LocalCall(std::string directory, const v1::ExecStart& start)
      : start_(start), directory_(std::move(directory)) {
    std::ofstream(directory_ + ".in").flush();
  }
  bool Write(const v1::ExecInput& message) override {
    std::ofstream(directory_ + ".in", std::ios::app) << message.stdin();
    return true;
  }
  bool Read(v1::ExecOutput* message) override {
    if (!has_run_) Run();
    if (said_.empty()) return false;
    *message = said_.front();
    said_.pop_front();
    return true;
  }
  absl::Status Finish() override { return absl::OkStatus(); }
  void Cancel() override { said_.clear(); }

 private:
  void Run() {
    has_run_ = true;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    const std::string in = start_.stdin() ? directory_ + ".in" : "/dev/null";
    const std::string out = directory_ + ".out", err = directory_ + ".err";
    constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, 0, in.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out.c_str(), kNew, 0600);
    posix_spawn_file_actions_addopen(&files, 2, err.c_str(), kNew, 0600);
    posix_spawn_file_actions_addchdir_np(&files, directory_.c_str());
    std::vector<char*> words;
    for (const std::string& word : start_.command())
      words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_t pid = 0;
    int status = 0;
    ASSERT_EQ(posix_spawnp(&pid, words[0], &files, nullptr, words.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    said_.emplace_back().mutable_started()->set_node("here");
    said_.emplace_back().set_stdout(Content(out));
    said_.emplace_back().set_stderr(Content(err));
    said_.emplace_back().mutable_ended()->set_exit_code(WEXITSTATUS(status));
  }

  const v1::ExecStart start_;
  const std::string directory_;
  std::deque<v1::ExecOutput> said_;
  bool has_run_ = false;
};

class LiveFilesTest : public testing::Test {
 protected:
  LiveFilesTest() {
    char name[] = "/tmp/mlfXXXXXX";
    root_ = mkdtemp(name);
    there_ = root_ + "/there's";
    std::filesystem::create_directories(there_);
  }
  ~LiveFilesTest() override { common::RemoveTree(root_).IgnoreError(); }

  void Put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(there_ + "/" + name).parent_path());
    std::ofstream(there_ + "/" + name) << text;
  }
  std::string Listed(const std::string& path) {
    const auto files = live_.List(path);
    if (!files.ok()) return std::string(files.status().message());
    std::string text;
    for (const v1::CheckpointFile& file : *files) {
      EXPECT_EQ(file.sha256(), common::Sha256Hex(Content(there_ + "/" + file.path())));
      common::StrAppend(&text, file.path(), " ", file.size(), ";");
    }
    return text;
  }
  absl::Status Store(const std::string& name, const std::string& text, bool is_executable = false) {
    std::ofstream(root_ + "/local") << text;
    const common::UniqueFd fd(open((root_ + "/local").c_str(), O_RDONLY | O_CLOEXEC));
    return live_.Store(fd.get(), name, common::Sha256Hex(text), is_executable);
  }

  std::string root_, there_;
  LiveFiles live_{
      [this](const v1::ExecStart& start) { return std::make_unique<LocalCall>(there_, start); },
      "job", 0};
};

TEST_F(LiveFilesTest, ListsRegularFilesWithTheirHashes) {
  Put("out/model.pt", "weights");
  Put("out/-rf", "");
  Put("out/a b'$(x)\"", "odd");
  Put("other", "x");
  std::filesystem::create_symlink("/etc/passwd", there_ + "/out/link");
  ASSERT_EQ(mkfifo((there_ + "/out/fifo").c_str(), 0600), 0);
  EXPECT_EQ(Listed("out"), "out/-rf 0;out/a b'$(x)\" 3;out/model.pt 7;");
  EXPECT_EQ(Listed("out/model.pt"), "out/model.pt 7;");
  EXPECT_EQ(Listed("none"), "");
  EXPECT_NE(Listed("").find("other 1;"), std::string::npos);
  EXPECT_EQ(live_.node(), "here");
}

TEST_F(LiveFilesTest, ANameThatWouldForgeAnEntryIsRefused) {
  Put(StrCat("out/x\n1 ", std::string(64, '0'), " ./secret"), "");
  EXPECT_NE(Listed("out").find("a name that cannot be copied"), std::string::npos);
}

TEST_F(LiveFilesTest, ReadsFromAnOffsetToTheSizeThatWasListed) {
  Put("log", "0123456789 and what came later");
  std::string text;
  const auto take = [&](std::string_view bytes) {
    text.append(bytes);
    return true;
  };
  ASSERT_TRUE(live_.Read("log", 10)(0, take).ok());
  EXPECT_EQ(text, "0123456789");
  ASSERT_TRUE(live_.Read("log", 10)(7, take).ok());
  EXPECT_EQ(text, "0123456789789");
  ASSERT_TRUE(live_.Read("log", 10)(10, take).ok());
  EXPECT_EQ(text, "0123456789789");
  const absl::Status missing = live_.Read("none", 10)(0, take);
  EXPECT_NE(missing.message().find("cannot read \"none\""), std::string::npos) << missing;
}

TEST_F(LiveFilesTest, StoresWholeFilesAndNothingElse) {
  ASSERT_TRUE(Store("deep/er/-x", std::string(100'000, 'x'), true).ok());
  EXPECT_EQ(Content(there_ + "/deep/er/-x").size(), 100'000u);
  struct stat info {};
  ASSERT_EQ(stat((there_ + "/deep/er/-x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
  ASSERT_TRUE(Store("plain", "1").ok());
  ASSERT_TRUE(Store("plain", "2").ok());
  EXPECT_EQ(Content(there_ + "/plain"), "2");
  EXPECT_NE(Store("deep", "x").message().find("it is a directory there"), std::string::npos);
  std::ofstream(root_ + "/local") << "longer than its hash says";
  const common::UniqueFd fd(open((root_ + "/local").c_str(), O_RDONLY | O_CLOEXEC));
  const absl::Status changed = live_.Store(fd.get(), "plain", common::Sha256Hex("x"), false);
  EXPECT_NE(changed.message().find("the file changed while it was sent"), std::string::npos);
  EXPECT_EQ(Content(there_ + "/plain"), "2");
  size_t names = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(there_)) ++names;
  EXPECT_EQ(names, 2u) << "plain and deep, nothing half written";
}

TEST_F(LiveFilesTest, TellsFilesFromDirectories) {
  Put("d/f", "");
  EXPECT_EQ(*live_.KindOf("d"), LiveFiles::Kind::kDirectory);
  EXPECT_EQ(*live_.KindOf("d/f"), LiveFiles::Kind::kFile);
  EXPECT_EQ(*live_.KindOf("none"), LiveFiles::Kind::kNone);
}

}  // namespace
}  // namespace muster::client
