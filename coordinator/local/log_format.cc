#include "coordinator/local/log_format.h"

#include <cstring>

#include "common/crc32c.h"
#include "common/limits.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kEndFlag = 1;
constexpr size_t kSummedBytes = kLogIndexRecordBytes - sizeof(uint32_t);

// Little-endian, as the machine: offset, dropped, time, length, data crc, flags, record crc.
struct Packed {
  uint64_t offset;
  uint64_t dropped;
  int64_t time_us;
  uint32_t length;
  uint32_t data_crc;
  uint32_t flags;
  uint32_t record_crc;
};
static_assert(sizeof(Packed) == kLogIndexRecordBytes);

}  // namespace

std::string EncodeLogIndexRecord(const LogPiece& piece, uint32_t data_crc) {
  Packed packed{piece.offset,
                piece.dropped,
                piece.time_us,
                piece.length,
                data_crc,
                piece.end ? kEndFlag : 0,
                0};
  packed.record_crc = common::Crc32c({reinterpret_cast<const char*>(&packed), kSummedBytes});
  return {reinterpret_cast<const char*>(&packed), sizeof packed};
}

std::optional<LogIndexRecord> DecodeLogIndexRecord(std::string_view bytes) {
  Packed packed{};
  if (bytes.size() < sizeof packed) return std::nullopt;
  std::memcpy(&packed, bytes.data(), sizeof packed);
  if (packed.record_crc != common::Crc32c(bytes.substr(0, kSummedBytes))) return std::nullopt;
  // A sum shows what was written, not that it can be: no value is used before its range is known.
  if (packed.offset > common::kLogStreamBytesMax || packed.dropped > packed.offset ||
      packed.length > common::kLogChunkBytesMax ||
      packed.offset + packed.length > common::kLogStreamBytesMax) {
    return std::nullopt;
  }
  return LogIndexRecord{{packed.offset, packed.dropped, packed.time_us, packed.length,
                         (packed.flags & kEndFlag) != 0},
                        packed.data_crc};
}

}  // namespace muster::coordinator
