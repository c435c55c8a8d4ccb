// How weights are split into files, hostile indexes, and file hashes.
#include "checkpoint/model_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/sha256.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Shards = std::vector<std::vector<std::string>>;

TEST(ModelIndex, SplitsInOrderAndGivesLargeTensorsTheirOwnShard) {
  const std::vector<NamedSize> tensors = {{"a", 6}, {"b", 6}, {"c", 2},
                                          {"d", 6}, {"e", 2}, {"f", 2}};
  EXPECT_EQ(split_into_shards(tensors, 10), (Shards{{"a"}, {"b", "c"}, {"d", "e", "f"}}));
  EXPECT_EQ(split_into_shards(tensors, 24), (Shards{{"a", "b", "c", "d", "e", "f"}}));
  EXPECT_EQ(split_into_shards({{"a", 3}, {"big", 50}, {"b", 3}}, 10),
            (Shards{{"big"}, {"a", "b"}}));
  EXPECT_TRUE(split_into_shards({}, 10).empty());
}

TEST(ModelIndex, NamesItsFilesAndKnowsThemAgain) {
  EXPECT_EQ(model_shard_name(0, 3), "model-00001-of-00003.safetensors");
  EXPECT_TRUE(is_model_shard_name("model-00012-of-00345.safetensors"));
  for (const char* other :
       {"model.safetensors", "model-1-of-3.safetensors", "model-00000-of-00003.safetensors",
        "model-00001-of-00003.safetensors.tmp", "xmodel-00001-of-00003.safetensors"}) {
    EXPECT_FALSE(is_model_shard_name(other)) << other;
  }
}

TEST(ModelIndex, ComesBackAndRefusesFilesOutsideItsDirectory) {
  const WeightMap map = {{"a.weight", "model-00001-of-00002.safetensors"}, {"b\xc3\xa9", "x"}};
  const std::string text = format_model_index(map, 12);
  EXPECT_NE(text.find("\"b\\u00e9\": \"x\""), std::string::npos) << text;
  EXPECT_EQ(parse_model_index(text, "i"), map);
  for (const char* file : {"../x", "/etc/passwd", "a/b", "", ".", "..", ".hidden", "a\\u0000b"}) {
    const std::string hostile =
        R"({"metadata": {}, "weight_map": {"w": ")" + std::string(file) + R"("}})";
    EXPECT_THROW(parse_model_index(hostile, "i"), FormatError) << file;
  }
  for (const char* broken : {"", "[]", "{}", R"({"weight_map": 1})", R"({"weight_map": {"w": 1}})",
                             R"({"weight_map": {"w": "x")"}) {
    EXPECT_THROW(parse_model_index(broken, "i"), FormatError) << broken;
  }
}

std::string hash_in_pieces(const std::string& text, size_t piece) {
  Sha256 hash;
  for (size_t at = 0; at < text.size(); at += piece) {
    hash.update(text.data() + at, std::min(piece, text.size() - at));
  }
  return hash.hex_digest();
}

// Hashing one block at a time and many at once use different instructions.
TEST(FileHash, IsTheSameInPiecesOfAnySizeAndAsPublished) {
  EXPECT_EQ(hash_in_pieces("abc", 3),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_in_pieces(std::string(1'000'000, 'a'), 1'000'000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::mt19937 random(3);
  for (const size_t bytes : {1, 63, 64, 65, 127, 128, 129, 191, 192, 300, 1000, 4096, 5000}) {
    std::string text(bytes, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const std::string whole = hash_in_pieces(text, bytes);
    for (const size_t piece : {1, 7, 64, 100, 128, 200}) {
      EXPECT_EQ(hash_in_pieces(text, piece), whole) << bytes << " in " << piece;
    }
  }
}

}  // namespace
}  // namespace muster
