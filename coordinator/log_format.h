// The index beside each rank's raw log bytes: one fixed record per piece, appended after the bytes
// it describes. Pure. docs/formats.md has the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// Which stream of bytes.
struct LogKey {
  uint64_t job = 0;
  uint32_t attempt = 0;
  uint32_t rank = 0;
  v1::LogStream stream = v1::LOG_STREAM_STDOUT;
  auto operator<=>(const LogKey&) const = default;
};

// Bytes [offset, offset + length) of the stream, received at time_us.
struct LogIndexRecord {
  uint64_t offset = 0;
  uint64_t dropped = 0;  // bytes lost just before offset
  int64_t time_us = 0;
  uint32_t length = 0;
  uint32_t data_crc = 0;
  bool end = false;  // nothing follows
};

inline constexpr size_t kLogIndexRecordBytes = 40;

std::string EncodeLogIndexRecord(const LogIndexRecord& record);
// nullopt: the bytes are torn, damaged, or say what cannot be (limits.h).
std::optional<LogIndexRecord> DecodeLogIndexRecord(std::string_view bytes);

}  // namespace muster::coordinator
