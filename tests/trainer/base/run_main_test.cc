// run_main: exit codes and torchrun's error file; and SHA-256.
#include "muster/base/run_main.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/sha256.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

int run(const std::function<int()>& body) {
  return run_main(0, nullptr, [&](int, char**) { return body(); });
}

class ErrorFile : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TORCHELASTIC_ERROR_FILE", path_.c_str(), 1); }
  void TearDown() override { ::unsetenv("TORCHELASTIC_ERROR_FILE"); }
  nlohmann::json content() { return nlohmann::json::parse(std::ifstream(path_)); }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "error.json";
};

TEST_F(ErrorFile, IsWrittenInTorchrunsFormWhenAnExceptionEscapes) {
  EXPECT_EQ(run([]() -> int { throw CheckpointError("the disk is full"); }), 1);
  const nlohmann::json message = content().at("message");
  EXPECT_EQ(message.at("message"), "muster::CheckpointError: the disk is full");
  EXPECT_EQ(message.at("errorCode"), 1);
  EXPECT_TRUE(message.at("extraInfo").at("py_callstack").is_string());
  EXPECT_GT(std::stoll(message.at("extraInfo").at("timestamp").get<std::string>()), 1'600'000'000);
}

TEST_F(ErrorFile, HasTheCodeThatForbidsRetries) {
  EXPECT_EQ(run([]() -> int { throw DoNotRetryError("no data"); }), 93);
  EXPECT_EQ(content().at("message").at("errorCode"), 93);
}

TEST_F(ErrorFile, SurvivesWhatIsNotAnExceptionOrNotUtf8) {
  EXPECT_EQ(run([]() -> int { throw 7; }), 1);
  EXPECT_EQ(content().at("message").at("message"), "int: not a std::exception");
  EXPECT_EQ(run([]() -> int { throw Error("bad \xff byte"); }), 1);
  EXPECT_NE(content().at("message").at("message").get<std::string>().find("bad "),
            std::string::npos);
}

TEST_F(ErrorFile, IsAbsentWhenTheBodyReturns) {
  EXPECT_EQ(run([] { return 5; }), 5);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST(RunMain, KeepsTheExitCodeWhenTheErrorFileCannotBeWritten) {
  ::setenv("TORCHELASTIC_ERROR_FILE", "/nowhere/error.json", 1);
  EXPECT_EQ(run([]() -> int { throw Error("x"); }), 1);
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
}

TEST(Sha256, MatchesThePublishedVectors) {
  const auto digest = [](const std::string& text) {
    Sha256 hash;
    hash.update(text.data(), text.size());
    return hash.hex_digest();
  };
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  const std::string text(1000, 'q');
  Sha256 whole;
  whole.update(text.data(), text.size());
  Sha256 pieces;
  for (size_t at = 0, size = 1; at < text.size(); at += size, size = size * 2 % 71) {
    pieces.update(text.data() + at, std::min(size, text.size() - at));
  }
  EXPECT_EQ(whole.hex_digest(), pieces.hex_digest());
}

}  // namespace
}  // namespace muster
