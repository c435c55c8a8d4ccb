// Saves weights in Hugging Face's layout, and reads a model's files as a source; see model_files.h.
#include "muster/checkpoint/model_files.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "base/files.h"
#include "checkpoint/model_index.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/streamed_model.h"
#include "checkpoint/tensor_pieces.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// In the order of Python's state_dict: a module's parameters, its buffers, then its children.
void append_state(const torch::nn::Module& module, const std::string& prefix,
                  std::vector<NamedTensor>& state) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    state.push_back({prefix + item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    state.push_back({prefix + item.key(), item.value()});
  }
  for (const auto& child : module.named_children()) {
    append_state(*child.value(), prefix + child.key() + ".", state);
  }
}

// What goes into the files: every tensor once, in model order, and a map from further names to the
// name in the files.
struct Weights {
  std::vector<TensorOutline> tensors;
  StringMap aliases;
  TensorMap values;
};

Weights without_ties(const std::vector<NamedTensor>& state) {
  Weights weights;
  std::map<TensorIdentity, std::string> written;
  for (const auto& [name, tensor] : state) {
    require_dense(name, tensor);
    if (tensor.numel() > 0) {
      const auto [first, is_new] = written.try_emplace(identity_of(tensor), name);
      if (!is_new && name != kFormatKey) {
        weights.aliases[name] = first->second;
        continue;
      }
    }
    weights.tensors.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    weights.values[name] = tensor;
  }
  return weights;
}

// The temporary files of a save; the destructor removes those that were not renamed into place.
class PendingFiles {
 public:
  explicit PendingFiles(std::string directory) : directory_(std::move(directory)) {}
  ~PendingFiles() {
    for (const std::string& name : pending_) ::remove(temporary(name).c_str());
  }
  std::string add(const std::string& name) {
    pending_.push_back(name);
    return temporary(name);
  }
  void publish(const std::string& name) {
    move_into_place(temporary(name), directory_ + "/" + name);
    std::erase(pending_, name);
  }

 private:
  std::string temporary(const std::string& name) const { return directory_ + "/" + name + ".tmp"; }

  std::string directory_;
  std::vector<std::string> pending_;
};

void remove_if_there(const std::string& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) throw CheckpointError("cannot remove " + path + ": " + error.message());
}

// Removes files of an earlier save that are not part of this one.
void remove_stale(const std::string& directory, const std::vector<std::string>& current) {
  std::vector<std::string> stale;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name == kModelFile || name == kModelIndexFile || is_model_shard_name(name);
    if (ours && std::find(current.begin(), current.end(), name) == current.end()) {
      stale.push_back(entry.path());
    }
  }
  for (const std::string& path : stale) remove_if_there(path);
}

uint64_t bytes_of(const TensorOutline& tensor) {
  return static_cast<uint64_t>(count_elements(tensor.shape, "tensor '" + tensor.name + "'")) *
         c10::elementSize(tensor.dtype);
}

// The tensors of each file, in file order.
std::vector<std::vector<TensorOutline>> plan_files(const std::vector<TensorOutline>& tensors,
                                                   const SaveModelOptions& options) {
  const uint64_t most_bytes = parse_size(options.max_shard_size);
  std::vector<NamedSize> sizes;
  std::map<std::string, const TensorOutline*> by_name;
  for (const TensorOutline& tensor : tensors) {
    safetensors_dtype(tensor.dtype);  // throws before anything is written
    sizes.push_back({tensor.name, bytes_of(tensor)});
    if (!by_name.emplace(tensor.name, &tensor).second) {
      throw std::invalid_argument("save_model: tensor '" + tensor.name + "' appears twice");
    }
  }
  std::vector<std::vector<TensorOutline>> files;
  for (const std::vector<std::string>& shard : split_into_shards(sizes, most_bytes)) {
    std::vector<TensorOutline>& file = files.emplace_back();
    for (const std::string& name : shard) file.push_back(*by_name.at(name));
    sort_for_file(file);
  }
  if (files.empty()) files.emplace_back();  // a model without tensors still gets a file
  return files;
}

// Writes the files under temporary names; returns the final name of each tensor's file.
WeightMap write_files(const std::vector<std::vector<TensorOutline>>& plan, const StringMap& aliases,
                      const FetchTensor& fetch, PendingFiles& files, SavedModel& saved) {
  WeightMap weight_map;
  for (size_t i = 0; i < plan.size(); ++i) {
    const std::string file = plan.size() > 1 ? model_shard_name(i, plan.size()) : kModelFile;
    for (const TensorOutline& tensor : plan[i]) {
      weight_map[tensor.name] = file;
      saved.total_size += bytes_of(tensor);
    }
    StringMap metadata = {{kFormatKey, "pt"}};
    for (const auto& [alias, name] : aliases) {
      const auto written = weight_map.find(name);
      if (written != weight_map.end() && written->second == file) metadata[alias] = name;
    }
    write_safetensors(files.add(file), plan[i], metadata, fetch);
    saved.files.push_back(file);
  }
  return weight_map;
}

// Renames the files into place, the index last.
void publish_files(const WeightMap& weight_map, const std::string& directory, PendingFiles& files,
                   SavedModel& saved) {
  const std::vector<std::string> shards = saved.files;
  const std::string index = directory + "/" + kModelIndexFile;
  if (shards.size() > 1) {
    // From here until the new index is in place, readers find no model instead of a mixed one.
    remove_if_there(index);
    remove_if_there(directory + "/" + kModelFile);
    fsync_directory(directory);
    saved.files.push_back(kModelIndexFile);
  }
  for (const std::string& shard : shards) files.publish(shard);
  fsync_directory(directory);
  if (shards.size() > 1) {
    write_file_durably(index, format_model_index(weight_map, saved.total_size));
  }
  remove_stale(directory, saved.files);
}

SavedModel write_model(const std::vector<std::vector<TensorOutline>>& plan,
                       const StringMap& aliases, const std::string& directory,
                       const FetchTensor& fetch) {
  make_directories(directory);
  PendingFiles files(directory);
  SavedModel saved;
  const WeightMap weight_map = write_files(plan, aliases, fetch, files, saved);
  publish_files(weight_map, directory, files, saved);
  return saved;
}

SavedModel save_state(const std::vector<NamedTensor>& state, const std::string& directory,
                      const SaveModelOptions& options) {
  const Weights weights = without_ties(state);
  return write_model(plan_files(weights.tensors, options), weights.aliases, directory,
                     [&](const std::string& name) { return weights.values.at(name); });
}

constexpr struct {
  std::string_view name;
  double bytes;
} kUnits[] = {{"", 1},
              {"B", 1},
              {"KB", 1e3},
              {"MB", 1e6},
              {"GB", 1e9},
              {"TB", 1e12},
              {"KIB", 1024.0},
              {"MIB", 1048576.0},
              {"GIB", 1073741824.0},
              {"TIB", 1099511627776.0}};

}  // namespace

uint64_t parse_size(std::string_view text) {
  const std::string quoted = "'" + std::string(text) + "'";
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  std::string word;
  for (const char c : text) {
    if (!is_space(c)) word += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  double number = 0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), number, std::chars_format::fixed);
  const std::string_view unit(end, static_cast<size_t>(word.data() + word.size() - end));
  for (const auto& known : kUnits) {
    if (error != std::errc() || unit != known.name) continue;
    const double bytes = number * known.bytes;
    if (!(bytes >= 1) || bytes >= 9.2e18) break;
    return static_cast<uint64_t>(bytes);
  }
  throw std::invalid_argument("a size of " + quoted +
                              " is invalid: write a number of bytes above 0, or one with "
                              "KB, MB, GB, TB, KiB, MiB, GiB or TiB, such as '10GB'");
}

SavedModel save_model(const torch::nn::Module& module, const std::string& directory,
                      const SaveModelOptions& options) {
  std::vector<NamedTensor> state;
  append_state(module, "", state);
  return save_state(state, directory, options);
}

SavedModel save_model(const TensorMap& tensors, const std::string& directory,
                      const SaveModelOptions& options) {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : tensors) state.push_back({name, tensor});
  return save_state(state, directory, options);
}

std::vector<std::string> state_names(const torch::nn::Module& module) {
  std::vector<NamedTensor> state;
  append_state(module, "", state);
  std::vector<std::string> names;
  for (NamedTensor& named : state) names.push_back(std::move(named.name));
  return names;
}

std::vector<std::string> streaming_order(const std::vector<TensorOutline>& tensors,
                                         const SaveModelOptions& options) {
  std::vector<std::string> order;
  for (const std::vector<TensorOutline>& file : plan_files(tensors, options)) {
    for (const TensorOutline& tensor : file) order.push_back(tensor.name);
  }
  return order;
}

SavedModel save_model_streamed(const std::vector<TensorOutline>& tensors, const StringMap& aliases,
                               const std::string& directory, const SaveModelOptions& options,
                               const FetchTensor& fetch) {
  const auto plan = plan_files(tensors, options);
  const std::vector<std::string> order = streaming_order(tensors, options);
  for (const auto& [alias, name] : aliases) {
    const auto unknown = [&](const std::string& wanted) {
      return std::find(order.begin(), order.end(), wanted) == order.end();
    };
    if (!unknown(alias) || unknown(name)) {
      throw std::invalid_argument("save_model: '" + alias + "' cannot be another name of '" + name +
                                  "': the first must not be among the tensors, the second must");
    }
  }
  size_t fetched = 0;
  bool fetching = false;
  try {
    return write_model(plan, aliases, directory, [&](const std::string& name) {
      fetching = true;
      ++fetched;
      at::Tensor tensor = fetch(name);
      fetching = false;
      return tensor;
    });
  } catch (...) {
    // The other ranks still take part in gathering the rest.
    while (!fetching && fetched < order.size()) fetch(order[fetched++]);
    throw;
  }
}

}  // namespace muster
