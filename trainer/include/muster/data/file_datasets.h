// Datasets over memory-mapped files: fixed-size records, and windows of a long token sequence. Both
// are map-style and thread-safe, return copies, and check before each read that the file has not
// changed since it was opened (DataError otherwise).
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/data/memory_mapped_file.h"

namespace muster {

// One field of a record.
struct RecordField {
  at::ScalarType dtype = at::kByte;  // as stored, little-endian
  std::vector<int64_t> shape;        // empty: one number
};

struct RecordFormat {
  // In the order of their bytes in the record, without gaps. CIFAR-10's binary files, for example,
  // are {{at::kByte, {}}, {at::kByte, {3, 32, 32}}}.
  std::vector<RecordField> fields;
  int64_t header_bytes = 0;  // before the first record
};

// Sample i is record i: one tensor per field, with the field's dtype and shape. A batch is one
// tensor [samples, …] per field.
class RecordDataset {
 public:
  // Throws DataError if the file cannot be mapped or is not header_bytes plus a whole number of
  // records; std::invalid_argument if a record has no bytes.
  RecordDataset(const std::string& path, RecordFormat format);

  int64_t size() const { return size_; }  // records
  std::vector<at::Tensor> get(int64_t index) const;
  std::vector<at::Tensor> get_batch(std::span<const int64_t> indices) const;
  std::string describe(int64_t index) const;  // "PATH, record 7 at byte 12345"

 private:
  MemoryMappedFile file_;
  RecordFormat format_;
  std::vector<int64_t> field_bytes_;
  int64_t record_bytes_ = 0;
  int64_t size_ = 0;
};

struct TokenWindows {
  int64_t window = 0;  // tokens per sample; for next-token training one more than the model reads
  int64_t stride = 0;  // tokens between the starts of consecutive samples; 0: window
  // Of the tokens in the file: uint8, uint16, int32, uint32 or int64, little-endian.
  at::ScalarType dtype = at::kByte;
  int64_t header_bytes = 0;
};

// Sample i is tokens [i * stride, i * stride + window), as int64 [window]; a batch is int64
// [samples, window]. Tokens after the last complete window are dropped.
class TokenDataset {
 public:
  // Throws DataError if the file cannot be mapped, is not a whole number of tokens, or is shorter
  // than one window; std::invalid_argument if window or stride is out of range.
  TokenDataset(const std::string& path, TokenWindows windows);
  // Tokens in memory, a 1-D tensor of an integer type; windows.dtype and header_bytes are ignored.
  TokenDataset(at::Tensor tokens, TokenWindows windows);

  int64_t size() const { return size_; }      // windows
  int64_t tokens() const { return tokens_; }  // of the whole file
  at::Tensor get(int64_t index) const;
  at::Tensor get_batch(std::span<const int64_t> indices) const;
  std::string describe(int64_t index) const;  // "PATH, tokens 512 to 767"

 private:
  void count_windows(const std::string& source);

  std::vector<MemoryMappedFile> file_;  // empty: in memory
  at::Tensor memory_;
  TokenWindows windows_;
  int64_t tokens_ = 0;
  int64_t size_ = 0;
};

}  // namespace muster
