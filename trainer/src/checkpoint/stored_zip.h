// Where the records of a zip file lie; those of torch.save are stored, not compressed. Source: PKWARE's
// APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3 (zip64). Hostile input causes a FormatError, never a crash. No torch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace muster {

// The bytes of a file, wherever they are.
struct ByteSource {
  uint64_t size = 0;
  // Fills `into` from `offset` on; only ever asked for bytes below `size`. May throw.
  std::function<void(uint64_t offset, char* into, size_t bytes)> read;
};

struct ZipRecord {
  uint64_t offset = 0;    // of its first byte in the file
  uint64_t size = 0;      // in the file
  bool is_stored = true;  // false: compressed
};
using ZipRecords = std::map<std::string, ZipRecord, std::less<>>;

// Of the directory of one file, and with it of its number of records; a longer one is refused.
inline constexpr uint64_t kZipDirectoryBytesMax = 512 << 20;

// Reads the file's directory and the head of each record. Every record lies before the directory. Throws
// FormatError("<where>: <rule>").
ZipRecords read_zip_directory(const ByteSource& file, const std::string& where);

}  // namespace muster
