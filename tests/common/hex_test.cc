#include "common/hash/hex.h"

#include <gtest/gtest.h>

namespace muster::common {
namespace {

TEST(Hex, ThereAndBack) {
  const std::string bytes("\x00\x7f\x80\xff", 4);
  EXPECT_EQ(ToHex(bytes), "007f80ff");
  EXPECT_EQ(FromHex("007f80ff"), bytes);
  EXPECT_EQ(FromHex("007F80FF"), bytes);
  EXPECT_EQ(FromHex(""), "");
}

TEST(Hex, WhatIsNotHexIsNothing) {
  for (const char* text : {"0", "000", "0g", "g0", "0x", "00 ", "\xc3\xa9"}) {
    EXPECT_EQ(FromHex(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace muster::common
