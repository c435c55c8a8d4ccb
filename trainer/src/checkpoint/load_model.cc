// Loads weights from files of other programs into a module; see model_files.h.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "checkpoint/model_index.h"
#include "checkpoint/named_state.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/weight_file.h"
#include "muster/base/errors.h"
#include "muster/checkpoint/model_files.h"

namespace muster {
namespace {

constexpr uint64_t kIndexBytesMax = 256 << 20;
constexpr size_t kNamesShown = 20;

// The open files of one model, and the location of each name.
class ModelFiles {
 public:
  explicit ModelFiles(const std::string& path) {
    const std::string file = std::filesystem::is_directory(path) ? find_in(path) : path;
    if (!file.ends_with(".json")) {
      add(file);
      return;
    }
    const WeightMap index = parse_model_index(read_file(file, kIndexBytesMax), file);
    std::map<std::string, size_t> opened;
    for (const auto& [name, shard] : index) {
      if (opened.contains(shard)) continue;
      opened[shard] = files_.size();
      add(parent_of(file) + "/" + shard);
    }
    for (const auto& [name, shard] : index) {
      const size_t place = opened.at(shard);
      if (!files_[place]->contains(name)) {
        throw FormatError(file + ": '" + name + "' is not in " + shard +
                          ", where the index lists it");
      }
      places_[name].file = place;  // even if two files have the name
    }
  }

  struct Place {
    size_t file = 0;
    bool alias = false;  // another name of tied weights
  };
  const std::map<std::string, Place>& places() const { return places_; }
  const WeightFile& file_of(const std::string& name) const {
    return *files_[places_.at(name).file];
  }

 private:
  static std::string find_in(const std::string& directory) {
    for (const char* name : {kModelFile, kModelIndexFile, kTorchModelFile, kTorchModelIndexFile}) {
      if (path_exists(directory + "/" + name)) return directory + "/" + name;
    }
    for (const char* ending : {".safetensors.index.json", ".safetensors"}) {
      std::vector<std::string> found;
      for (const auto& entry : std::filesystem::directory_iterator(directory)) {
        if (entry.path().filename().string().ends_with(ending)) found.push_back(entry.path());
      }
      if (found.size() == 1) return found[0];
      if (found.size() > 1) {
        throw CheckpointError(directory + " has " + std::to_string(found.size()) + " files *" +
                              ending + ": pass the path of the one to load");
      }
    }
    throw CheckpointError(directory + " has no " + kModelFile + ", no " + kModelIndexFile +
                          ", no other safetensors file and no " + kTorchModelFile);
  }

  void add(const std::string& path) {
    files_.push_back(open_weight_file(path));
    const WeightFile& reader = *files_.back();
    const StringMap aliases = reader.aliases();
    for (const std::string& name : reader.names()) {
      places_.try_emplace(name, Place{files_.size() - 1, aliases.contains(name)});
    }
  }

  std::vector<std::unique_ptr<WeightFile>> files_;
  std::map<std::string, Place> places_;
};

// The model's name for a name in the files; empty: skip it.
std::string model_name(const std::string& name, const LoadModelOptions& options) {
  std::string result = name;
  if (!options.strip_prefix.empty() && result.starts_with(options.strip_prefix)) {
    result = result.substr(options.strip_prefix.size());
  }
  return options.rename ? options.rename(result) : result;
}

// What to read: the model's name -> the name in the files.
using Assignment = std::map<std::string, std::string>;

Assignment compare(const TensorMap& own, const ModelFiles& files, const LoadModelOptions& options,
                   LoadReport& report) {
  Assignment assignment;
  std::set<TensorIdentity> provided;
  std::set<std::string> mismatched;
  for (const auto& [file_name, place] : files.places()) {
    const std::string name = model_name(file_name, options);
    if (name.empty()) continue;
    const auto target = own.find(name);
    if (target == own.end()) {
      if (!place.alias) report.unexpected.push_back(name);
      continue;
    }
    const auto [earlier, is_new] = assignment.try_emplace(name, file_name);
    if (!is_new) {
      throw CheckpointError("'" + earlier->second + "' and '" + file_name +
                            "' of the files would both become '" + name +
                            "' of the model: check strip_prefix and rename");
    }
    const WeightFile& file = files.file_of(file_name);
    LoadReport::Mismatch found{name, file.dtype(file_name),
                               safetensors_dtype(target->second.scalar_type()),
                               file.shape(file_name), target->second.sizes().vec()};
    const bool fits = found.file_shape == found.model_shape &&
                      (options.convert_dtype || found.file_dtype == found.model_dtype);
    if (fits) {
      provided.insert(identity_of(target->second));
      report.loaded.push_back(name);
    } else {
      mismatched.insert(name);
      report.mismatched.push_back(std::move(found));
    }
  }
  for (const std::string& name : mismatched) assignment.erase(name);
  for (const auto& [name, tensor] : own) {
    if (assignment.contains(name) || mismatched.contains(name)) continue;
    // Tied weights may be in the files under only one of their names.
    const bool tied = tensor.numel() > 0 && provided.contains(identity_of(tensor));
    (tied ? report.loaded : report.missing).push_back(name);
  }
  std::sort(report.loaded.begin(), report.loaded.end());
  std::sort(report.unexpected.begin(), report.unexpected.end());
  std::sort(report.mismatched.begin(), report.mismatched.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return assignment;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

// "\n  missing (3): a, b, c"
template <typename Items, typename Text>
void append_line(std::string& text, const char* heading, const Items& items, Text text_of) {
  if (items.empty()) return;
  text += std::string("\n  ") + heading + " (" + std::to_string(items.size()) + "): ";
  for (size_t i = 0; i < items.size() && i < kNamesShown; ++i) {
    text += (i > 0 ? ", " : "") + text_of(items[i]);
  }
  if (items.size() > kNamesShown) {
    text += " and " + std::to_string(items.size() - kNamesShown) + " more";
  }
}

}  // namespace

std::string LoadReport::text() const {
  const size_t wanted = loaded.size() + missing.size() + mismatched.size();
  if (complete()) return "all " + std::to_string(wanted) + " tensors loaded";
  std::string text =
      std::to_string(loaded.size()) + " of the model's " + std::to_string(wanted) + " tensors fit";
  const auto plain = [](const std::string& name) { return name; };
  append_line(text, "missing in the files", missing, plain);
  append_line(text, "unexpected in the files", unexpected, plain);
  append_line(text, "not fitting", mismatched, [](const Mismatch& found) {
    return found.name + " is " + found.file_dtype + " " + shape_text(found.file_shape) +
           " in the files and " + found.model_dtype + " " + shape_text(found.model_shape) +
           " in the model" +
           (found.file_shape == found.model_shape ? " (convert_dtype would convert it)" : "");
  });
  return text;
}

LoadReport load_model(torch::nn::Module& module, const std::string& path,
                      const LoadModelOptions& options) {
  const ModelFiles files(path);
  const TensorMap own = module_tensors(module);
  LoadReport report;
  const Assignment assignment = compare(own, files, options, report);
  if (options.strict && !report.complete()) {
    throw CheckpointError(path + " does not fit the model: " + report.text());
  }
  count_module_load();
  for (const auto& [name, file_name] : assignment) {
    files.file_of(file_name).read_into(file_name, own.at(name));
  }
  return report;
}

TensorMap load_model_tensors(const std::string& path) {
  const ModelFiles files(path);
  std::map<std::pair<const WeightFile*, std::string>, at::Tensor> tied;
  TensorMap tensors;
  for (const auto& [name, place] : files.places()) {
    const WeightFile& file = files.file_of(name);
    const std::string written = place.alias ? file.aliases().at(name) : name;
    at::Tensor& tensor = tied[{&file, written}];
    if (!tensor.defined()) tensor = file.tensor(written);
    tensors[name] = tensor;
  }
  return tensors;
}

}  // namespace muster
