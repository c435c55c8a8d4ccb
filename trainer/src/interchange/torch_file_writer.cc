#include "interchange/torch_file_writer.h"

#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/files.h"
#include "checkpoint/safetensors_file.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// As torch.save has it: the record .format_version.
constexpr char kFormatVersion[] = "1";

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// Of an expanded tensor elements share memory, which readers refuse.
bool is_expanded(const at::Tensor& tensor) {
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) return true;
  }
  return false;
}

// The memory of a storage, without a copy.
at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
  return at::empty({0}, at::kByte).set_(tensor.storage(), 0, {bytes}, {1});
}

// A storage is written whole if its tensors are its most part, and of one dtype.
bool is_mostly_used(const std::vector<at::Tensor>& tensors) {
  std::map<TensorIdentity, size_t> distinct;
  for (const at::Tensor& tensor : tensors) {
    const bool fits = tensor.is_cpu() && tensor.scalar_type() == tensors[0].scalar_type();
    if (!fits || is_expanded(tensor)) return false;
    distinct[identity_of(tensor)] = tensor.nbytes();
  }
  size_t used = 0;
  for (const auto& [identity, bytes] : distinct) used += bytes;
  return tensors[0].storage().nbytes() <= 2 * used;
}

}  // namespace

void TorchFileWriter::expect(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.has_storage())
    expected_[storage_of(tensor)].push_back(tensor.detach());
}

bool TorchFileWriter::is_written_whole(StorageId storage) {
  const auto expected = expected_.find(storage);
  if (expected == expected_.end()) return false;
  const auto [known, is_new] = is_whole_.try_emplace(storage, false);
  if (is_new) known->second = is_mostly_used(expected->second);
  return known->second;
}

std::string TorchFileWriter::add_storage(const at::Tensor& memory) {
  storages_.push_back(memory);
  return std::to_string(storages_.size() - 1);
}

void TorchFileWriter::tensor(const std::string& name, const at::Tensor& given) {
  require_dense(name, given);
  at::Tensor tensor = given.detach();
  held_.push_back(tensor);  // else the next could have its address, and be taken for it
  std::string key;
  const bool is_plain = !tensor.is_conj() && !tensor.is_neg() && tensor.numel() > 0;
  if (is_plain && is_written_whole(storage_of(tensor))) {
    std::string& known = whole_[storage_of(tensor)];
    if (known.empty()) known = add_storage(bytes_of(tensor));
    key = known;
  } else {
    std::string& known =
        apart_[c10::str(storage_of(tensor), " ", tensor.storage_offset(), tensor.sizes(),
                        tensor.strides(), tensor.scalar_type(), tensor.is_conj(), tensor.is_neg())];
    tensor = tensor.cpu().resolve_conj().resolve_neg().clone();
    if (is_expanded(tensor)) tensor = tensor.contiguous();
    if (known.empty() || tensor.numel() == 0) known = add_storage(bytes_of(tensor));
    key = known;
  }
  try {
    values_.tensor({.dtype = safetensors_dtype(tensor.scalar_type()),
                    .key = key,
                    .storage_bytes = tensor.storage().nbytes(),
                    .offset = tensor.storage_offset(),
                    .shape = tensor.sizes().vec(),
                    .strides = tensor.strides().vec()});
  } catch (const FormatError& error) {
    throw FormatError("tensor '" + name + "': " + error.what());
  }
}

void TorchFileWriter::finish(const std::string& path) {
  const std::string temporary = path + ".tmp";
  FileDescriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) throw_errno("write", temporary);
  int error = 0;
  const auto write = [&](const void* data, size_t bytes) -> size_t {
    size_t done = 0;
    while (done < bytes && error == 0) {
      const ssize_t some = ::write(fd.get(), static_cast<const char*>(data) + done, bytes - done);
      if (some > 0) done += static_cast<size_t>(some);
      if (some < 0 && errno != EINTR) error = errno;
    }
    return bytes;  // also after an error: the archive's destructor writes, and must not throw
  };
  try {
    caffe2::serialize::PyTorchStreamWriter archive(write);
    const std::string values = values_.finish();
    archive.writeRecord("data.pkl", values.data(), values.size());
    archive.writeRecord(".format_version", kFormatVersion, 1);
    archive.writeRecord("byteorder", "little", 6);
    for (size_t i = 0; i < storages_.size(); ++i) {
      archive.writeRecord("data/" + std::to_string(i), storages_[i].const_data_ptr(),
                          storages_[i].nbytes());
    }
    archive.writeEndOfFile();
  } catch (const std::exception&) {
    if (error == 0) error = EIO;
  }
  if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    errno = error;
    throw_errno("write", path);
  }
  fd.reset();
  try {
    move_into_place(temporary, path);
  } catch (const std::exception&) {
    ::unlink(temporary.c_str());
    throw;
  }
  fsync_directory(parent_of(path));
}

}  // namespace muster
