#include "exported/exported_archive.h"

#include <algorithm>

#include "base/shown_text.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/strided_place.h"
#include "checkpoint/torch_weights.h"
#include "exported/json_reader.h"
#include "exported/program_json.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr std::string_view kFormatRecord = "archive_format";
constexpr char kEvaluation[] = "extra/muster/evaluation.json";
constexpr char kEvaluationConstants[] = "extra/muster/evaluation.pt";
constexpr char kModels[] = "models/";
constexpr char kExportAgain[] =
    "; fix: in Python, torch.export.save(torch.export.export(NET, INPUTS), NEW)";

class ArchiveReader {
 public:
  ArchiveReader(const ByteSource& file, const std::string& where)
      : file_(file), where_(where), records_(read_zip_directory(file, where)) {}

  ExportedArchive read() {
    prefix_ = prefix_of_records();
    check_format();
    const std::string name = model_name();
    ExportedArchive archive;
    archive.weights = payloads("data/weights/", name + "_weights_config.json");
    archive.constants = payloads("data/constants/", name + "_constants_config.json");
    archive.program = program(kModels + name + ".json");
    check_weights(archive.program, archive.weights, archive.constants);
    if (find(kEvaluation) == nullptr) return archive;
    archive.evaluation = program(kEvaluation);
    archive.evaluation_constants = archive.constants;
    if (find(kEvaluationConstants) != nullptr) add_saved(archive.evaluation_constants);
    check_weights(*archive.evaluation, archive.weights, archive.evaluation_constants);
    return archive;
  }

 private:
  [[noreturn]] void fail(const std::string& rule) const { throw FormatError(where_ + rule); }

  std::string prefix_of_records() const {
    for (const auto& [name, record] : records_) {
      if (name.ends_with(kFormatRecord) && (name.size() == kFormatRecord.size() ||
                                            name[name.size() - kFormatRecord.size() - 1] == '/'))
        return name.substr(0, name.size() - kFormatRecord.size());
    }
    const auto ends = [&](std::string_view end) {
      return std::any_of(records_.begin(), records_.end(),
                         [&](const auto& record) { return record.first.ends_with(end); });
    };
    if (ends("constants.pkl"))
      fail(" is a TorchScript archive, not one of torch.export; fix: muster::ScriptModel loads it");
    if (ends("data.pkl"))
      fail(" is a file of torch.save, not of torch.export; fix: muster::load_model reads weights");
    if (ends("serialized_exported_program.json"))
      fail(std::string(" was exported by a torch of before 2.8") + kExportAgain);
    fail(std::string(" is a zip file, but not an archive of torch.export") + kExportAgain);
  }

  const ZipRecord* find(const std::string& name) const {
    const auto found = records_.find(prefix_ + name);
    return found == records_.end() ? nullptr : &found->second;
  }
  const ZipRecord& record(const std::string& name) const {
    const ZipRecord* found = find(name);
    if (found == nullptr) fail(": record '" + shown_text(name) + "' is missing");
    if (!found->is_stored)
      fail(": record '" + shown_text(name) +
           "' is compressed; fix: unpack the file, and zip it again with -0");
    return *found;
  }
  std::string text_of(const std::string& name) const {
    const ZipRecord& place = record(name);
    if (place.size > kProgramBytesMax) {
      fail(": record '" + shown_text(name) + "' has " + std::to_string(place.size) +
           " bytes; at most " + std::to_string(kProgramBytesMax) + " are read");
    }
    std::string text(place.size, '\0');
    if (place.size > 0) file_.read(place.offset, text.data(), text.size());
    return text;
  }

  void check_format() const {
    if (const std::string format = text_of(std::string(kFormatRecord)); format != "pt2")
      fail(": its archive_format is '" + shown_text(format) + "', but must be pt2");
    if (find("archive_version") != nullptr) {
      if (const std::string version = text_of("archive_version"); version != "0")
        fail(": its archive_version is '" + shown_text(version) + "', but 0 is read" +
             kExportAgain);
    }
    if (find("byteorder") == nullptr) return;
    if (const std::string order = text_of("byteorder"); order != "little")
      fail(": its byte order is '" + shown_text(order) + "', but must be little");
  }

  // "model", or the only one.
  std::string model_name() const {
    if (find("models/model.json") != nullptr) return "model";
    std::string name;
    const std::string start = prefix_ + kModels;
    for (const auto& [key, record] : records_) {
      if (!key.starts_with(start) || !key.ends_with(".json")) continue;
      if (!name.empty()) fail(": it holds several models, and none is named 'model'");
      name = key.substr(start.size(), key.size() - start.size() - 5);
    }
    if (!name.empty()) return name;
    fail(std::string(": it holds no exported program (a package of AOTInductor can only be run, "
                     "not trained)") +
         kExportAgain);
  }

  ExportedProgram program(const std::string& name) const {
    return parse_exported_program(text_of(name), where_ + ", " + shown_text(name));
  }

  ExportedWeights payloads(const std::string& directory, const std::string& config) const {
    ExportedWeights weights;
    if (find(directory + config) == nullptr) return weights;
    const std::string where = where_ + ", " + shown_text(directory + config);
    for (const auto& [name, entry] : parse_payloads(text_of(directory + config), where)) {
      // One that no graph needs does no harm.
      if (!entry.is_pickled) weights[name] = weight(name, entry, record(directory + entry.record));
    }
    return weights;
  }

  ExportedWeight weight(const std::string& name, const PayloadEntry& entry,
                        const ZipRecord& storage) const {
    const auto refuse = [&](const std::string& rule) {
      fail(": weight '" + shown_text(name) + "' " + rule);
    };
    const auto number = [&](const SymbolicSize& size) {
      if (!size.is_known || !size.symbol.empty() || size.offset < 0)
        refuse("has a size or stride that is not a number of 0 or more");
      return size.offset;
    };
    ExportedWeight weight{.dtype = entry.tensor.dtype,
                          .storage_offset = number(entry.tensor.storage_offset),
                          .storage_begin = storage.offset,
                          .storage_bytes = storage.size,
                          .is_parameter = entry.is_parameter,
                          .requires_grad = entry.tensor.requires_grad};
    for (const SymbolicSize& size : entry.tensor.sizes) weight.shape.push_back(number(size));
    for (const SymbolicSize& stride : entry.tensor.strides)
      weight.strides.push_back(number(stride));
    if (weight.shape.size() != weight.strides.size()) refuse("has not as many strides as sizes");
    const auto element = static_cast<uint64_t>(safetensors_dtype_bits(weight.dtype)) / 8;
    const StridedPlace place = place_strided(weight.shape, weight.strides, weight.storage_offset,
                                             element, weight.storage_bytes);
    if (place.fault != nullptr) refuse(place.fault);
    return weight;
  }

  // Those of a file of torch.save within the archive.
  void add_saved(ExportedWeights& constants) const {
    const ZipRecord& place = record(kEvaluationConstants);
    const ByteSource inner{place.size, [&](uint64_t offset, char* into, size_t bytes) {
                             file_.read(place.offset + offset, into, bytes);
                           }};
    const TorchWeights saved = read_torch_weights(inner, where_ + ", " + kEvaluationConstants);
    for (const auto& [name, tensor] : saved.tensors) {
      constants[name] = {.dtype = tensor.dtype,
                         .shape = tensor.shape,
                         .strides = tensor.strides,
                         .storage_begin = place.offset + tensor.begin,
                         .storage_bytes = tensor.bytes};
    }
  }

  void check_weights(const ExportedProgram& program, const ExportedWeights& weights,
                     const ExportedWeights& constants) const {
    for (const ProgramInput& input : program.inputs) {
      if (input.kind == ProgramInput::Kind::user) continue;
      const bool is_saved = input.kind == ProgramInput::Kind::parameter ||
                            (input.kind == ProgramInput::Kind::buffer && input.persistent);
      if ((is_saved ? weights : constants).contains(input.name)) continue;
      fail(std::string(": its ") + (is_saved ? "weight" : "constant") + " '" +
           shown_text(input.name) +
           "' is missing, or was saved as a Python object (a subclass of Tensor, a custom object), "
           "which is not read");
    }
  }

  const ByteSource& file_;
  const std::string& where_;
  const ZipRecords records_;
  std::string prefix_;
};

}  // namespace

ExportedArchive read_exported_archive(const ByteSource& file, const std::string& where) {
  return ArchiveReader(file, where).read();
}

}  // namespace muster
