#include "checkpoint/mapped_tensors.h"

#include <sys/mman.h>
#include <torch/types.h>
#include <unistd.h>

#include "checkpoint/safetensors_file.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

// Smaller storages, and those that do not begin where LibTorch wants its memory to begin, are read.
constexpr uint64_t kMappedBytesMin = 64 << 10;
constexpr uint64_t kMappedAlignment = 64;
constexpr uint64_t kCopiesMax = 4;

struct Mapping {
  void* memory;
  size_t bytes;
};

void unmap(void* context) {
  auto* mapping = static_cast<Mapping*>(context);
  ::munmap(mapping->memory, mapping->bytes);
  delete mapping;
}

}  // namespace

MappedTensors::MappedTensors(const SourceFile& file)
    : file_(file), left_(kCopiesMax * file.size()) {}

void MappedTensors::charge(uint64_t bytes) {
  if (bytes > left_) {
    throw FormatError(file_.path() +
                      ": its tensors lie on each other, and together have more than " +
                      std::to_string(kCopiesMax) + " times the file's bytes");
  }
  left_ -= bytes;
}

c10::Storage MappedTensors::storage(uint64_t begin, uint64_t bytes) {
  const auto [place, is_new] = storages_.try_emplace({begin, bytes});
  if (!is_new) return place->second;
  if (bytes < kMappedBytesMin || begin % kMappedAlignment != 0) {
    charge(bytes);
    const at::Tensor memory = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
    read_at(file_.fd(), file_.path(), begin, memory.mutable_data_ptr(), bytes);
    return place->second = memory.storage();
  }
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = begin / page * page;
  const size_t length = bytes + (begin - first);
  // Private: what training writes stays out of the file.
  void* memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, file_.fd().get(),
                        static_cast<off_t>(first));
  if (memory == MAP_FAILED) throw_errno("map", file_.path());
  at::DataPtr data(static_cast<char*>(memory) + (begin - first), new Mapping{memory, length},
                   &unmap, at::kCPU);
  return place->second = c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                                      /*allocator=*/nullptr, /*resizable=*/false);
}

at::Tensor MappedTensors::tensor(const Place& place, const std::string& name) {
  const at::ScalarType type = torch_dtype(place.dtype, file_.path() + ": tensor '" + name + "'");
  if (place.bytes == 0) return at::empty(place.shape, type);
  at::Tensor tensor = at::empty({0}, type);
  tensor.set_(storage(place.begin, place.bytes), place.offset, place.shape, place.strides);
  // Bytes of a file may be neither 0 nor 1.
  if (type != at::kBool) return tensor;
  charge(tensor.nbytes());
  return tensor.view(at::kByte).ne(0);
}

}  // namespace muster
