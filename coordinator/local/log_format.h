// The index beside each rank's raw log bytes: one fixed record per piece, appended after the bytes
// it describes. Pure. docs/formats.md has the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

struct LogIndexRecord : LogPiece {
  uint32_t data_crc = 0;
};

inline constexpr size_t kLogIndexRecordBytes = 40;

// `data_crc`: CRC-32C of the piece's bytes.
std::string EncodeLogIndexRecord(const LogPiece& piece, uint32_t data_crc);
// nullopt: the bytes are torn, damaged, or say what cannot be (limits.h).
std::optional<LogIndexRecord> DecodeLogIndexRecord(std::string_view bytes);

}  // namespace muster::coordinator
