#include "rendezvous/requests.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace muster::rendezvous {
namespace {

using Outcome = RequestReader::Outcome;

std::string Op1(Op op) { return std::string(1, static_cast<char>(op)); }

std::string RequestBytes(Op op, const std::vector<std::string>& texts) {
  std::string bytes = Op1(op);
  for (const std::string& text : texts) AppendText(&bytes, text);
  return bytes;
}

std::string ListOf(Op op, uint64_t count, const std::vector<std::string>& texts) {
  std::string bytes = Op1(op);
  AppendNumber(&bytes, count);
  for (const std::string& text : texts) AppendText(&bytes, text);
  return bytes;
}

std::string WithNumber(Op op, const std::string& key, int64_t number) {
  std::string bytes = RequestBytes(op, {key});
  AppendNumber(&bytes, static_cast<uint64_t>(number));
  return bytes;
}

std::string WithWord(Op op, uint32_t word) {
  return Op1(op) + std::string(reinterpret_cast<const char*>(&word), sizeof word);
}

// One of each operation.
std::vector<std::string> EveryRequest() {
  return {WithWord(Op::kValidate, kMagic),
          RequestBytes(Op::kSet, {"/key", "value"}),
          RequestBytes(Op::kCompareSet, {"/key", "expected", "desired"}),
          RequestBytes(Op::kGet, {"/key"}),
          WithNumber(Op::kAdd, "/key", -5),
          ListOf(Op::kCheck, 2, {"/a", "/b"}),
          ListOf(Op::kWait, 1, {"/a"}),
          Op1(Op::kCount),
          RequestBytes(Op::kDelete, {"/key"}),
          RequestBytes(Op::kAppend, {"/key", "more"}),
          ListOf(Op::kMultiGet, 3, {"/a", "", "/c"}),
          ListOf(Op::kMultiSet, 2, {"/a", "1", "/b", ""}),
          Op1(Op::kCancelWait),
          WithWord(Op::kPing, 77),
          RequestBytes(Op::kPush, {"/queue", "item"}),
          RequestBytes(Op::kPop, {"/queue"}),
          RequestBytes(Op::kLength, {"/queue"}),
          Op1(Op::kList),
          WithNumber(Op::kBarrier, "/barrier", 16)};
}

void ExpectIsRead(const Request& request, const std::string& bytes) {
  EXPECT_EQ(request.op, static_cast<Op>(bytes[0]));
  switch (request.op) {
    case Op::kSet:
    case Op::kAppend:
    case Op::kPush:
      EXPECT_EQ(RequestBytes(request.op, {std::string(request.key), std::string(request.value)}),
                bytes);
      break;
    case Op::kCompareSet:
      EXPECT_EQ(request.key, "/key");
      EXPECT_EQ(request.expected, "expected");
      EXPECT_EQ(request.value, "desired");
      break;
    case Op::kAdd:
    case Op::kBarrier:
      EXPECT_EQ(WithNumber(request.op, std::string(request.key), request.number), bytes);
      break;
    case Op::kValidate:
    case Op::kPing:
      EXPECT_EQ(WithWord(request.op, static_cast<uint32_t>(request.number)), bytes);
      break;
    case Op::kCheck:
    case Op::kWait:
    case Op::kMultiGet: {
      const std::vector<std::string> keys(request.keys.begin(), request.keys.end());
      EXPECT_EQ(ListOf(request.op, keys.size(), keys), bytes);
      break;
    }
    case Op::kMultiSet:
      ASSERT_EQ(request.keys.size(), 2u);
      EXPECT_EQ(request.keys[1], "/b");
      EXPECT_EQ(request.values[0], "1");
      EXPECT_EQ(request.values[1], "");
      break;
    default:
      break;
  }
}

TEST(Requests, EveryOperationIsReadWhole) {
  ASSERT_EQ(EveryRequest().size(), size_t{kLastOp} + 1);
  RequestReader reader;
  for (const std::string& bytes : EveryRequest()) {
    Request request;
    ASSERT_EQ(reader.Read(bytes, &request), Outcome::kWhole);
    EXPECT_EQ(reader.Used(), bytes.size());
    ExpectIsRead(request, bytes);
  }
}

TEST(Requests, EveryOperationIsReadInPiecesOfOneByte) {
  RequestReader reader;
  for (const std::string& bytes : EveryRequest()) {
    Request request;
    for (size_t count = 0; count < bytes.size(); ++count) {
      ASSERT_EQ(reader.Read(bytes.substr(0, count), &request), Outcome::kPartial) << count;
      EXPECT_EQ(reader.Used(), 0u);
    }
    ASSERT_EQ(reader.Read(bytes, &request), Outcome::kWhole);
    ExpectIsRead(request, bytes);
  }
}

TEST(Requests, SeveralInOneBufferAreReadOneByOne) {
  std::string bytes;
  for (const std::string& each : EveryRequest()) bytes += each;
  RequestReader reader;
  Request request;
  size_t at = 0;
  for (const std::string& each : EveryRequest()) {
    ASSERT_EQ(reader.Read(std::string_view(bytes).substr(at), &request), Outcome::kWhole);
    ExpectIsRead(request, each);
    at += reader.Used();
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_EQ(reader.Read({}, &request), Outcome::kPartial);
}

std::string WhyBad(const std::string& bytes) {
  RequestReader reader;
  Request request;
  EXPECT_EQ(reader.Read(bytes, &request), Outcome::kBad);
  return reader.Why();
}

TEST(Requests, AnUnknownOperationIsRefusedByItsNumber) {
  EXPECT_EQ(WhyBad(std::string(1, char{19})), "operation 19 is not known");
  EXPECT_EQ(WhyBad("\xFF"), "operation 255 is not known");
}

std::string Announced(Op op, std::initializer_list<uint64_t> numbers) {
  std::string bytes = Op1(op);
  for (const uint64_t number : numbers) AppendNumber(&bytes, number);
  return bytes;
}

TEST(Requests, ALengthOverTheLimitIsRefusedBeforeItsBytesHaveCome) {
  EXPECT_EQ(WhyBad(Announced(Op::kGet, {kKeyBytesMax + 1})),
            "a text of 8193 bytes, of at most 8192");
  EXPECT_EQ(WhyBad(RequestBytes(Op::kSet, {"/key"}) +
                   Announced(Op::kPing, {kValueBytesMax + 1}).substr(1)),
            "a text of 8388609 bytes, of at most 8388608");
  EXPECT_EQ(WhyBad(Announced(Op::kWait, {kKeysMax + 1})),
            "a list of 131073 keys, of at most 131072");
  EXPECT_NE(WhyBad(Announced(Op::kGet, {UINT64_MAX})), "");
  EXPECT_NE(WhyBad(Announced(Op::kMultiSet, {UINT64_MAX})), "");
}

TEST(Requests, ARequestOverTheLimitIsRefusedThoughEachTextIsWithinItsOwn) {
  std::string bytes = Op1(Op::kMultiSet);
  AppendNumber(&bytes, 9);
  for (int i = 0; i < 8; ++i) {
    AppendText(&bytes, "/key");
    if (i < 7) AppendText(&bytes, std::string(kValueBytesMax, 'x'));
  }
  AppendNumber(&bytes, kValueBytesMax);
  EXPECT_EQ(WhyBad(bytes), "a request of more than 67108864 bytes");
}

TEST(Requests, TextsAtTheLimitAreRead) {
  RequestReader reader;
  Request request;
  const std::string bytes =
      RequestBytes(Op::kSet, {std::string(kKeyBytesMax, 'k'), std::string(kValueBytesMax, 'v')});
  ASSERT_EQ(reader.Read(bytes, &request), Outcome::kWhole);
  EXPECT_EQ(request.key.size(), kKeyBytesMax);
  EXPECT_EQ(request.value.size(), kValueBytesMax);
}

TEST(Requests, WhatIsNotAnsweredIsKnown) {
  RequestReader reader;
  std::string not_answered;
  for (const std::string& bytes : EveryRequest()) {
    Request request;
    reader.Read(bytes, &request);
    if (!request.IsAnswered()) not_answered += std::to_string(bytes[0]) + " ";
  }
  EXPECT_EQ(not_answered, "0 1 9 11 14 ");
  Request request;
  reader.Read(ListOf(Op::kMultiGet, 0, {}), &request);
  EXPECT_FALSE(request.IsAnswered()) << "the answer to an empty multi-get is empty";
}

}  // namespace
}  // namespace muster::rendezvous
