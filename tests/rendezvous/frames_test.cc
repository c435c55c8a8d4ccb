#include "rendezvous/frames.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace muster::rendezvous {
namespace {

std::string Example() {
  std::string bytes;
  FrameWriter(&bytes, Frame::kArrive).Number(7).Text("/key").Number(16).Byte(3).Rest("the rest");
  return bytes;
}

TEST(Frames, WhatIsWrittenIsRead) {
  const std::string bytes = Example() + Example();
  Frame kind{};
  std::string_view fields;
  size_t used = 0;
  ASSERT_EQ(NextFrame(bytes, &kind, &fields, &used), Split::kWhole);
  EXPECT_EQ(used, bytes.size() / 2);
  EXPECT_EQ(kind, Frame::kArrive);
  FrameReader reader(fields);
  EXPECT_EQ(reader.Number(), 7u);
  EXPECT_EQ(reader.Text(), "/key");
  EXPECT_EQ(reader.Number(), 16u);
  EXPECT_EQ(reader.Byte(), 3);
  EXPECT_EQ(reader.Rest(), "the rest");
  EXPECT_FALSE(reader.IsBad());
}

TEST(Frames, AFrameThatIsCutIsPartial) {
  const std::string bytes = Example();
  for (size_t count = 0; count < bytes.size(); ++count) {
    Frame kind{};
    std::string_view fields;
    size_t used = 0;
    EXPECT_EQ(NextFrame(bytes.substr(0, count), &kind, &fields, &used), Split::kPartial) << count;
  }
}

TEST(Frames, ALengthThatNoFrameHasIsBad) {
  for (const uint32_t length : {uint32_t{0}, kFrameBytesMax + 1, UINT32_MAX}) {
    const std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
    Frame kind{};
    std::string_view fields;
    size_t used = 0;
    EXPECT_EQ(NextFrame(bytes, &kind, &fields, &used), Split::kBad) << length;
  }
}

TEST(Frames, FieldsPastTheEndAreZeroAndEmptyAndBad) {
  FrameReader empty("");
  EXPECT_EQ(empty.Number(), 0u);
  EXPECT_EQ(empty.Byte(), 0);
  EXPECT_EQ(empty.Text(), "");
  EXPECT_TRUE(empty.IsBad());
  const uint64_t length = UINT64_MAX;
  FrameReader text(std::string_view(reinterpret_cast<const char*>(&length), sizeof length));
  EXPECT_EQ(text.Text(), "");
  EXPECT_EQ(text.Rest(), "");
  EXPECT_TRUE(text.IsBad());
}

}  // namespace
}  // namespace muster::rendezvous
