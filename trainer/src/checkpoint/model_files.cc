// Saving weights in Hugging Face's layout, and the files of a model as a source; see model_files.h.
#include "muster/model_files.h"

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
#include "muster/errors.h"

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

// What goes into the files: every tensor once, and for each further name of one the name it has.
struct Weights {
  std::vector<NamedTensor> tensors;
  std::map<std::string, StringMap> aliases;  // written name -> {alias, written name}
};

Weights without_ties(const std::vector<NamedTensor>& state) {
  Weights weights;
  std::map<TensorIdentity, std::string> written;
  for (const NamedTensor& named : state) {
    require_dense(named.name, named.tensor);
    if (named.tensor.numel() > 0) {
      const auto [first, is_new] = written.try_emplace(identity_of(named.tensor), named.name);
      if (!is_new) {
        weights.aliases[first->second][named.name] = first->second;
        continue;
      }
    }
    weights.tensors.push_back(named);
  }
  return weights;
}

// The files of a save under their temporary names; removes what has not taken its place.
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
    const std::string path = directory_ + "/" + name;
    if (::rename(temporary(name).c_str(), path.c_str()) != 0) throw_errno("rename", path);
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

// What an earlier save left that this one does not have.
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

// Writes the shards under temporary names and returns their final ones with what they hold.
WeightMap write_shards(const Weights& weights, uint64_t most_bytes, PendingFiles& files,
                       SavedModel& saved) {
  std::vector<NamedSize> sizes;
  TensorMap by_name;
  for (const NamedTensor& named : weights.tensors) {
    sizes.push_back({named.name, named.tensor.nbytes()});
    saved.total_size += named.tensor.nbytes();
    by_name[named.name] = named.tensor;
  }
  const auto shards = split_into_shards(sizes, most_bytes);
  WeightMap weight_map;
  for (size_t i = 0; i < std::max<size_t>(shards.size(), 1); ++i) {
    const std::string file = shards.size() > 1 ? model_shard_name(i, shards.size()) : kModelFile;
    TensorMap tensors;
    StringMap metadata = {{"format", "pt"}};
    for (const std::string& name : i < shards.size() ? shards[i] : std::vector<std::string>{}) {
      tensors[name] = by_name.at(name);
      weight_map[name] = file;
      const auto aliases = weights.aliases.find(name);
      if (aliases != weights.aliases.end()) {
        metadata.insert(aliases->second.begin(), aliases->second.end());
      }
    }
    write_safetensors(files.add(file), tensors, metadata);
    saved.files.push_back(file);
  }
  return weight_map;
}

SavedModel save_state(const std::vector<NamedTensor>& state, const std::string& directory,
                      const SaveModelOptions& options) {
  const uint64_t most_bytes = parse_size(options.max_shard_size);
  const Weights weights = without_ties(state);
  make_directories(directory);
  PendingFiles files(directory);
  SavedModel saved;
  const WeightMap weight_map = write_shards(weights, most_bytes, files, saved);
  const std::vector<std::string> shards = saved.files;
  const std::string index = directory + "/" + kModelIndexFile;
  if (shards.size() > 1) {
    // From here until the new index stands, readers find no model rather than a mixed one.
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
  return saved;
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
                              " is not understood: write a number of bytes above 0, or one with "
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

}  // namespace muster
