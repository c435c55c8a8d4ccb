// Errors as values, and how they cross process boundaries.
#include "common/problem.h"

#include <gtest/gtest.h>

#include "common/status_wire.h"
#include "muster/v1/error.pb.h"

namespace muster::common {
namespace {

absl::Status Example() {
  return MakeProblem(
      absl::StatusCode::kDataLoss,
      {.code = "JC1602", .what = "a.db is damaged", .why = "page 3", .fix = "restore it"});
}

TEST(ProblemTest, AStatusCarriesTheValueAndSaysItInOneLine) {
  const absl::Status status = Example();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "[JC1602] a.db is damaged: page 3; fix: restore it");
  const Problem problem = ProblemOf(status);
  EXPECT_EQ(problem.code, "JC1602");
  EXPECT_EQ(problem.what, "a.db is damaged");
  EXPECT_EQ(problem.why, "page 3");
  EXPECT_EQ(problem.fix, "restore it");
}

TEST(ProblemTest, ProseIsNotTakenApart) {
  const absl::Status status = absl::NotFoundError("[JC1201] no job; fix: none");
  EXPECT_EQ(CodeOf(status), "");
  EXPECT_EQ(ProblemOf(status).what, "[JC1201] no job; fix: none");
  v1::ErrorDetail detail;
  EXPECT_FALSE(CopyDetail(status, &detail));
}

TEST(ProblemTest, BytesThatNobodyCanReadAreEscaped) {
  const absl::Status status =
      MakeProblem(absl::StatusCode::kInternal,
                  {.code = "JC1601", .what = "a\xff", .why = "b\033", .fix = "c\nd"});
  EXPECT_EQ(ProblemOf(status).what, "a\\xff");
  EXPECT_EQ(ProblemOf(status).why, "b\\x1b");
  EXPECT_EQ(ProblemOf(status).fix, "c\nd");
}

TEST(StatusWireTest, WhatIsSentIsWhatArrives) {
  EXPECT_EQ(FromWire(ToWire(Example())), Example());
  EXPECT_EQ(FromWire(ToWire(absl::AbortedError("plain"))), absl::AbortedError("plain"));
  EXPECT_TRUE(FromWire(ToWire(absl::OkStatus())).ok());
}

TEST(StatusWireTest, TheMessageIsTakenFromTheDetailsWhenItIsMissing) {
  WireStatus wire = ToWire(Example());
  wire.message.clear();
  EXPECT_EQ(FromWire(wire), Example());
}

TEST(StatusWireTest, DetailsThatCannotBeReadAreNone) {
  const absl::Status status =
      FromWire({.code = absl::StatusCode::kInternal, .message = "m", .details = "\xff\xff"});
  EXPECT_EQ(status, absl::InternalError("m"));
}

// How gRPC encodes a message: bytes that are not printable ASCII as %NN.
size_t EscapedBytes(const std::string& text) {
  size_t bytes = 0;
  for (const char c : text) bytes += c >= ' ' && c <= '~' && c != '%' ? 1 : 3;
  return bytes;
}

TEST(StatusWireTest, ALongErrorIsCutInTheMiddleAndStaysBelowTheLimitOfAPeer) {
  for (const std::string piece : {"x", "ä", "%", "\n", "\U0001F600"}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += piece;
    for (const Problem& problem :
         {Problem{.code = "JC1402", .what = "w", .why = text, .fix = "f"},
          Problem{.code = "JC1402", .what = text, .why = "", .fix = "f"},
          Problem{.code = "JC1402", .what = text, .why = text, .fix = text}}) {
      const WireStatus wire = ToWire(MakeProblem(absl::StatusCode::kInternal, problem));
      EXPECT_LT(EscapedBytes(wire.message) + wire.details.size() * 4 / 3, 7'500u);
      const Problem arrived = ProblemOf(FromWire(wire));
      EXPECT_EQ(arrived.code, "JC1402");
      EXPECT_EQ(arrived.what.substr(0, 1), problem.what.substr(0, 1));
      EXPECT_EQ(arrived.fix.substr(0, 1), problem.fix.substr(0, 1));
      EXPECT_NE(Readable(arrived).find("…"), std::string::npos);
    }
    const WireStatus plain = ToWire(absl::InternalError(text));
    EXPECT_LT(EscapedBytes(plain.message) + plain.details.size() * 4 / 3, 7'500u);
  }
}

}  // namespace
}  // namespace muster::common
