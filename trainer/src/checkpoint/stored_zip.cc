#include "checkpoint/stored_zip.h"

#include <algorithm>
#include <string_view>

#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50;
constexpr uint32_t kLocatorSignature = 0x07064b50;
constexpr uint32_t kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56;
constexpr size_t kEntryBytes = 46, kLocalBytes = 30;
constexpr size_t kCommentBytesMax = 0xffff;
constexpr uint16_t kZip64Field = 1;
constexpr uint32_t kIn64 = 0xffffffff;  // the number is in the zip64 field

class ZipReader {
 public:
  ZipReader(const ByteSource& file, const std::string& where) : file_(file), where_(where) {}

  ZipRecords read() {
    find_directory();
    ZipRecords records;
    uint64_t at = 0;
    for (uint64_t i = 0; i < count_; ++i) at = take_entry(at, records);
    return records;
  }

 private:
  struct Entry {
    uint64_t size, stored, local;
  };

  [[noreturn]] void fail(const std::string& rule) const {
    throw FormatError(where_ + ": not a whole zip file: " + rule);
  }

  std::string bytes(uint64_t at, uint64_t count) const {
    if (at > file_.size || count > file_.size - at) fail("it ends early");
    std::string read(count, '\0');
    if (count > 0) file_.read(at, read.data(), count);
    return read;
  }
  // Little-endian.
  uint64_t number(std::string_view text, uint64_t at, size_t count) const {
    if (at > text.size() || count > text.size() - at) fail("it ends early");
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text[at + i]);
    return value;
  }

  void find_directory() {
    const uint64_t tail_bytes = std::min<uint64_t>(file_.size, kEndBytes + kCommentBytesMax);
    const std::string tail = bytes(file_.size - tail_bytes, tail_bytes);
    uint64_t at = tail.size() < kEndBytes ? tail.npos : tail.size() - kEndBytes;
    const auto is_end = [&] {
      return number(tail, at, 4) == kEndSignature &&
             at + kEndBytes + number(tail, at + 20, 2) == tail.size();
    };
    while (at != tail.npos && !is_end()) --at;
    if (at == tail.npos) fail("it has no directory");
    const std::string_view end = std::string_view(tail).substr(at);
    count_ = number(end, 10, 2);
    uint64_t directory_bytes = number(end, 12, 4), directory = number(end, 16, 4);
    uint64_t behind = file_.size - tail_bytes + at;
    if (behind >= kLocatorBytes) {
      const std::string locator = bytes(behind - kLocatorBytes, kLocatorBytes);
      if (number(locator, 0, 4) == kLocatorSignature) {
        const std::string end64 = bytes(number(locator, 8, 8), kEnd64Bytes);
        if (number(end64, 0, 4) != kEnd64Signature) fail("its zip64 end is elsewhere");
        behind = number(locator, 8, 8);
        count_ = number(end64, 32, 8);
        directory_bytes = number(end64, 40, 8);
        directory = number(end64, 48, 8);
      }
    }
    if (directory > behind || directory_bytes > behind - directory)
      fail("its directory lies outside");
    if (directory_bytes > kZipDirectoryBytesMax) fail("its directory is too large");
    if (count_ > directory_bytes / kEntryBytes) fail("its directory is too short");
    begins_ = directory;
    directory_ = bytes(directory, directory_bytes);
  }

  // What did not fit into 32 bits, in this order.
  void take_zip64(std::string_view fields, Entry& entry) const {
    while (fields.size() >= 4) {
      const uint64_t id = number(fields, 0, 2), length = number(fields, 2, 2);
      if (length > fields.size() - 4) fail("a record's extra field is too short");
      const std::string_view field = fields.substr(4, length);
      uint64_t next = 0;
      for (uint64_t* each : {&entry.size, &entry.stored, &entry.local}) {
        if (id != kZip64Field || *each != kIn64) continue;
        *each = number(field, next, 8);
        next += 8;
      }
      fields.remove_prefix(4 + length);
    }
  }

  // Returns where the next entry begins.
  uint64_t take_entry(uint64_t at, ZipRecords& records) const {
    if (number(directory_, at, 4) != kEntrySignature) fail("its directory is damaged");
    const uint64_t flags = number(directory_, at + 8, 2), method = number(directory_, at + 10, 2);
    const uint64_t name_bytes = number(directory_, at + 28, 2);
    const uint64_t extra_bytes = number(directory_, at + 30, 2);
    const uint64_t next =
        at + kEntryBytes + name_bytes + extra_bytes + number(directory_, at + 32, 2);
    Entry entry{.size = number(directory_, at + 24, 4),
                .stored = number(directory_, at + 20, 4),
                .local = number(directory_, at + 42, 4)};
    if (next > directory_.size()) fail("its directory is damaged");
    const std::string name = directory_.substr(at + kEntryBytes, name_bytes);
    take_zip64(std::string_view(directory_).substr(at + kEntryBytes + name_bytes, extra_bytes),
               entry);
    if ((flags & 1) != 0) fail("record '" + name + "' is encrypted");
    const bool is_stored = method == 0 && entry.size == entry.stored;
    const ZipRecord record{data_of(entry, name), entry.stored, is_stored};
    if (record.offset > begins_ || record.size > begins_ - record.offset) {
      fail("record '" + name + "' reaches into the directory");
    }
    if (!records.emplace(name, record).second) fail("it has two records '" + name + "'");
    return next;
  }

  uint64_t data_of(const Entry& entry, const std::string& name) const {
    const std::string head = bytes(entry.local, kLocalBytes + name.size());
    if (number(head, 0, 4) != kLocalSignature) {
      fail("record '" + name + "' is not where it should be");
    }
    if (number(head, 26, 2) != name.size() || !head.ends_with(name)) {
      fail("record '" + name + "' has two names");
    }
    return entry.local + head.size() + number(head, 28, 2);
  }

  const ByteSource& file_;
  const std::string& where_;
  uint64_t count_ = 0;
  uint64_t begins_ = 0;  // the directory
  std::string directory_;
};

}  // namespace

ZipRecords read_zip_directory(const ByteSource& file, const std::string& where) {
  return ZipReader(file, where).read();
}

}  // namespace muster
