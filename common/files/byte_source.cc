#include "common/files/byte_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::common {

uint64_t SizeOf(const ByteSource& bytes) {
  if (const auto* text = std::get_if<std::string_view>(&bytes)) return text->size();
  return std::get<FileRange>(bytes).size;
}

absl::StatusOr<size_t> CopyFrom(const ByteSource& bytes, uint64_t offset, char* to, size_t max) {
  const uint64_t size = SizeOf(bytes);
  if (offset >= size) return 0;
  const auto count = static_cast<size_t>(std::min<uint64_t>(max, size - offset));
  if (const auto* text = std::get_if<std::string_view>(&bytes)) {
    memcpy(to, text->data() + offset, count);
    return count;
  }
  const auto& file = std::get<FileRange>(bytes);
  for (;;) {
    const ssize_t got = pread(file.fd, to, count, static_cast<off_t>(file.offset + offset));
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) {
      return absl::DataLossError(StrCat("the file to send ends at byte ", file.offset + offset,
                                        ", not at ", file.offset + size));
    }
    if (errno != EINTR) return ErrnoStatus("cannot read the file to send");
  }
}

}  // namespace muster::common
