// The joint protocol of saving and loading; see checkpoint.h. Every stage ends with an agreement,
// so that a rank whose disk is full fails the save on all ranks instead of leaving them waiting.
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "base/files.h"
#include "muster/errors.h"
#include "checkpoint/safetensors_file.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr char kOwnPrefix[] = "rank/";  // names of tensors that belong to one rank alone

// Runs a step that may fail and returns its error text; empty when it succeeded.
template <typename Step>
std::string error_of(Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.empty() ? "unknown error" : text;
  }
  return "";
}

int64_t wall_time_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The first rank of each node, by what the ranks say of themselves.
struct Places {
  std::vector<int> nodes;
  int first_rank_of(int node) const {
    return static_cast<int>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
  }
};

Places gather_places(const ProcessGroupPtr& group, const Topology& topology) {
  Places places;
  for (const std::string& node : all_gather_strings(group, std::to_string(topology.node_rank))) {
    places.nodes.push_back(std::stoi(node));
  }
  return places;
}

at::Tensor read_whole(const std::string& directory, const std::string& name,
                      const ManifestTensor& description,
                      std::map<std::string, SafetensorsReader>& readers) {
  at::Tensor whole;
  int64_t covered = 0;
  for (const TensorPiece& piece : description.pieces) {
    const std::string path = directory + "/" + piece.file;
    const SafetensorsReader& reader = readers.try_emplace(piece.file, path).first->second;
    at::Tensor part = reader.tensor(piece.tensor);
    if (part.sizes() != at::IntArrayRef(piece.sizes) ||
        piece.offsets.size() != description.shape.size() ||
        piece.sizes.size() != description.shape.size()) {
      throw FormatError(path + ": tensor '" + piece.tensor + "' is not the piece of '" + name +
                        "' that the manifest describes");
    }
    if (piece.sizes == description.shape) return part;
    if (!whole.defined()) whole = at::zeros(description.shape, part.options());
    at::Tensor target = whole;
    for (size_t d = 0; d < piece.sizes.size(); ++d) {
      target = target.narrow(static_cast<int64_t>(d), piece.offsets[d], piece.sizes[d]);
    }
    target.copy_(part);
    covered += part.numel();
  }
  if (!whole.defined() || covered != whole.numel()) {
    throw FormatError(directory + ": the pieces of '" + name + "' do not make a whole tensor");
  }
  return whole;
}

// Rank 0 decides; the answer is a path, empty for a fresh start.
std::string choose_source(const std::string& resume_from, const std::string& directory) {
  if (!resume_from.empty()) return resume_from;
  if (directory.empty()) return "";
  std::vector<int64_t> steps = list_steps(directory);
  std::reverse(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    const std::string path = directory + "/" + step_name(step);
    const std::string error = error_of([&] { read_checkpoint(path, /*verify_hashes=*/true); });
    if (error.empty()) return path;
    std::fprintf(stderr, "muster: passing over a checkpoint: %s\n", error.c_str());
  }
  return "";
}

LoadedCheckpoint read_all(const std::string& path, const Topology& topology, bool verify_hashes) {
  LoadedCheckpoint loaded;
  loaded.path = path;
  loaded.manifest = read_checkpoint(path, verify_hashes);
  std::map<std::string, SafetensorsReader> readers;
  for (const auto& [name, description] : loaded.manifest.tensors) {
    loaded.global[name] = read_whole(path, name, description, readers);
  }
  if (loaded.manifest.world_size != topology.world_size) return loaded;
  const std::string file = shard_name(topology.rank, topology.world_size);
  if (!path_exists(path + "/" + file)) return loaded;
  const SafetensorsReader& reader = readers.try_emplace(file, path + "/" + file).first->second;
  for (const std::string& name : reader.names()) {
    if (!name.starts_with(kOwnPrefix)) continue;
    loaded.own[name.substr(sizeof(kOwnPrefix) - 1)] = reader.tensor(name);
  }
  return loaded;
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options, ProcessGroupPtr group)
    : options_(std::move(options)), group_(std::move(group)) {}

void CheckpointWriter::stage(const char* name) const {
  if (options_.on_stage) options_.on_stage(name);
}

// Nodes may share the directory (a network file system) or not (local disks, Muster's workers):
// rank 0 puts a token file there, and who sees it shares with rank 0.
void CheckpointWriter::find_publisher() {
  const Topology& topology = options_.topology;
  const Places places = gather_places(group_, topology);
  std::string token;
  const std::string error = error_of([&] {
    make_directories(options_.directory);
    if (topology.rank != 0) return;
    token =
        ".muster-" + std::to_string(std::random_device()()) + "-" + std::to_string(wall_time_ms());
    write_file_durably(options_.directory + "/" + token, "");
  });
  agree_on_success(group_, error);
  token = broadcast_string(group_, token);
  const bool shares = path_exists(options_.directory + "/" + token);
  publisher_ = shares ? 0 : places.first_rank_of(topology.node_rank);
  barrier(group_);  // all have looked
  if (topology.rank == 0) remove_tree(options_.directory + "/" + token);
  if (topology.rank == publisher_) remove_unfinished(options_.directory);
  barrier(group_);
}

void CheckpointWriter::prepare(const std::string& temporary) {
  if (options_.topology.rank != publisher_) return;
  remove_tree(temporary);
  make_directories(temporary);
}

// Writes this rank's shard, if it has something to say, and returns a report for rank 0 as JSON.
std::string CheckpointWriter::write_shard(const std::string& temporary,
                                          const CheckpointContent& content) {
  const Topology& topology = options_.topology;
  Json report = {{"node", topology.node_rank}, {"tensors", Json::object()}};
  TensorMap tensors = content.global;
  for (const auto& [name, tensor] : content.own) tensors[kOwnPrefix + name] = tensor;
  if (tensors.empty()) return report.dump();
  const std::string file = shard_name(topology.rank, topology.world_size);
  const SavedFile saved =
      write_safetensors(temporary + "/" + file, tensors,
                        {{"format", "pt"}, {"muster.step", std::to_string(content.manifest.step)}});
  report["file"] = file;
  report["bytes"] = saved.bytes;
  report["sha256"] = saved.sha256;
  for (const auto& [name, tensor] : content.global) {
    report["tensors"][name] = {{"dtype", safetensors_dtype(tensor.scalar_type())},
                               {"shape", tensor.sizes().vec()}};
  }
  return report.dump();
}

// The part file of each node, by its first rank; the manifest, by rank 0.
void CheckpointWriter::write_lists(const std::string& temporary, const Manifest& base,
                                   const std::vector<std::string>& reports) {
  const Topology& topology = options_.topology;
  Manifest manifest = base;
  std::vector<ShardFile> own_part;
  int first_of_node = -1;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const Json report = Json::parse(reports[rank]);
    const int node = report.at("node").get<int>();
    if (node == topology.node_rank && first_of_node < 0) first_of_node = static_cast<int>(rank);
    if (!report.contains("file")) continue;
    const ShardFile shard{report.at("file").get<std::string>(), report.at("bytes").get<uint64_t>(),
                          report.at("sha256").get<std::string>(), static_cast<int>(rank), node};
    manifest.shards.push_back(shard);
    if (node == topology.node_rank) own_part.push_back(shard);
    for (const auto& [name, tensor] : report.at("tensors").items()) {
      const auto shape = tensor.at("shape").get<std::vector<int64_t>>();
      manifest.tensors[name] = {tensor.at("dtype").get<std::string>(),
                                shape,
                                {{shard.file, name, std::vector<int64_t>(shape.size(), 0), shape}}};
    }
  }
  if (topology.rank == first_of_node) {
    write_file_durably(temporary + "/" + part_name(topology.node_rank, topology.node_count),
                       format_part(topology.node_rank, topology.node_count, base.step, own_part));
  }
  stage("parts");
  if (topology.rank != 0) return;
  manifest.world_size = topology.world_size;
  manifest.node_count = topology.node_count;
  manifest.created_ms = wall_time_ms();
  write_file_durably(temporary + "/" + kManifestName, format_manifest(manifest));
  stage("manifest");
}

std::string CheckpointWriter::save(const CheckpointContent& content, int64_t removable_up_to) {
  if (publisher_ < 0) find_publisher();
  const bool publishes = options_.topology.rank == publisher_;
  const std::string path = options_.directory + "/" + step_name(content.manifest.step);
  const std::string temporary = path + ".tmp";
  try {
    agree_on_success(group_, error_of([&] { prepare(temporary); }));
    stage("prepared");
    std::string report;
    const std::string shard_error = error_of([&] { report = write_shard(temporary, content); });
    stage("shard");
    agree_on_success(group_, shard_error);
    const std::vector<std::string> reports = all_gather_strings(group_, report);
    agree_on_success(group_, error_of([&] { write_lists(temporary, content.manifest, reports); }));
    agree_on_success(group_, error_of([&] {
                       if (publishes) publish_directory(temporary, path);
                     }));
  } catch (const CheckpointError&) {
    if (publishes) error_of([&] { remove_tree(temporary); });
    throw;
  }
  stage("published");
  const std::string error = error_of([&] {
    if (publishes) remove_old_steps(options_.directory, options_.keep, removable_up_to);
  });
  // The checkpoint is there; that an older one could not be removed must not end the run.
  if (!error.empty()) std::fprintf(stderr, "muster: %s\n", error.c_str());
  return path;
}

std::optional<LoadedCheckpoint> load_checkpoint(const std::string& resume_from,
                                                const std::string& directory,
                                                const Topology& topology,
                                                const ProcessGroupPtr& group) {
  std::string path;
  const std::string choice_error = error_of([&] {
    if (topology.rank == 0) path = choose_source(resume_from, directory);
  });
  agree_on_success(group, choice_error);
  path = broadcast_string(group, path);
  if (path.empty()) return std::nullopt;
  LoadedCheckpoint loaded;
  // One rank per node reads every byte for the hashes; the others read only what they load.
  const bool verify = topology.local_rank == 0;
  std::string error = error_of([&] { loaded = read_all(path, topology, verify); });
  if (!error.empty() && topology.node_rank > 0 && !path_exists(path)) {
    error += " (rank 0 sees it: put the checkpoint directory on a file system that all nodes " +
             std::string("share, or run under Muster, which brings it to every node)");
  }
  agree_on_success(group, error);
  return loaded;
}

}  // namespace muster
