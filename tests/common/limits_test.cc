// How the limits of common/base/limits.h must relate to each other.
#include "common/base/limits.h"

#include "gtest/gtest.h"

namespace muster::common {
namespace {

constexpr size_t kFraming = 64 * 1024;  // room for the other fields of a message

TEST(Limits, ChunksFitIntoAMessageWithTheirFraming) {
  EXPECT_LE(kLogChunkBytesMax + kFraming, kBulkMessageBytesMax);
  EXPECT_LE(kBlobChunkBytes + kFraming, kBulkMessageBytesMax);
}

TEST(Limits, ASpecFitsIntoAControlMessageAndIntoAJournalRecord) {
  EXPECT_LE(kSpecBytesMax + kFraming, kControlMessageBytesMax);
  EXPECT_LE(kSpecBytesMax + kFraming, kJournalRecordBytesMax);
}

TEST(Limits, AJournalRecordStaysBelowEtcdsRequestLimit) {
  EXPECT_LE(kJournalRecordBytesMax + kFraming, size_t{1536} * 1024);
}

TEST(Limits, AFailureReportOfARankFitsIntoAJournalRecord) {
  EXPECT_LE(kErrorMessageBytesMax + kLastLinesBytesMax + kFraming, kJournalRecordBytesMax);
}

}  // namespace
}  // namespace muster::common
