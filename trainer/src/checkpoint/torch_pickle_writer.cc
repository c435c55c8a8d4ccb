#include "checkpoint/torch_pickle_writer.h"

#include <bit>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/torch_dtypes.h"
#include "muster/base/errors.h"

namespace muster {

// The operations have the names and letters of pickletools.py.
TorchPickleWriter::TorchPickleWriter() : bytes_("\x80\x02") {}

void TorchPickleWriter::none() { bytes_ += 'N'; }
void TorchPickleWriter::boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }

void TorchPickleWriter::little_endian(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
}

void TorchPickleWriter::integer(int64_t value) {
  if (value >= INT32_MIN && value <= INT32_MAX) {
    bytes_ += 'J';  // BININT
    little_endian(static_cast<uint64_t>(value), 4);
    return;
  }
  bytes_ += "\x8a\x08";  // LONG1 of eight bytes
  little_endian(static_cast<uint64_t>(value), 8);
}

void TorchPickleWriter::real(double value) {
  bytes_ += 'G';  // BINFLOAT, big-endian
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 7; i >= 0; --i) bytes_ += static_cast<char>(bits >> (8 * i));
}

void TorchPickleWriter::text(std::string_view value) {
  bytes_ += 'X';  // BINUNICODE
  little_endian(value.size(), 4);
  bytes_ += value;
}

void TorchPickleWriter::begin_dict() { bytes_ += "}("; }
void TorchPickleWriter::begin_ordered_dict() {
  global("collections", "OrderedDict");
  bytes_ += ")R(";
}
void TorchPickleWriter::end_dict() { bytes_ += 'u'; }
void TorchPickleWriter::begin_list() { bytes_ += "]("; }
void TorchPickleWriter::end_list() { bytes_ += 'e'; }
void TorchPickleWriter::begin_tuple() { bytes_ += '('; }
void TorchPickleWriter::end_tuple() { bytes_ += 't'; }

void TorchPickleWriter::global(std::string_view module, std::string_view name) {
  ((((bytes_ += 'c') += module) += '\n') += name) += '\n';
}

void TorchPickleWriter::integers(const std::vector<int64_t>& values) {
  begin_tuple();
  for (const int64_t value : values) integer(value);
  end_tuple();
}

void TorchPickleWriter::tensor(const Tensor& tensor) {
  const TorchDtype* dtype = find_torch_dtype(tensor.dtype);
  if (dtype == nullptr)
    throw FormatError("torch.save has no storage for tensors of dtype " + tensor.dtype);
  const bool has_class = !dtype->storage.empty();
  const auto element = static_cast<uint64_t>(safetensors_dtype_bits(tensor.dtype)) / 8;
  global("torch._utils", has_class ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  begin_tuple();
  begin_tuple();
  text("storage");
  if (has_class) {
    global("torch", std::string(dtype->storage) + "Storage");
  } else {
    global("torch.storage", "UntypedStorage");
  }
  text(tensor.key);
  text("cpu");
  integer(static_cast<int64_t>(tensor.storage_bytes / (has_class ? element : 1)));
  end_tuple();
  bytes_ += 'Q';  // BINPERSID
  integer(tensor.offset);
  integers(tensor.shape);
  integers(tensor.strides);
  boolean(false);  // requires_grad
  begin_ordered_dict();
  end_dict();
  if (!has_class) global("torch", dtype->python);
  end_tuple();
  bytes_ += 'R';
}

std::string TorchPickleWriter::finish() { return std::move(bytes_ += '.'); }

}  // namespace muster
