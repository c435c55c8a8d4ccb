// The one writer of JSON (common/text/json_text.h), to the byte: programs of users read it.
#include "common/text/json_text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace muster::common {
namespace {

TEST(JsonTextTest, MembersComeOutInOrderAndAsWhatTheyAre) {
  const std::string_view view = "c";
  EXPECT_EQ(JsonObject()
                .Add("text", std::string("a\"\n"))
                .Add("literal", "b")
                .Add("view", view)
                .Add("yes", true)
                .Add("count", uint64_t{18'446'744'073'709'551'615u})
                .Add("below", int32_t{-3})
                .Add("real", 0.1)
                .Add("none", std::numeric_limits<double>::quiet_NaN())
                .Add("there", std::optional<std::string>("d"))
                .Add("absent", std::optional<std::string>())
                .Line(),
            "{\"text\": \"a\\\"\\n\", \"literal\": \"b\", \"view\": \"c\", \"yes\": true, "
            "\"count\": 18446744073709551615, \"below\": -3, \"real\": 0.1, \"none\": \"NaN\", "
            "\"there\": \"d\", \"absent\": null}\n");
  EXPECT_EQ(JsonObject().Text(), "{}");
}

TEST(JsonTextTest, NamesOfOthersAreQuotedToo) {
  EXPECT_EQ(JsonObject().Add(std::string("a\"b"), 1).Add(std::string_view("\x1b"), 2).Text(),
            "{\"a\\\"b\": 1, \"\\u001b\": 2}");
}

TEST(JsonTextTest, ObjectsAndArraysNest) {
  const JsonText one = JsonObject().Add("a", JsonArray().Add(1).Add("x").Done()).Done();
  EXPECT_EQ(one.text, "{\"a\": [1, \"x\"]}");
  EXPECT_EQ(JsonArray("\n  ").Add(one).Add(one).Done("\n").text,
            "[\n  {\"a\": [1, \"x\"]},\n  {\"a\": [1, \"x\"]}\n]");
  EXPECT_EQ(JsonArray("\n  ").Done("\n").text, "[]");
  EXPECT_EQ(JsonObject::OfKind("K").AddLine("list", JsonArray().Done()).Text(),
            "{\"version\": 1, \"kind\": \"K\",\n \"list\": []}");
}

TEST(JsonTextTest, CompactHasNoBlanks) {
  JsonObject json(JsonObject::Style::kCompact);
  EXPECT_EQ(json.Add("a", 1).Add("b", "x y").Text(), "{\"a\":1,\"b\":\"x y\"}");
  EXPECT_EQ(JsonObject::Extending("{\"a\":1}").Add("b", 2).Text(), "{\"a\":1,\"b\":2}");
  EXPECT_EQ(JsonObject::Extending("{}").Add("b", 2).Text(), "{\"b\":2}");
}

TEST(JsonTextTest, AStreamIsOpenedWhereItsValueComes) {
  const JsonObject head = JsonObject::OfKind("K");
  EXPECT_EQ(head.OpenAt("items") + "[", "{\"version\": 1, \"kind\": \"K\", \"items\": [");
  EXPECT_EQ(head.Text(), "{\"version\": 1, \"kind\": \"K\"}");
}

}  // namespace
}  // namespace muster::common
