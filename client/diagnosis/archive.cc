// archive: 512-byte blocks.
#include "client/diagnosis/archive.h"

#include <zlib.h>

#include <cstring>

#include "absl/strings/str_format.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

constexpr size_t kBlock = 512;

// The fields of a ustar header that are not zero.
struct TarField {
  size_t offset;
  std::string value;
};

std::string TarHeader(const std::string& name, size_t size, int64_t unix_seconds) {
  std::string header(kBlock, '\0');
  const TarField fields[] = {
      {0, name},
      {100, "0000600"},
      {108, "0000000"},
      {116, "0000000"},
      {124, absl::StrFormat("%011o", size)},
      {136, absl::StrFormat("%011o", unix_seconds)},
      {148, "        "},  // its own checksum counts as spaces
      {156, "0"},
      {257, std::string("ustar\0"
                        "00",
                        8)},
  };
  for (const TarField& field : fields) {
    header.replace(field.offset, field.value.size(), field.value);
  }
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  header.replace(148, 8, absl::StrFormat("%06o", sum) + std::string("\0 ", 2));
  return header;
}

absl::StatusOr<std::string> Gzipped(const std::string& bytes, int level) {
  constexpr int kGzipWindow = 15 + 16;
  constexpr int kMemoryLevel = 8;
  z_stream stream{};
  if (deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return absl::ResourceExhaustedError("no memory to compress the archive");
  }
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  const int ended = deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  if (ended != Z_STREAM_END) return absl::InternalError("the archive cannot be compressed");
  return compressed;
}

}  // namespace

absl::StatusOr<std::string> MakeTarGz(std::string_view directory,
                                      const std::vector<ArchiveFile>& files, int64_t unix_seconds,
                                      int level) {
  std::string tar;
  for (const ArchiveFile& file : files) {
    const std::string name = common::StrCat(directory, "/", file.name);
    if (name.size() > 100) {
      return absl::InvalidArgumentError(
          common::StrCat("the name ", name, " is longer than 100 bytes"));
    }
    tar += TarHeader(name, file.content.size(), unix_seconds);
    tar += file.content;
    tar.append((kBlock - file.content.size() % kBlock) % kBlock, '\0');
  }
  tar.append(2 * kBlock, '\0');
  return Gzipped(tar, level);
}

}  // namespace muster::client
