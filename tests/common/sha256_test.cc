// SHA-256 against the vectors of FIPS 180-4, and incrementally against itself.
#include "common/hash/sha256.h"
#include "common/hash/crc32c.h"

#include <cstdlib>
#include <string>

#include "common/files/files.h"
#include "gtest/gtest.h"

namespace muster::common {
namespace {

constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kOfMillionA[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

TEST(Sha256OfBytes, AgreesWithThePublishedVectors) {
  EXPECT_EQ(Sha256Hex(""), kOfNothing);
  EXPECT_EQ(Sha256Hex("abc"), kOfAbc);
  EXPECT_EQ(Sha256Hex(std::string(1'000'000, 'a')), kOfMillionA);
}

TEST(Sha256OfBytes, DoesNotDependOnHowTheBytesArrive) {
  Sha256 hash;
  for (int i = 0; i < 1000; ++i) hash.Update(std::string(1000, 'a'));
  EXPECT_EQ(hash.FinishHex(), kOfMillionA);
}

TEST(Sha256OfFile, IsTheHashOfItsBytesAndAMissingFileIsAnError) {
  char path[] = "/tmp/muster-sha-XXXXXX";
  UniqueFd fd(mkstemp(path));
  ASSERT_TRUE(fd.valid());
  ASSERT_TRUE(WriteAll(fd.get(), std::string(1'000'000, 'a')).ok());
  EXPECT_EQ(Sha256HexOfFile(path).value(), kOfMillionA);
  ASSERT_TRUE(RemoveTree(path).ok());
  EXPECT_EQ(Sha256HexOfFile(path).status().code(), absl::StatusCode::kNotFound);
}

TEST(Sha256Name, IsSixtyFourLowerCaseDigitsAndNothingElse) {
  EXPECT_TRUE(IsSha256Hex(kOfAbc));
  EXPECT_FALSE(IsSha256Hex(""));
  EXPECT_FALSE(IsSha256Hex(std::string(63, 'a')));
  EXPECT_FALSE(IsSha256Hex(std::string(65, 'a')));
  EXPECT_FALSE(IsSha256Hex(std::string(64, 'A')));
  EXPECT_FALSE(IsSha256Hex("../" + std::string(61, 'a')));
}

// RFC 3720, B.4.
TEST(Crc32cTest, MatchesTheCheckValueOfTheRfc) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), 0xe3069283u);
}

// The definition, bit by bit.
uint32_t SlowCrc32c(std::string_view bytes) {
  uint32_t sum = ~0u;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~sum;
}

TEST(Crc32cTest, IsTheSameForTextsOfEveryLengthAroundItsLanes) {
  std::string text;
  uint32_t random = 1;
  while (text.size() < 10'000)
    text += static_cast<char>((random = random * 1664525 + 1013904223) >> 24);
  for (const size_t size : {0, 1, 7, 8, 3'071, 3'072, 3'073, 3'080, 6'143, 6'144, 9'999}) {
    for (const size_t from : {0, 1}) {
      const std::string_view part = std::string_view(text).substr(from, size);
      EXPECT_EQ(Crc32c(part), SlowCrc32c(part)) << size << " from " << from;
      EXPECT_EQ(Crc32c(part.substr(size / 2), Crc32c(part.substr(0, size / 2))), SlowCrc32c(part));
    }
  }
}

}  // namespace
}  // namespace muster::common
