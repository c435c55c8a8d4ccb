#include "checkpoint/torch_file.h"

#include <algorithm>
#include <optional>

#include "base/shown_text.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/strided_place.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kPickleRecord = "/data.pkl";
constexpr size_t kKeysShown = 10;
constexpr char kResave[] = "; fix: in Python, torch.save(torch.load(OLD, weights_only=True), NEW)";

std::string bytes_of(const ByteSource& file, const ZipRecord& record) {
  std::string bytes(record.size, '\0');
  if (record.size > 0) file.read(record.offset, bytes.data(), record.size);
  return bytes;
}

std::string first_bytes(const ByteSource& file, size_t count) {
  return bytes_of(file, {0, std::min<uint64_t>(file.size, count)});
}

}  // namespace

TorchFile::TorchFile(const ByteSource& file, const std::string& where)
    : file_(file), where_(where) {
  if (first_bytes(file, 1) == "\x80")
    throw FormatError(where + " is in the format of before torch 1.6, or a plain pickle" + kResave);
  records_ = read_zip_directory(file, where);
  prefix_ = prefix_of_records();
  check_byte_order();
  const ZipRecord& pickled = records_.at(prefix_ + std::string(kPickleRecord));
  require_stored("data.pkl", pickled);
  if (pickled.size > kPickleBytesMax) throw FormatError(where_ + ": its pickle is too large");
  pickle_ = parse_torch_pickle(bytes_of(file_, pickled), where_);
}

std::string TorchFile::prefix_of_records() const {
  std::optional<std::string> prefix;
  for (const auto& [name, record] : records_) {
    if (!name.ends_with(kPickleRecord)) continue;
    if (prefix.has_value()) throw FormatError(where_ + ": it has two records data.pkl");
    prefix = name.substr(0, name.size() - kPickleRecord.size());
  }
  if (!prefix.has_value()) {
    throw FormatError(where_ + " is a zip file, but not of torch.save: it has no record data.pkl");
  }
  if (records_.contains(*prefix + "/constants.pkl")) {
    throw FormatError(where_ + " is a TorchScript archive" +
                      "; fix: in Python, torch.save(torch.jit.load(OLD).state_dict(), NEW)");
  }
  return *prefix;
}

void TorchFile::require_stored(const std::string& name, const ZipRecord& record) const {
  if (record.is_stored) return;
  throw FormatError(where_ + ": record '" + name +
                    "' is compressed, which torch.save never does; fix: unpack the file, and zip "
                    "it again with -0");
}

void TorchFile::check_byte_order() const {
  const auto order = records_.find(prefix_ + "/byteorder");
  if (order == records_.end() || order->second.size > 16 || !order->second.is_stored) return;
  if (const std::string text = bytes_of(file_, order->second); text != "little")
    throw FormatError(where_ + " was saved on a machine of byte order '" + text + "'" + kResave);
}

// Each dict is looked through once, however often it is referred to.
bool TorchFile::has_tensors(uint32_t index) {
  const PickleValue& value = pickle_.at(index);
  if (value.kind != Kind::dict) return false;
  const auto [known, is_new] = has_tensors_.try_emplace(index, false);
  for (size_t i = 1; is_new && i < value.items.size() && !known->second; i += 2)
    known->second = pickle_.at(value.items[i]).kind == Kind::tensor;
  return known->second;
}

const PickleValue& TorchFile::state_dict() {
  const PickleValue& root = pickle_.at(pickle_.root);
  if (root.kind == Kind::opaque) {
    throw FormatError(
        where_ + " holds an object of class " + shown_text(root.text) + ", not a state_dict" +
        "; fix: in Python, torch.save(torch.load(OLD, weights_only=False).state_dict(), NEW)");
  }
  // First, as a checkpoint may have tensors beside it: the state of a generator.
  for (const char* key : {"state_dict", "model_state_dict", "model"}) {
    if (const auto found = pickle_.find(root, key); found.has_value() && has_tensors(*found))
      return pickle_.at(*found);
  }
  if (has_tensors(pickle_.root)) return root;
  const PickleValue* only = nullptr;
  std::string keys;
  size_t dicts = 0;
  for (size_t i = 0; root.kind == Kind::dict && i + 1 < root.items.size(); i += 2) {
    const PickleValue& key = pickle_.at(root.items[i]);
    if (i / 2 < kKeysShown) keys += (i == 0 ? " '" : ", '") + shown_text(key.text) + "'";
    if (!has_tensors(root.items[i + 1])) continue;
    only = &pickle_.at(root.items[i + 1]);
    ++dicts;
  }
  if (dicts == 1) return *only;
  throw FormatError(where_ + " holds " + (dicts == 0 ? "no" : "more than one") +
                    " dict of tensors; its keys are" + (keys.empty() ? " none" : keys) +
                    "; fix: in Python, torch.save(torch.load(OLD)[KEY], NEW)");
}

TorchTensor TorchFile::place_of(const PickleValue& value, const std::string& name) const {
  const auto fail = [&](const std::string& rule) {
    throw FormatError(where_ + ": tensor '" + shown_text(name) + "' " + rule);
  };
  const PickledTensor& tensor = pickle_.tensors.at(static_cast<size_t>(value.integer));
  const PickleValue& storage = pickle_.at(tensor.storage);
  const auto record = records_.find(prefix_ + "/data/" + storage.text);
  if (record == records_.end()) fail("has no record of its bytes");
  require_stored(record->first, record->second);
  const auto element = static_cast<uint64_t>(safetensors_dtype_bits(value.dtype)) / 8;
  const unsigned __int128 claimed =
      static_cast<unsigned __int128>(static_cast<uint64_t>(storage.integer)) *
      (storage.dtype.empty() ? 1 : element);
  if (claimed != record->second.size) fail("has a storage of another size than its record");
  const StridedPlace in_storage =
      place_strided(tensor.shape, tensor.strides, tensor.offset, element, record->second.size);
  if (in_storage.fault != nullptr) fail(in_storage.fault);
  TorchTensor place{
      .dtype = std::string(value.dtype), .shape = tensor.shape, .strides = tensor.strides};
  if (in_storage.bytes == 0) return place;
  place.begin = record->second.offset + in_storage.first;
  place.bytes = in_storage.bytes;
  return place;
}

bool is_torch_file(const ByteSource& file) {
  const std::string first = first_bytes(file, 9);
  const bool is_safetensors = first.ends_with('{') && first.size() == 9;  // after its length
  return !is_safetensors && (first.starts_with("PK\3\4") || first.starts_with("\x80"));
}

}  // namespace muster
