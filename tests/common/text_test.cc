// Text for people (common/text/text.h): what is safe on a terminal, what looks secret, suggestions.
#include "common/text/text.h"

#include <array>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace muster::common {
namespace {

using std::string_view_literals::operator""sv;

TEST(CleanUtf8, AcceptsLettersOfAnyScriptAndTab) {
  EXPECT_TRUE(IsCleanUtf8(""));
  EXPECT_TRUE(IsCleanUtf8("digits-2\tgrün 数字 🙂"));
}

TEST(CleanUtf8, RefusesControlCharactersOfBothRanges) {
  for (std::string_view text : {"a\nb"sv, "\x1b[31m"sv, "\x7f"sv, "a\0b"sv, "\xc2\x9b 31m"sv}) {
    EXPECT_FALSE(IsCleanUtf8(text)) << Printable(text);
  }
}

// A name that ends in U+202E and "gpj." once read as "…jpg".
TEST(CleanUtf8, RefusesWhatNobodySeesOrWhatTurnsTextAround) {
  for (std::string_view hidden :
       {"\u00AD", "\u061C", "\u180E", "\u200B", "\u200D",     "\u200E",    "\u200F",
        "\u2028", "\u2029", "\u202A", "\u202E", "\u2060",     "\u2066",    "\u2069",
        "\u206F", "\uFEFF", "\uFFF9", "\uFFFB", "\U000E0001", "\U000E007F"}) {
    const std::string text = "a" + std::string(hidden) + "b";
    EXPECT_FALSE(IsCleanUtf8(text)) << Printable(text);
    EXPECT_FALSE(IsPathName(text)) << Printable(text);
    EXPECT_TRUE(IsUtf8Text(text)) << Printable(text);
    EXPECT_TRUE(IsCleanUtf8(Printable(text)));
    EXPECT_EQ(Printable(text).substr(0, 3), "a\\x");
  }
  EXPECT_TRUE(IsCleanUtf8("\u200A\u2010\u2027\u202F\u2070\uFEFE\uFFFC"));
  EXPECT_FALSE(IsUtf8Text("a\x1b"));
}

TEST(PathName, IsOneVisibleComponent) {
  for (std::string_view name : {"a", "train-2", "grün 数字", "a..b"}) EXPECT_TRUE(IsPathName(name));
  for (std::string_view name : {"", ".", "..", ".ssh", "a/b", "/", "a\tb", "a\nb"}) {
    EXPECT_FALSE(IsPathName(name)) << Printable(name);
  }
}

TEST(CleanUtf8, RefusesWhatIsNoUtf8) {
  // A lone continuation byte, an overlong slash, a surrogate, beyond U+10FFFF, a truncated
  // sequence.
  for (std::string_view text :
       {"\x80"sv, "\xc0\xaf"sv, "\xed\xa0\x80"sv, "\xf4\x90\x80\x80"sv, "\xe2\x82"sv, "\xff"sv}) {
    EXPECT_FALSE(IsCleanUtf8(text)) << Printable(text);
  }
}

TEST(PrintableText, EscapesControlAndBrokenBytesAndKeepsTheRest) {
  EXPECT_EQ(Printable("grün\x1b[2J\xff"), "grün\\x1b[2J\\xff");
  EXPECT_EQ(Printable("a\nb\tc"), "a\\x0ab\\x09c");
}

TEST(PrintableText, KeepsLayoutWhenAsked) {
  EXPECT_EQ(Printable("a\nb\tc\r", true), "a\nb\tc\\x0d");
}

TEST(PrintableText, IsItselfClean) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  EXPECT_TRUE(IsCleanUtf8(Printable(every_byte)));
}

TEST(PrintableText, OfTheStartHasAnEllipsisForTheRest) {
  EXPECT_EQ(PrintableStart("a\nb", 3), "a\\x0ab");
  EXPECT_EQ(PrintableStart("a\nbc", 3), "a\\x0ab…");
}

TEST(ClippedText, EndsWithAWholeCharacter) {
  EXPECT_EQ(Clipped("grün", 5), "grün");
  EXPECT_EQ(Clipped("grün", 4), "grü…");
  EXPECT_EQ(Clipped("grün", 3), "gr…");
}

TEST(Secrets, AreKnownByTheVariablesName) {
  EXPECT_TRUE(LooksSecret("HF_TOKEN"));
  EXPECT_TRUE(LooksSecret("aws_secret_access_key"));
  EXPECT_TRUE(LooksSecret("DbPassword"));
  EXPECT_FALSE(LooksSecret("PATH"));
  EXPECT_FALSE(LooksSecret("OMP_NUM_THREADS"));
}

TEST(Distance, CountsAnAdjacentSwapAsOne) {
  EXPECT_EQ(EditDistance("submit", "sumbit"), 1u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("logs", "logs"), 0u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(NearestWord, IsWithinTwoEditsOrNone) {
  constexpr std::array<std::string_view, 4> kWords = {"submit", "show", "logs", "ls"};
  EXPECT_EQ(Nearest("sumbit", kWords), "submit");
  EXPECT_EQ(Nearest("shwo", kWords), "show");
  EXPECT_EQ(Nearest("frobnicate", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
}

TEST(CountedTest, OneHasNoS) {
  EXPECT_EQ(Counted(1, "rank"), "1 rank");
  EXPECT_EQ(Counted(0, "rank"), "0 ranks");
  EXPECT_EQ(Counted(2, "rank"), "2 ranks");
}

}  // namespace
}  // namespace muster::common
