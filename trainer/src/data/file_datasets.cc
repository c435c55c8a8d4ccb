// Datasets over memory-mapped files; see file_datasets.h.
#include "muster/data/file_datasets.h"

#include <ATen/ATen.h>

#include <cstring>
#include <stdexcept>

#include "muster/base/errors.h"

namespace muster {
namespace {

void check_index(int64_t index, int64_t size) {
  if (index >= 0 && index < size) return;
  throw std::out_of_range("index " + std::to_string(index) + " is not below the dataset's size " +
                          std::to_string(size));
}

std::vector<int64_t> batch_shape(int64_t count, const std::vector<int64_t>& shape) {
  std::vector<int64_t> whole{count};
  whole.insert(whole.end(), shape.begin(), shape.end());
  return whole;
}

// Reads `count` numbers of type Stored, which need not be aligned.
template <typename Stored>
void widen(const std::byte* from, int64_t count, int64_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    to[i] = static_cast<int64_t>(value);
  }
}

void widen(at::ScalarType dtype, const std::byte* from, int64_t count, int64_t* to) {
  switch (dtype) {
    case at::kByte:
      return widen<uint8_t>(from, count, to);
    case at::kUInt16:
      return widen<uint16_t>(from, count, to);
    case at::kInt:
      return widen<int32_t>(from, count, to);
    case at::kUInt32:
      return widen<uint32_t>(from, count, to);
    case at::kLong:
      return widen<int64_t>(from, count, to);
    default:
      throw std::invalid_argument(
          c10::str("TokenDataset: tokens must be uint8, uint16, int32, uint32 or "
                   "int64, not ",
                   dtype));
  }
}

}  // namespace

RecordDataset::RecordDataset(const std::string& path, RecordFormat format)
    : file_(path, AccessPattern::random), format_(std::move(format)) {
  for (const RecordField& field : format_.fields) {
    int64_t bytes = static_cast<int64_t>(c10::elementSize(field.dtype));
    for (const int64_t size : field.shape) {
      if (size < 0) throw std::invalid_argument("RecordDataset: a field has a negative size");
      bytes *= size;
    }
    field_bytes_.push_back(bytes);
    record_bytes_ += bytes;
  }
  if (record_bytes_ == 0 || format_.header_bytes < 0) {
    throw std::invalid_argument(
        "RecordDataset: the format has records of 0 bytes or a negative "
        "header");
  }
  const int64_t body = file_.size() - format_.header_bytes;
  if (body < 0 || body % record_bytes_ != 0) {
    throw DataError("the data file " + path + " has " + std::to_string(file_.size()) +
                    " bytes, which is not " + std::to_string(format_.header_bytes) +
                    " and a whole number of records of " + std::to_string(record_bytes_) +
                    ": it is truncated or has a different format");
  }
  size_ = body / record_bytes_;
}

std::vector<at::Tensor> RecordDataset::get(int64_t index) const {
  std::vector<at::Tensor> record = get_batch({&index, 1});
  for (at::Tensor& field : record) field = field.squeeze(0);
  return record;
}

std::vector<at::Tensor> RecordDataset::get_batch(std::span<const int64_t> indices) const {
  file_.check_unchanged();
  std::vector<at::Tensor> batch;
  std::vector<char*> ends;
  for (const RecordField& field : format_.fields) {
    const auto count = static_cast<int64_t>(indices.size());
    batch.push_back(at::empty(batch_shape(count, field.shape), field.dtype));
    ends.push_back(static_cast<char*>(batch.back().mutable_data_ptr()));
  }
  for (const int64_t index : indices) {
    check_index(index, size_);
    const std::byte* from = file_.data() + format_.header_bytes + index * record_bytes_;
    for (size_t k = 0; k < ends.size(); ++k) {
      if (field_bytes_[k] == 0) continue;
      std::memcpy(ends[k], from, static_cast<size_t>(field_bytes_[k]));
      ends[k] += field_bytes_[k];
      from += field_bytes_[k];
    }
  }
  return batch;
}

std::string RecordDataset::describe(int64_t index) const {
  return file_.path() + ", record " + std::to_string(index) + " at byte " +
         std::to_string(format_.header_bytes + index * record_bytes_);
}

TokenDataset::TokenDataset(const std::string& path, TokenWindows windows)
    : file_{MemoryMappedFile(path)}, windows_(windows) {
  int64_t unused = 0;
  widen(windows.dtype, nullptr, 0, &unused);  // throws for unsupported dtypes
  const int64_t body = file_[0].size() - windows.header_bytes;
  const auto token_bytes = static_cast<int64_t>(c10::elementSize(windows.dtype));
  if (windows.header_bytes < 0) {
    throw std::invalid_argument("TokenDataset: header_bytes is negative");
  }
  if (body < 0 || body % token_bytes != 0) {
    throw DataError("the data file " + path + " has " + std::to_string(file_[0].size()) +
                    " bytes, which is not " + std::to_string(windows.header_bytes) +
                    " and a whole number of tokens of " + std::to_string(token_bytes) +
                    ": it is truncated or has a different dtype");
  }
  tokens_ = body / token_bytes;
  count_windows("the data file " + path);
}

TokenDataset::TokenDataset(at::Tensor tokens, TokenWindows windows)
    : memory_(std::move(tokens)), windows_(windows) {
  if (!memory_.defined() || memory_.dim() != 1 ||
      !at::isIntegralType(memory_.scalar_type(), false)) {
    throw std::invalid_argument("TokenDataset: tokens must be a 1-D tensor of an integer dtype");
  }
  memory_ = memory_.to(at::kCPU).contiguous();
  tokens_ = memory_.size(0);
  count_windows("the tensor of tokens");
}

void TokenDataset::count_windows(const std::string& source) {
  if (windows_.window < 1 || windows_.stride < 0) {
    throw std::invalid_argument("TokenDataset: window is " + std::to_string(windows_.window) +
                                " and stride " + std::to_string(windows_.stride) +
                                "; give a window of at least 1 and a stride of at least 1 (0: the "
                                "window)");
  }
  if (windows_.stride == 0) windows_.stride = windows_.window;
  if (tokens_ < windows_.window) {
    throw DataError(source + " has " + std::to_string(tokens_) +
                    " tokens, fewer than one window of " + std::to_string(windows_.window));
  }
  size_ = (tokens_ - windows_.window) / windows_.stride + 1;
}

at::Tensor TokenDataset::get(int64_t index) const { return get_batch({&index, 1}).squeeze(0); }

at::Tensor TokenDataset::get_batch(std::span<const int64_t> indices) const {
  if (!file_.empty()) file_[0].check_unchanged();
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t window = windows_.window;
  if (file_.empty()) {
    std::vector<at::Tensor> rows;
    for (const int64_t index : indices) {
      check_index(index, size_);
      rows.push_back(memory_.narrow(0, index * windows_.stride, window));
    }
    return at::stack(rows).to(at::kLong);
  }
  at::Tensor batch = at::empty({count, window}, at::kLong);
  auto* to = batch.mutable_data_ptr<int64_t>();
  const auto token_bytes = static_cast<int64_t>(c10::elementSize(windows_.dtype));
  const std::byte* first = file_[0].data() + windows_.header_bytes;
  for (const int64_t index : indices) {
    check_index(index, size_);
    widen(windows_.dtype, first + index * windows_.stride * token_bytes, window, to);
    to += window;
  }
  return batch;
}

std::string TokenDataset::describe(int64_t index) const {
  const int64_t begin = index * windows_.stride;
  return (file_.empty() ? std::string("tokens in memory") : file_[0].path()) + ", tokens " +
         std::to_string(begin) + " to " + std::to_string(begin + windows_.window - 1);
}

}  // namespace muster
