// Every output format of one listing, byte for byte, and what is rejected.
#include "client/terminal/listing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "absl/strings/str_split.h"
#include "client/command_line/errors.h"
#include "common/problem.h"
#include "common/text/json_text.h"

namespace muster::client {
namespace {

Listing Jobs() {
  Listing listing;
  listing.kind = "JobList";
  listing.columns = {{"job"},
                     {"id", true, true},
                     {"state"},
                     {"loss", false, true},
                     {"reason", false, false, true}};
  listing.rows = {
      {Cell("calm-otter-3"), Cell(int64_t{3}), Cell("RUNNING"), Cell(Value(0.43125), "0.431"),
       Cell("")},
      {Cell("日本-2"), Cell(int64_t{2}), Cell("FAILED"), Cell(),
       Cell("rank 1 on node1 said \"no\", twice, and left")},
  };
  return listing;
}

std::string Render(ListingOptions options, bool tty, size_t width = 80) {
  Terminal terminal;
  terminal.out_is_tty = tty;
  terminal.width = width;
  const auto text = RenderListing(Jobs(), options, terminal);
  return text.ok()
             ? *text
             : common::ProblemOf(text.status()).code + " " + common::ProblemOf(text.status()).what;
}

ListingOptions Format(const std::string& output) {
  ListingOptions options;
  options.output = output;
  return options;
}

TEST(ListingTest, ATableOnATerminalIsAlignedByDisplayWidth) {
  EXPECT_EQ(Render(Format("table"), true),
            "JOB           STATE     LOSS  REASON\n"
            "calm-otter-3  RUNNING  0.431  -\n"
            "日本-2        FAILED       -  rank 1 on node1 said \"no\", twice, and left\n");
}

TEST(ListingTest, ANarrowTerminalShortensOnlyWhatMayShrink) {
  EXPECT_EQ(Render(Format("table"), true, 45),
            "JOB           STATE     LOSS  REASON\n"
            "calm-otter-3  RUNNING  0.431  -\n"
            "日本-2        FAILED       -  rank 1 on node…\n");
}

TEST(ListingTest, APipeGetsTabsAndEverything) {
  EXPECT_EQ(Render(Format("table"), false, 20),
            "JOB\tSTATE\tLOSS\tREASON\n"
            "calm-otter-3\tRUNNING\t0.431\t\n"
            "日本-2\tFAILED\t\trank 1 on node1 said \"no\", twice, and left\n");
}

TEST(ListingTest, EachFormatForPrograms) {
  EXPECT_EQ(Render(Format("json"), true),
            "{\"version\": 1, \"kind\": \"JobList\", \"items\": [\n"
            "  {\"job\": \"calm-otter-3\", \"id\": 3, \"state\": \"RUNNING\", \"loss\": 0.43125, "
            "\"reason\": \"\"},\n"
            "  {\"job\": \"日本-2\", \"id\": 2, \"state\": \"FAILED\", \"loss\": null, \"reason\": "
            "\"rank 1 on node1 "
            "said \\\"no\\\", twice, and left\"}\n]}\n");
  EXPECT_EQ(Render(Format("csv"), true),
            "job,id,state,loss,reason\ncalm-otter-3,3,RUNNING,0.43125,\n"
            "日本-2,2,FAILED,,\"rank 1 on node1 said \"\"no\"\", twice, and left\"\n");
  EXPECT_EQ(Render(Format("name"), true), "calm-otter-3\n日本-2\n");
  EXPECT_EQ(Render(Format("yaml"), true),
            "version: 1\nkind: JobList\nitems:\n- job: calm-otter-3\n  id: 3\n  state: RUNNING\n  "
            "loss: 0.43125\n"
            "  reason: \"\"\n- job: \"日本-2\"\n  id: 2\n  state: FAILED\n  loss: null\n"
            "  reason: \"rank 1 on node1 said \\\"no\\\", twice, and left\"\n");
  ListingOptions lines = Format("jsonl");
  lines.columns = {"id", "state"};
  EXPECT_EQ(Render(lines, false),
            "{\"id\": 3, \"state\": \"RUNNING\"}\n{\"id\": 2, \"state\": \"FAILED\"}\n");
}

TEST(ListingTest, FiltersSortLimitAndHeaders) {
  ListingOptions options = Format("table");
  options.columns = {"id"};
  options.headers = false;
  options.sort = "id";
  EXPECT_EQ(Render(options, false), "2\n3\n");
  options.sort = "-id";
  options.limit = 1;
  EXPECT_EQ(Render(options, false), "3\n");
  options = Format("name");
  options.filters = {"state=running"};
  EXPECT_EQ(Render(options, false), "calm-otter-3\n");
  options.filters = {"state!=RUNNING"};
  EXPECT_EQ(Render(options, false), "日本-2\n");
  options.filters = {"state!=RUNNING", "id=3"};
  EXPECT_EQ(Render(options, false), "");
}

// The keys of rows whose column holds `values`, in their sorted order.
std::string Sorted(const std::vector<Value>& values, const std::string& sort) {
  Listing listing;
  listing.kind = "X";
  listing.columns = {{.key = "name"}, {.key = "value"}};
  for (size_t i = 0; i < values.size(); ++i) {
    listing.rows.push_back({Cell(std::string(1, static_cast<char>('a' + i))), Cell(values[i], "")});
  }
  ListingOptions options = Format("name");
  options.sort = sort;
  std::string order = *RenderListing(listing, options, Terminal{});
  std::erase(order, '\n');
  return order;
}

TEST(ListingTest, ALossThatIsNotANumberSpoilsNoOrder) {
  const double nan = std::nan("");
  const std::vector<Value> values = {3.0, nan, 1.0, nan, 2.0, INFINITY, -INFINITY};
  EXPECT_EQ(Sorted(values, "value"), "gceafbd");
  EXPECT_EQ(Sorted(values, "-value"), "faecgbd") << "and comes last in both directions";
}

TEST(ListingTest, WhatIsMissingIsLastInBothDirections) {
  const std::vector<Value> values = {"b", {}, "a", int64_t{-7}, {}, true, "c"};
  EXPECT_EQ(Sorted(values, "value"), "cagdfbe");
  EXPECT_EQ(Sorted(values, "-value"), "fdgacbe");
}

TEST(ListingTest, APieceIsPrintedAtOnceAndTheWholeIsWhatItWouldBe) {
  for (const char* output : {"table", "json", "jsonl", "yaml", "csv", "name"}) {
    ListingWriter writer(Format(output), Terminal{});
    std::string text;
    for (const std::vector<Cell>& row : Jobs().rows) {
      Listing piece = Jobs();
      piece.rows = {row};
      const auto added = writer.Add(piece);
      ASSERT_TRUE(added.ok());
      EXPECT_NE(added->find(row[0].text), std::string::npos) << "printed as it came";
      text += *added;
    }
    EXPECT_EQ(text + *writer.Finish(), Render(Format(output), false)) << output;
  }
}

TEST(ListingTest, TheLimitEndsAListingOfPieces) {
  ListingOptions options = Format("name");
  options.limit = 3;
  ListingWriter writer(options, Terminal{});
  EXPECT_EQ(*writer.Add(Jobs()), "calm-otter-3\n日本-2\n");
  EXPECT_FALSE(writer.full());
  EXPECT_EQ(*writer.Add(Jobs()), "calm-otter-3\n");
  EXPECT_TRUE(writer.full());
  EXPECT_EQ(*writer.Add(Jobs()), "");
  EXPECT_EQ(*writer.Finish(), "");
}

TEST(ListingTest, ALimitMayKeepTheLastRows) {
  ListingOptions options = Format("name");
  options.limit = 1;
  options.keep_last = true;
  EXPECT_EQ(Render(options, false), "日本-2\n");
  options.limit = 5;
  EXPECT_EQ(Render(options, false), "calm-otter-3\n日本-2\n");
}

TEST(ListingTest, SortingHoldsNoMoreThanItsLimitOrSaysSo) {
  Listing many = Jobs();
  many.rows.assign(30'000, many.rows[0]);
  ListingOptions options = Format("name");
  options.sort = "id";
  ListingWriter all(options, Terminal{});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(all.Add(many).ok());
  EXPECT_EQ(common::ProblemOf(all.Add(many).status()).what,
            "more than 100000 rows cannot be sorted");
  options.limit = 2;
  ListingWriter some(options, Terminal{});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(*some.Add(many), "");
  EXPECT_EQ(*some.Add(Jobs()), "");
  EXPECT_EQ(*some.Finish(), "日本-2\ncalm-otter-3\n");
}

TEST(ListingTest, AMomentIsSortedByItsAgeUnderThatNameAndNamedForPrograms) {
  Listing listing;
  listing.kind = "X";
  listing.columns = {{"job"}, {.key = "age", .value_name = "submitted_ms", .since = true}};
  listing.rows = {{Cell("young"), Cell(Value(int64_t{2000}), "1s")},
                  {Cell("old"), Cell(Value(int64_t{1000}), "2s")}};
  const auto render = [&](const std::string& output, const std::string& sort) {
    ListingOptions options = Format(output);
    options.sort = sort;
    return *RenderListing(listing, options, Terminal{});
  };
  EXPECT_EQ(render("name", "age"), "young\nold\n");
  EXPECT_EQ(render("name", "-age"), "old\nyoung\n");
  EXPECT_EQ(render("name", "submitted_ms"), "old\nyoung\n");
  EXPECT_EQ(render("csv", ""), "job,submitted_ms\nyoung,2000\nold,1000\n");
  EXPECT_EQ(render("table", ""), "JOB\tAGE\nyoung\t1s\nold\t2s\n");
}

TEST(ListingTest, WhatDoesNotExistIsNamedWithTheNearest) {
  ListingOptions options = Format("table");
  options.columns = {"sate"};
  EXPECT_EQ(Render(options, false), "JC1008 there is no column \"sate\"; did you mean \"state\"?");
  options = Format("table");
  options.filters = {"state"};
  EXPECT_EQ(Render(options, false), "JC1008 the filter \"state\" is not KEY=VALUE or KEY!=VALUE");
  options = Format("table");
  options.sort = "-nothing";
  EXPECT_EQ(Render(options, false), "JC1008 there is no column \"nothing\"");
}

TEST(ListingTest, ANarrowTerminalLosesEmptyColumnsThenTheReasonButNeverTheName) {
  Listing listing;
  listing.kind = "JobList";
  listing.columns = {{"job", false, false, true}, {"loss"}, {"reason", false, false, true}};
  listing.rows = {{Cell("bright-otter-123"), Cell(), Cell("rank 1 exited with code 7")}};
  Terminal tty;
  tty.out_is_tty = true;
  tty.width = 30;
  EXPECT_EQ(*RenderListing(listing, {}, tty),
            "JOB               REASON\nbright-otter-123  rank 1 exit…\n");
  tty.width = 80;
  EXPECT_EQ(*RenderListing(listing, {}, tty),
            "JOB               LOSS  REASON\nbright-otter-123  -     rank 1 exited with code 7\n");
}

TEST(ListingTest, TheLastColumnGoesOnInTheNextLineWhereItMayNotBeCut) {
  Listing listing;
  listing.kind = "EventList";
  listing.columns = {{"time"}, {"event", false, false, false, true}};
  listing.rows = {{Cell("14:02:11"), Cell("restarts now from the checkpoint of step 20")}};
  Terminal tty;
  tty.out_is_tty = true;
  tty.width = 34;
  EXPECT_EQ(*RenderListing(listing, {}, tty),
            "TIME      EVENT\n14:02:11  restarts now from the\n          checkpoint of step 20\n");
}

TEST(ListingTest, JobDataCannotDriveTheTerminalOrBreakRows) {
  Listing listing;
  listing.kind = "X";
  listing.columns = {{"a"}};
  listing.rows = {{Cell("x\033[2Jy\n\tz")}};
  Terminal tty;
  tty.out_is_tty = true;
  ListingOptions options;
  options.headers = false;
  EXPECT_EQ(RenderListing(listing, options, tty)->find('\033'), std::string::npos);
  EXPECT_EQ(*RenderListing(listing, options, Terminal{}), "x\033[2Jy  z\n");
}

TEST(ListingTest, QuotingSurvivesAnyBytes) {
  EXPECT_EQ(common::JsonQuote("a\"\\\n\t\x01\x7f"), "\"a\\\"\\\\\\n\\t\\u0001\\u007f\"");
  EXPECT_EQ(common::JsonQuote("\xff\xc3"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonValue(Value(0.1)), "0.1");
  EXPECT_EQ(JsonValue(Value(1.0 / 0.0)), "\"Infinity\"");
  EXPECT_EQ(YamlQuote("plain-word"), "plain-word");
  for (const char* tricky : {"yes", "No", "null", "1", "0x1", "-", "a: b", ""}) {
    EXPECT_EQ(YamlQuote(tricky), common::JsonQuote(tricky)) << tricky;
  }
}

// Long files, which differ only in the middle, only at the end, and hardly at all.
Listing Files() {
  Listing listing;
  listing.kind = "FileList";
  listing.columns = {{.key = "file", .names = true}, {.key = "size"}};
  for (const char* name :
       {"checkpoints/epoch-1/model.safetensors", "checkpoints/epoch-2/model.safetensors",
        "checkpoints/epoch-2/model.safetensors.index", "a"}) {
    listing.rows.push_back({Cell(name), Cell("1 MiB")});
  }
  return listing;
}

TEST(ListingTest, NamesThatDifferNeverLookAlikeHoweverNarrowTheTerminal) {
  for (size_t width = 20; width < 60; ++width) {
    const std::string text =
        *RenderListing(Files(), {}, Terminal{.out_is_tty = true, .width = width});
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()).size(), 5u) << text;
  }
  EXPECT_NE(RenderListing(Files(), {}, Terminal{.out_is_tty = true, .width = 45})
                ->find("checkpoints/epoch-2….safetensors.index"),
            std::string::npos);
}

TEST(ListingTest, AListOfNamesKeepsWholeOnesAndCountsTheRest) {
  Listing listing;
  listing.kind = "NodeList";
  listing.columns = {{.key = "node"}, {.key = "jobs", .list = true}};
  listing.rows = {{Cell("n1"), Cell("train-a-1, train-a-2, train-b-1, train-b-222")},
                  {Cell("n2"), Cell("evaluate-every-checkpoint-of-alice")},
                  {Cell("n3"), Cell("")}};
  const auto shown = [&](size_t width) {
    const std::string text =
        *RenderListing(listing, {}, Terminal{.out_is_tty = true, .width = width});
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(shown(80),
            "n1    train-a-1, train-a-2, train-b-1, train-b-222\n"
            "n2    evaluate-every-checkpoint-of-alice\n"
            "n3    -\n");
  EXPECT_EQ(shown(48),
            "n1    train-a-1, train-a-2, train-b-1 and 1 more\n"
            "n2    evaluate-every-checkpoint-of-alice\n"
            "n3    -\n");
  EXPECT_EQ(shown(32),
            "n1    train-a-1 and 3 more\n"
            "n2    evaluate-ever…int-of-alice\n"
            "n3    -\n");
  EXPECT_EQ(shown(10), shown(25)) << "no narrower than names can be told apart";
  EXPECT_EQ(shown(10),
            "n1    trai…a-1 and 3 more\n"
            "n2    evaluate-…-of-alice\n"
            "n3    -\n");
  EXPECT_NE(RenderListing(listing, {}, Terminal{.width = 10})->find("train-b-1, train-b-222\n"),
            std::string::npos)
      << "a pipe gets all";
}

TEST(ListingTest, APipeGetsNamesUncut) {
  const std::string text = *RenderListing(Files(), {}, Terminal{.width = 20});
  EXPECT_NE(text.find("\ncheckpoints/epoch-2/model.safetensors.index\t1 MiB\n"), std::string::npos);
}

TEST(ListingTest, ANarrowTerminalThinsCurvesAndLosesSpareColumnsBeforeItCutsNames) {
  Listing listing;
  listing.kind = "MetricList";
  listing.columns = {{.key = "metric", .names = true},
                     {.key = "last", .right = true},
                     {.key = "min", .right = true, .spare = 1},
                     {.key = "curve", .curve = true, .spare = 2}};
  listing.rows = {{Cell("eval/loss"), Cell("1"), Cell("2"), Cell("▁▂▃▄▅▆▇█▇▆▅▄▃▂▁▂▃")}};
  const auto shown = [&](size_t width) {
    const std::string text =
        *RenderListing(listing, {}, Terminal{.out_is_tty = true, .width = width});
    return text.substr(text.find('\n') + 1);
  };
  EXPECT_EQ(shown(40), "eval/loss     1    2  ▁▂▃▄▅▆▇█▇▆▅▄▃▂▁▂▃\n");
  EXPECT_EQ(shown(31), "eval/loss     1    2  ▁▃▅▇▇▅▃▁▃\n");
  EXPECT_EQ(shown(29), "eval/loss     1    2\n");
  EXPECT_EQ(shown(16), "eval/loss     1\n");
}

TEST(ListingTest, ColumnsThatWereAskedForAreKept) {
  Listing listing = Files();
  listing.columns[1].spare = 1;
  ListingOptions options;
  options.columns = {"file", "size"};
  EXPECT_NE(
      RenderListing(listing, options, Terminal{.out_is_tty = true, .width = 30})->find("1 MiB"),
      std::string::npos);
}

}  // namespace
}  // namespace muster::client
