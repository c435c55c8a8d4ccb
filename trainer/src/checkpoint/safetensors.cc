// Converts between LibTorch tensors and safetensors files; safetensors_header.cc handles the
// header.
#include "muster/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "base/files.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_header.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

struct DtypeName {
  at::ScalarType type;
  const char* name;
};

constexpr DtypeName kDtypeNames[] = {
    {at::kBool, "BOOL"},
    {at::kByte, "U8"},
    {at::kChar, "I8"},
    {at::kFloat8_e5m2, "F8_E5M2"},
    {at::kFloat8_e4m3fn, "F8_E4M3"},
    {at::ScalarType::Float8_e8m0fnu, "F8_E8M0"},
    {at::kFloat8_e4m3fnuz, "F8_E4M3FNUZ"},
    {at::kFloat8_e5m2fnuz, "F8_E5M2FNUZ"},
    {at::kShort, "I16"},
    {at::ScalarType::UInt16, "U16"},
    {at::kHalf, "F16"},
    {at::kBFloat16, "BF16"},
    {at::kInt, "I32"},
    {at::ScalarType::UInt32, "U32"},
    {at::kFloat, "F32"},
    {at::kComplexFloat, "C64"},
    {at::kDouble, "F64"},
    {at::kLong, "I64"},
    {at::ScalarType::UInt64, "U64"},
};

// The index in the table, which has the order of the format's own list: by element size.
ptrdiff_t dtype_rank(at::ScalarType type) {
  return std::find_if(std::begin(kDtypeNames), std::end(kDtypeNames),
                      [&](const DtypeName& known) { return known.type == type; }) -
         std::begin(kDtypeNames);
}

// The tensors to write, each memory block once; further names go into the metadata.
std::vector<TensorOutline> without_aliases(const TensorMap& tensors, StringMap& metadata) {
  std::map<TensorIdentity, std::string> written;
  std::vector<TensorOutline> outlines;
  for (const auto& [name, tensor] : tensors) {
    require_dense(name, tensor);
    if (tensor.numel() > 0) {
      const auto [first, is_new] = written.try_emplace(identity_of(tensor), name);
      if (!is_new && !metadata.contains(name)) {
        metadata[name] = first->second;
        continue;
      }
    }
    outlines.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  return outlines;
}

}  // namespace

std::string safetensors_dtype(at::ScalarType type) {
  for (const DtypeName& known : kDtypeNames) {
    if (known.type == type) return known.name;
  }
  throw FormatError(std::string("safetensors has no dtype for ") + c10::toString(type) +
                    ": convert the tensor first");
}

TensorIdentity identity_of(const at::Tensor& tensor) {
  return {tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset(), tensor.scalar_type(),
          tensor.sizes().vec(), tensor.strides().vec()};
}

void require_dense(const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_quantized()) return;
  throw FormatError("tensor '" + name + "' is undefined, sparse or quantized: safetensors " +
                    "supports dense tensors only");
}

at::ScalarType torch_dtype(const std::string& dtype, const std::string& where) {
  for (const DtypeName& known : kDtypeNames) {
    if (dtype == known.name) return known.type;
  }
  throw FormatError(where + " has dtype " + dtype + ", which LibTorch does not have");
}

void sort_for_file(std::vector<TensorOutline>& outlines) {
  // The dtypes in the order of Python's writer, so that the files are the same.
  std::sort(outlines.begin(), outlines.end(), [](const TensorOutline& a, const TensorOutline& b) {
    const ptrdiff_t rank_a = dtype_rank(a.dtype), rank_b = dtype_rank(b.dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
}

void require_range(const std::string& name, int64_t elements, int64_t begin,
                   const at::Tensor& target) {
  if (target.dim() == 1 && begin >= 0 && begin <= elements && target.numel() <= elements - begin) {
    return;
  }
  throw std::invalid_argument("cannot read '" + name + "', which has " + std::to_string(elements) +
                              " elements, from element " + std::to_string(begin) +
                              " into a target of shape " + c10::str(target.sizes()) +
                              ": it must be 1-D and not extend past the end");
}

SavedFile write_safetensors(const std::string& path, std::vector<TensorOutline> outlines,
                            const StringMap& metadata, const FetchTensor& fetch) {
  sort_for_file(outlines);
  std::vector<TensorEntry> entries;
  for (const TensorOutline& outline : outlines) {
    TensorEntry& entry = entries.emplace_back();
    entry.name = outline.name;
    entry.dtype = safetensors_dtype(outline.dtype);
    entry.shape = outline.shape;
  }
  const std::string header = format_safetensors_header(entries, metadata);
  HashingFile file(path);
  file.write(header.data(), header.size());
  for (const TensorOutline& outline : outlines) {
    const at::Tensor tensor = fetch(outline.name);
    require_dense(outline.name, tensor);
    if (tensor.scalar_type() != outline.dtype || tensor.sizes() != at::IntArrayRef(outline.shape)) {
      throw FormatError("tensor '" + outline.name + "' is " + c10::toString(tensor.scalar_type()) +
                        " " + c10::str(tensor.sizes()) + ", but was announced as " +
                        c10::toString(outline.dtype) + " " +
                        c10::str(at::IntArrayRef(outline.shape)));
    }
    // Makes one tensor at a time contiguous, so that the whole model is never copied at once.
    const at::Tensor bytes = tensor.detach().to(at::kCPU).contiguous().resolve_conj().resolve_neg();
    file.write(bytes.const_data_ptr(), bytes.nbytes());
  }
  file.finish();
  return {file.bytes(), file.sha256()};
}

SavedFile write_safetensors(const std::string& path, const TensorMap& tensors,
                            const StringMap& metadata) {
  StringMap all_metadata = metadata;
  std::vector<TensorOutline> outlines = without_aliases(tensors, all_metadata);
  return write_safetensors(path, std::move(outlines), all_metadata,
                           [&](const std::string& name) { return tensors.at(name); });
}

SavedFile save_safetensors(const std::string& path, const TensorMap& tensors,
                           const StringMap& metadata) {
  const std::string temporary = path + ".tmp";
  const SavedFile saved = write_safetensors(temporary, tensors, metadata);
  move_into_place(temporary, path);
  fsync_directory(parent_of(path));
  return saved;
}

struct SafetensorsReader::State {
  std::string path;
  FileDescriptor fd;
  uint64_t data_start = 0;
  std::map<std::string, TensorEntry> entries;
  StringMap metadata;

  // Reads elements from `begin` on into a contiguous CPU tensor of the file's dtype, whose size was
  // checked.
  void read_elements(const TensorEntry& entry, int64_t begin, const at::Tensor& target) const {
    const uint64_t skip = static_cast<uint64_t>(begin) * target.element_size();
    const uint64_t bytes = entry.end - entry.begin;
    if (skip > bytes || target.nbytes() > bytes - skip) {
      throw FormatError(path + ": the shape of tensor '" + entry.name +
                        "' does not match its bytes");
    }
    if (target.nbytes() > 0) {
      read_at(fd, path, data_start + entry.begin + skip, target.mutable_data_ptr(),
              target.nbytes());
    }
  }

  // The same, into a target of any device and dtype.
  void read_converting(const TensorEntry& entry, int64_t begin, const at::Tensor& target) const {
    const at::ScalarType type = type_of(entry);
    const bool straight = target.is_cpu() && target.is_contiguous() && !target.is_conj() &&
                          !target.is_neg() && target.scalar_type() == type;
    if (straight) {
      read_elements(entry, begin, target);
      target.unsafeGetTensorImpl()->bump_version();  // as an in-place operation would
      return;
    }
    const torch::NoGradGuard no_grad;
    const at::Tensor read = at::empty(target.sizes(), at::TensorOptions().dtype(type));
    read_elements(entry, begin, read);
    at::Tensor(target).copy_(read);
  }

  at::ScalarType type_of(const TensorEntry& entry) const {
    return torch_dtype(entry.dtype, path + ": tensor '" + entry.name + "'");
  }

  const TensorEntry& entry(const std::string& name) const {
    auto found = entries.find(name);
    if (found == entries.end()) {
      const auto alias = metadata.find(name);
      if (alias != metadata.end()) found = entries.find(alias->second);
    }
    if (found == entries.end()) throw FormatError(path + " has no tensor '" + name + "'");
    return found->second;
  }
};

SafetensorsReader::SafetensorsReader(const std::string& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!state_->fd.valid() || ::fstat(state_->fd.get(), &status) != 0) throw_errno("read", path);
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  if (file_bytes < 8)
    throw FormatError(path + ": " + std::to_string(file_bytes) + " bytes are too few for a header");
  unsigned char prefix[8];
  read_at(state_->fd, path, 0, prefix, sizeof(prefix));
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i) header_bytes = header_bytes << 8 | prefix[i];
  if (header_bytes > kSafetensorsHeaderBytesMax || header_bytes > file_bytes - 8) {
    throw FormatError(path + ": the header claims " + std::to_string(header_bytes) +
                      " bytes, more than the file or the format allows");
  }
  std::string json(header_bytes, '\0');
  read_at(state_->fd, path, 8, json.data(), header_bytes);
  state_->data_start = 8 + header_bytes;
  SafetensorsHeader header = parse_safetensors_header(json, file_bytes - state_->data_start, path);
  state_->metadata = std::move(header.metadata);
  for (TensorEntry& entry : header.tensors) {
    const std::string name = entry.name;
    state_->entries.emplace(name, std::move(entry));
  }
}

SafetensorsReader::~SafetensorsReader() = default;
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;

StringMap SafetensorsReader::aliases() const {
  StringMap aliases;
  for (const auto& [alias, name] : state_->metadata) {
    if (state_->entries.contains(name) && !state_->entries.contains(alias)) aliases[alias] = name;
  }
  return aliases;
}

std::vector<std::string> SafetensorsReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : state_->entries) names.push_back(name);
  for (const auto& [alias, name] : aliases()) names.push_back(alias);
  std::sort(names.begin(), names.end());
  return names;
}

const StringMap& SafetensorsReader::metadata() const { return state_->metadata; }

bool SafetensorsReader::contains(const std::string& name) const {
  if (state_->entries.contains(name)) return true;
  const auto alias = state_->metadata.find(name);
  return alias != state_->metadata.end() && state_->entries.contains(alias->second);
}

std::vector<int64_t> SafetensorsReader::shape(const std::string& name) const {
  return state_->entry(name).shape;
}

std::string SafetensorsReader::dtype(const std::string& name) const {
  return state_->entry(name).dtype;
}

at::Tensor SafetensorsReader::tensor(const std::string& name) const {
  const TensorEntry& entry = state_->entry(name);
  at::Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(state_->type_of(entry)));
  state_->read_elements(entry, 0, tensor);
  return tensor;
}

void SafetensorsReader::read_into(const std::string& name, const at::Tensor& target) const {
  const TensorEntry& entry = state_->entry(name);
  if (target.sizes() != at::IntArrayRef(entry.shape)) {
    throw FormatError(state_->path + ": tensor '" + name + "' does not have its target's shape");
  }
  state_->read_converting(entry, 0, target);
}

void SafetensorsReader::read_range(const std::string& name, int64_t begin,
                                   const at::Tensor& target) const {
  const TensorEntry& entry = state_->entry(name);
  require_range(name, c10::multiply_integers(entry.shape), begin, target);
  state_->read_converting(entry, begin, target);
}

TensorMap load_safetensors(const std::string& path) {
  const SafetensorsReader reader(path);
  TensorMap tensors;
  for (const std::string& name : reader.names()) {
    const auto alias = reader.metadata().find(name);
    const bool is_alias = alias != reader.metadata().end() && tensors.contains(alias->second);
    tensors[name] = is_alias ? tensors[alias->second] : reader.tensor(name);
  }
  return tensors;
}

}  // namespace muster
