// A search in blocks of any size finds the same lines as a search line by line.
#include "common/lines/line_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "common/lines/needle.h"
#include "common/problem.h"

namespace muster::common {
namespace {

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    lines.push_back(text.substr(at, end + 1 - at));
    at = end + 1;
  }
  return lines;
}

// What a search of each line alone, as if it were the whole text, would show.
std::string Naive(const std::string& text, const LineQuery& query, uint64_t* matches) {
  const auto matcher = *LineMatcher::Make({.grep = query.grep, .ignore_case = query.ignore_case});
  const std::vector<std::string> lines = LinesOf(text);
  std::vector<bool> shown(lines.size());
  *matches = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    if (line.ends_with('\n')) line.remove_suffix(1);
    // Find finds nothing in an empty text, but an empty line is a line.
    const bool found = matcher->Find(line.empty() ? "\n" : line, 0).has_value();
    if (found == query.invert) continue;
    ++*matches;
    const size_t from = i < query.lines_before ? 0 : i - query.lines_before;
    for (size_t j = from; j <= std::min(i + query.lines_after, lines.size() - 1); ++j) {
      shown[j] = true;
    }
  }
  std::string result;
  for (size_t i = 0; i < lines.size(); ++i) result += shown[i] ? lines[i] : "";
  return result;
}

struct Result {
  std::string text;
  uint64_t matches = 0;
};

Result InBlocks(const std::string& text, const LineQuery& query, std::mt19937& random,
                size_t block_most) {
  SearchShare share(*LineMatcher::Make(query));
  Result result;
  uint64_t shown_to = 0;
  std::deque<FoundLines> found;
  {
    LineSearch search(share, 0);
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min(text.size() - at, 1 + random() % block_most);
      const std::string block = search.Kept() + text.substr(at, size);
      const int64_t time_us = static_cast<int64_t>(at);
      search.Run(block, {{search.Kept().size(), time_us}}, at + size == text.size(), found);
      at += size;
    }
    EXPECT_EQ(search.SearchedTo(), text.size());
  }
  EXPECT_EQ(share.kept_bytes, 0u);
  for (const FoundLines& lines : found) {
    EXPECT_GE(lines.offset, shown_to);
    const std::vector<std::string> each = LinesOf(lines.bytes);
    EXPECT_EQ(text.substr(lines.offset, each.front().size()), each.front());
    EXPECT_EQ(text.substr(lines.end - each.back().size(), each.back().size()), each.back());
    if (query.lines_before + query.lines_after > 0) {
      EXPECT_EQ(lines.end - lines.offset, lines.bytes.size()) << "a group has no gap";
    }
    EXPECT_LE(lines.time_us, static_cast<int64_t>(lines.end) - 1);
    shown_to = lines.end;
    result.text += lines.bytes;
    result.matches += lines.matches;
  }
  return result;
}

TEST(LineSearchTest, BlocksOfAnySizeFindWhatASearchOfEachLineFinds) {
  const std::string letters("ab\n\0\xff\xc3\xa4 r", 9);
  const char* patterns[] = {"ab",    "a",        "^a",     "b$",     "^$",    "a.*b",    "a|r",
                            "[^a]b", "\\bab",    "(?i)AB", "\\Aa",   "b\\z",  "x*",      "\\s",
                            "a\nb",  "(?s:a.b)", "ä",      "a{2,3}", "\\x00", "(?-m:^a)"};
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    const size_t size = random() % 300;
    const size_t used = 3 + random() % (letters.size() - 2);
    for (size_t i = 0; i < size; ++i) text += letters[random() % used];
    LineQuery query{.grep = patterns[random() % std::size(patterns)]};
    query.ignore_case = random() % 4 == 0;
    query.invert = random() % 4 == 0;
    query.lines_before = random() % 3 == 0 ? random() % 4 : 0;
    query.lines_after = random() % 3 == 0 ? random() % 4 : 0;
    uint64_t matches = 0;
    const std::string expected = Naive(text, query, &matches);
    const Result result = InBlocks(text, query, random, 1 + random() % 40);
    ASSERT_EQ(result.text, expected) << "seed " << seed << " pattern " << query.grep;
    ASSERT_EQ(result.matches, matches) << "seed " << seed << " pattern " << query.grep;
  }
}

TEST(LineSearchTest, LinesOfOneTimeComeTogetherUnlessTheyAreShownInGroups) {
  for (const uint32_t lines_after : {0, 1}) {
    SearchShare share(*LineMatcher::Make({.grep = "yes", .lines_after = lines_after}));
    LineSearch search(share, 0);
    std::deque<FoundLines> found;
    search.Run("yes 1\nno\nno\nyes 2\nno\nno\n", {{0, 7}}, false, found);
    search.Run(search.Kept() + "yes 3\n", {{search.Kept().size(), 8}}, true, found);
    ASSERT_EQ(found.size(), lines_after == 0 ? 2u : 3u);
    EXPECT_EQ(found[0].bytes, lines_after == 0 ? "yes 1\nyes 2\n" : "yes 1\nno\n");
    EXPECT_EQ(found[0].end, lines_after == 0 ? 18u : 9u);
    EXPECT_EQ(found.back().offset, 24u);
  }
}

TEST(LineSearchTest, AMatchThatSpansBlocksIsFoundInALineLongerThanABlock) {
  std::mt19937 random(1);
  const std::string text =
      "start\n" + std::string(700'000, 'x') + "needle" + std::string(100'000, 'y') + "\nend\n";
  EXPECT_EQ(InBlocks(text, {.grep = "xneedley"}, random, 9'000).text,
            text.substr(6, text.size() - 10));
}

TEST(LineSearchTest, ALineWithoutAnEndIsSearchedInPartsOfAMebibyte) {
  SearchShare share(*LineMatcher::Make({.grep = "needle"}));
  std::deque<FoundLines> found;
  LineSearch search(share, 0);
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 50; ++i) {
    search.Run(search.Kept() + piece, {}, false, found);
    EXPECT_LE(search.Kept().size(), kSearchedLineBytesMax);
  }
  search.Run(search.Kept() + "needle\n", {}, false, found);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.back().end, 5'000'007u);
}

TEST(LineSearchTest, UnfinishedLinesOfManyStreamsAreBounded) {
  SearchShare share(*LineMatcher::Make({.grep = "needle", .lines_before = 5}));
  std::deque<FoundLines> found;
  std::vector<std::unique_ptr<LineSearch>> streams;
  for (int i = 0; i < 500; ++i) {
    streams.push_back(std::make_unique<LineSearch>(share, 0));
    streams.back()->Run(std::string(100'000, 'x'), {}, false, found);
    EXPECT_LE(share.kept_bytes, kSearchKeptBytesMax);
  }
  EXPECT_GT(share.kept_bytes, kSearchKeptBytesMax / 2);
}

TEST(LineSearchTest, LevelsAndErrorsSelectLinesTogetherWithThePattern) {
  std::mt19937 random(1);
  const std::string text =
      "WARNING:root:a\n  b\nstep 1\nERROR:root:c\nValueError: a\nE1122 06:01:02.1 a\n";
  EXPECT_EQ(InBlocks(text, {.least_level = LineLevel::kWarn}, random, 7).text,
            "WARNING:root:a\n  b\nERROR:root:c\nValueError: a\nE1122 06:01:02.1 a\n");
  EXPECT_EQ(InBlocks(text, {.grep = "a$", .least_level = LineLevel::kError}, random, 7).text,
            "ValueError: a\nE1122 06:01:02.1 a\n");
  EXPECT_EQ(InBlocks(text, {.errors = true}, random, 7).text,
            "ERROR:root:c\nValueError: a\nE1122 06:01:02.1 a\n");
}

TEST(NeedleTest, FindsEachPlaceThatFindFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 3'000; ++round) {
    std::string text, bytes;
    for (size_t i = random() % 80; i > 0; --i) text += "abc"[random() % 3];
    for (size_t i = 1 + random() % 4; i > 0; --i) bytes += "abc"[random() % 3];
    const Needle needle(bytes);
    for (size_t from = 0; from <= text.size(); ++from)
      ASSERT_EQ(needle.Find(text, from), text.find(bytes, from)) << bytes << " in " << text;
  }
}

// The text is searched for what a pattern begins with, until that turns out to be in most lines.
TEST(LineMatcherTest, APatternWithAPrefixFindsWhatItFindsLineByLine) {
  std::mt19937 random(11);
  std::string text;
  for (int line = 0; line < 3'000; ++line) {
    const bool is_rare = line < 1'500;
    for (size_t i = random() % (is_rare ? 90 : 20); i > 0; --i) text += "ab \xc3\xa9"[random() % 3];
    if (random() % (is_rare ? 40 : 2) == 0)
      text += random() % 2 == 0 ? "step 7\xc3\xa9" : "step 12";
    text += '\n';
  }
  for (const std::string pattern :
       {"step [0-9]{2}", "step 7\xc3\xa9*", "step 7\xc3\xa9?$", "step 12\\b", "step ?12",
        "step+ 12$", "step 12|step 7", "ste.*", "step 7(\xc3\xa9)"}) {
    const auto matcher = *LineMatcher::Make({.grep = pattern});
    std::string found, expected;
    for (size_t at = 0; at < text.size();) {
      const auto line = matcher->Find(text, at);
      if (!line.has_value()) break;
      found += text.substr(line->begin, line->end - line->begin) + "\n";
      at = line->end + 1;
    }
    for (const std::string& line : LinesOf(text)) {
      // Not the search by a prefix: a group is in front.
      const auto plain = *LineMatcher::Make({.grep = "(?:" + pattern + ")"});
      if (plain->Find(line, 0).has_value()) expected += line;
    }
    EXPECT_EQ(found, expected) << pattern;
    EXPECT_FALSE(expected.empty()) << pattern;
  }
}

TEST(LineMatcherTest, ABadPatternIsAnErrorThatShowsWhere) {
  const struct {
    std::string pattern;
    const char* why;
  } rows[] = {{"a(b", "missing ): a(b (at byte 2)"},
              {"ab)", "unexpected ): ab) (at byte 3)"},
              {"a**", "bad repetition operator: ** (at byte 2)"},
              {"x[z-a]", "invalid character class range: z-a (at byte 3)"},
              {"a\\", "trailing \\"},
              {"\xff", "invalid UTF-8"},
              {"((a{100}){100}){100}", "invalid repetition size"},
              {std::string(5000, 'a'), "at most 4096 are allowed"}};
  for (const auto& row : rows) {
    const absl::Status made = LineMatcher::Make({.grep = row.pattern}).status();
    EXPECT_EQ(CodeOf(made), "JC1019") << row.pattern;
    EXPECT_EQ(ProblemOf(made).why.find(row.why), 0u) << ProblemOf(made).why;
  }
  EXPECT_EQ(CodeOf(LineMatcher::Make({.grep = "a", .lines_after = 5000}).status()), "JC1004");
}

}  // namespace
}  // namespace muster::common
