// The strict header of safetensors files, with hostile input.
#include "checkpoint/safetensors_header.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>

#include "muster/base/errors.h"

namespace muster {
namespace {

std::string error_of(const std::string& json, uint64_t data_bytes) {
  try {
    parse_safetensors_header(json, data_bytes, "f");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

bool refused_for(const std::string& json, uint64_t data_bytes, const std::string& reason) {
  const std::string error = error_of(json, data_bytes);
  const bool found = error.find(reason) != std::string::npos;
  if (!found) ADD_FAILURE() << "expected '" << reason << "', got: " << error;
  return found;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(SafetensorsHeader, ComesBackAsItWasWritten) {
  std::vector<TensorEntry> tensors = {
      {"b", "F32", {2, 3}, 0, 0}, {"a", "U8", {}, 0, 0}, {"e", "I64", {0, 4}, 0, 0}};
  const std::string bytes = format_safetensors_header(tensors, {{"format", "pt"}});
  ASSERT_EQ(bytes.size() % 8, 0u);
  const SafetensorsHeader header = parse_safetensors_header(bytes.substr(8), 25, "f");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[0].end, 24u);
  EXPECT_EQ(header.tensors[1].name, "a");
  EXPECT_EQ(header.tensors[2].shape, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, AcceptsAnEmptyFileAndEveryDtype) {
  EXPECT_EQ(error_of("{}", 0), "no error");
  EXPECT_EQ(error_of("{" + entry("x", "F4", "[4]", "[0,2]") + "}  ", 2), "no error");
  EXPECT_EQ(error_of("{" + entry("x", "C64", "[1]", "[0,8]") + "}", 8), "no error");
}

// As Python's reader does: a later version of the format may say more of a tensor.
TEST(SafetensorsHeader, PassesOverKeysOfAnEntryThatItDoesNotKnow) {
  for (const char* value : {"1", "-1", "1.5", "null", "true", "\"text\"", "[]", "{}",
                            "[[1,{\"dtype\":[\"x\"]}],null,-1,0.5]", "{\"shape\":{\"a\":[{}]}}"}) {
    const std::string unknown = std::string("\"device\":") + value;
    const std::string before = "{\"a\":{" + unknown + ",\"dtype\":\"U8\",\"shape\":[1],";
    EXPECT_EQ(error_of(before + "\"data_offsets\":[0,1]}}", 1), "no error") << value;
    EXPECT_EQ(error_of(before + "\"data_offsets\":[0,1]," + unknown + "}}", 1), "no error")
        << value;
    refused_for(before + "\"x\":{}}}", 1, "must have dtype, shape and data_offsets");
  }
}

TEST(SafetensorsHeader, RefusesWhatIsNotAHeader) {
  refused_for("", 0, "does not start with");
  refused_for(" {}", 0, "does not start with");
  refused_for("[]", 0, "does not start with");
  refused_for("{\"x\"", 0, "not JSON");
  refused_for("{\"x\":1}", 0, "must have dtype, shape and data_offsets");
  refused_for("{\"\xff\":1}", 0, "not JSON");
  refused_for("{} {}", 0, "not JSON");
}

TEST(SafetensorsHeader, RefusesHolesOverlapsAndWrongSizes) {
  const std::string first = entry("a", "U8", "[4]", "[0,4]");
  refused_for("{" + first + "," + entry("b", "U8", "[4]", "[5,9]") + "}", 9, "gap or an overlap");
  refused_for("{" + first + "," + entry("b", "U8", "[4]", "[3,7]") + "}", 7, "gap or an overlap");
  refused_for("{" + entry("a", "U8", "[4]", "[1,5]") + "}", 5, "gap or an overlap");
  refused_for("{" + first + "}", 5, "truncated or damaged");
  refused_for("{" + first + "}", 3, "truncated or damaged");
  refused_for("{" + entry("a", "F32", "[4]", "[0,4]") + "}", 4, "do not fit its dtype");
  refused_for("{" + entry("a", "U8", "[4]", "[4,0]") + "}", 4, "do not fit its dtype");
}

TEST(SafetensorsHeader, RefusesNumbersThatOverflowOrAreNone) {
  refused_for("{" + entry("a", "F32", "[4611686018427387904,4]", "[0,0]") + "}", 0, "overflows");
  refused_for("{" + entry("a", "U8", "[9223372036854775808]", "[0,0]") + "}", 0, "overflows");
  refused_for("{" + entry("a", "U8", "[18446744073709551616]", "[0,0]") + "}", 0,
              "not a whole number");
  refused_for("{" + entry("a", "U8", "[-1]", "[0,0]") + "}", 0, "not a whole number");
  refused_for("{" + entry("a", "U8", "[1.5]", "[0,1]") + "}", 1, "not a whole number");
  refused_for("{" + entry("a", "U8", "[1]", "[0,1e0]") + "}", 1, "whole numbers");
  refused_for("{" + entry("a", "F6_E2M3", "[1]", "[0,1]") + "}", 1, "whole byte");
}

TEST(SafetensorsHeader, RefusesDuplicateKeysUnknownDtypesAndDepth) {
  const std::string tensor = entry("a", "U8", "[1]", "[0,1]");
  refused_for("{" + tensor + "," + tensor + "}", 1, "appears twice");
  refused_for("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
              "appears twice");
  refused_for("{" + entry("a", "F128", "[1]", "[0,16]") + "}", 16, "unknown dtype");
  refused_for("{\"__metadata__\":{\"k\":1}}", 0, "not a string");
  refused_for("{\"a\":" + std::string(1'000'000, '['), 0,
              "must have dtype, shape and data_offsets");
}

TEST(SafetensorsHeader, RefusesValuesWhereOthersBelong) {
  refused_for("{\"__metadata__\":[]}", 0, "not an object");
  refused_for("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "appears twice");
  refused_for("{\"__metadata__\":{\"k\":\"v\",\"k\":\"w\"}}", 0, "appears twice");
  refused_for("{" + entry("a", "U8", "7", "[0,1]") + "}", 1, "shape that is not a list");
  refused_for("{" + entry("a", "U8", "[[1]]", "[0,1]") + "}", 1, "not a whole number");
  refused_for("{" + entry("a", "U8", "[1]", "[0,1,1]") + "}", 1, "two data_offsets");
  refused_for("{" + entry("a", "U8", "[1]", "[0]") + "}", 1, "two data_offsets");
  refused_for("{" + entry("a", "U8", "[1]", "{}") + "}", 1, "two data_offsets");
  refused_for("{\"a\":{\"dtype\":8}}", 0, "dtype that is not a string");
  refused_for("{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0,
              "must have dtype, shape and data_offsets");
  refused_for("{\"a\":{\"dtype\":\"U8\",\"device\":1}}", 0,
              "must have dtype, shape and data_offsets");
  refused_for("{\"a\":null}", 0, "must have dtype, shape and data_offsets");
}

// A JSON tree takes many times the memory of its text; a hostile header must not be able to build
// one.
TEST(SafetensorsHeader, CostsLittleMemoryHoweverLargeAndHostileItIs) {
  std::string values = "{\"a\":{\"shape\":[0";
  for (int i = 0; i < 5'000'000; ++i) values += ",0";
  std::string keys = "{\"a\":{";
  for (int i = 0; i < 1'000'000; ++i) keys += "\"k" + std::to_string(i) + "\":{},";
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  refused_for(values, 0, "not JSON");
  refused_for(keys, 0, "not JSON");
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100'000) << "KiB";
}

TEST(SafetensorsHeader, RefusesToWriteWhatItWouldNotRead) {
  std::vector<TensorEntry> reserved = {{"__metadata__", "U8", {1}, 0, 0}};
  EXPECT_THROW(format_safetensors_header(reserved, {}), FormatError);
  std::vector<TensorEntry> not_utf8 = {{"\xff\xfe", "U8", {1}, 0, 0}};
  EXPECT_THROW(format_safetensors_header(not_utf8, {}), FormatError);
}

TEST(SafetensorsHeader, SurvivesRandomDamage) {
  std::vector<TensorEntry> tensors = {{"w", "F32", {2, 3}, 0, 0}, {"b", "BF16", {4}, 0, 0}};
  const std::string good = format_safetensors_header(tensors, {{"format", "pt"}}).substr(8);
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bad = good;
    for (int change = random() % 4; change >= 0; --change) {
      const size_t at = random() % bad.size();
      const int kind = random() % 3;
      if (kind == 0) bad[at] = static_cast<char>(random());
      if (kind == 1) bad.erase(at, 1 + random() % 8);
      if (kind == 2) bad.insert(at, bad.substr(random() % bad.size(), random() % 12));
      if (bad.empty()) bad = "{";
    }
    // It is either still valid or rejected with a FormatError; nothing else may happen.
    if (error_of(bad, 32) != "no error") ++refused;
  }
  EXPECT_GT(refused, 15'000);
}

}  // namespace
}  // namespace muster
