// The collective protocol of saving; see checkpoint.h. The ranks agree on success after every
// stage, so that a full disk on one rank fails the save on all ranks instead of leaving them
// waiting.
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "base/files.h"
#include "checkpoint/joint_step.h"
#include "checkpoint/rank_report.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/tensor_pieces.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

int64_t wall_time_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The first rank of each node, as reported by the ranks.
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

using PieceMap = std::map<std::string, ManifestTensor>;  // one piece each

void add_whole(const std::string& name, const at::Tensor& tensor, const std::string& file,
               TensorMap& tensors, PieceMap& pieces) {
  require_dense(name, tensor);
  const std::vector<int64_t> shape = tensor.sizes().vec();
  tensors[name] = tensor;
  pieces[name] = {safetensors_dtype(tensor.scalar_type()),
                  shape,
                  {{file, name, std::vector<int64_t>(shape.size(), 0), shape}}};
}

// A shard that covers the whole tensor is written with the tensor's shape, for readers of the
// single file. A shard without elements is omitted, unless the tensor has none.
void add_shard(const std::string& name, const TensorShard& shard, const std::string& file,
               TensorMap& tensors, PieceMap& pieces) {
  require_dense(name, shard.values);
  const int64_t elements = count_elements(shard.shape, "the shard of '" + name + "'");
  const int64_t count = shard.values.numel();
  if (shard.values.dim() > 1 || shard.begin < 0 || shard.begin > elements ||
      count > elements - shard.begin) {
    throw CheckpointError("the shard of '" + name + "' has shape " +
                          c10::str(shard.values.sizes()) + " and begins at element " +
                          std::to_string(shard.begin) + " of " + std::to_string(elements) +
                          ": it must be 1-D and lie inside the tensor");
  }
  if (tensors.contains(name)) {
    throw CheckpointError("'" + name + "' is both a global tensor and a shard");
  }
  if (count == elements) {
    add_whole(name, shard.values.detach().view(shard.shape), file, tensors, pieces);
  } else if (count > 0) {
    tensors[name] = shard.values;
    pieces[name] = {safetensors_dtype(shard.values.scalar_type()),
                    shard.shape,
                    {{file, name, {shard.begin}, {count}}}};
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options, ProcessGroupPtr group)
    : options_(std::move(options)), group_(std::move(group)), retention_(options_.policy) {}

void CheckpointWriter::stage(const char* name) const {
  if (options_.on_stage) options_.on_stage(name);
}

// Nodes may share the directory (a network file system) or not (local disks, Muster's workers):
// rank 0 writes a token file there, and the ranks that see it share its directory.
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

// Rank 0's metrics, on all ranks: the part files of other nodes contain them too.
std::map<std::string, double> CheckpointWriter::agreed_metrics(
    const std::map<std::string, double>& own) const {
  Manifest carrier;
  carrier.metrics = own;
  return parse_manifest(broadcast_string(group_, format_manifest(carrier)), "metrics").metrics;
}

void CheckpointWriter::prepare(const std::string& temporary) {
  if (options_.topology.rank != publisher_) return;
  remove_tree(temporary);
  make_directories(temporary);
}

// Writes this rank's file, if it has anything to write, and returns a report for rank 0.
std::string CheckpointWriter::write_shard(const std::string& temporary,
                                          const CheckpointContent& content) {
  const Topology& topology = options_.topology;
  const std::string file = shard_name(topology.rank, topology.world_size);
  RankReport report;
  report.node = topology.node_rank;
  TensorMap tensors;
  for (const auto& [name, tensor] : content.global) {
    add_whole(name, tensor, file, tensors, report.tensors);
  }
  for (const auto& [name, shard] : content.shards) {
    add_shard(name, shard, file, tensors, report.tensors);
  }
  for (const auto& [name, tensor] : content.own) tensors[std::string(kOwnPrefix) + name] = tensor;
  if (tensors.empty()) return format_report(report);
  const SavedFile saved =
      write_safetensors(temporary + "/" + file, tensors,
                        {{"format", "pt"}, {"muster.step", std::to_string(content.manifest.step)}});
  report.file = ShardFile{file, saved.bytes, saved.sha256, topology.rank, topology.node_rank};
  return format_report(report);
}

// The first rank of each node writes the part file; rank 0 writes the manifest.
void CheckpointWriter::write_lists(const std::string& temporary, const Manifest& base,
                                   const std::vector<std::string>& reports) {
  const Topology& topology = options_.topology;
  Manifest manifest = base;
  std::vector<ShardFile> own_part;
  int first_of_node = -1;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    const RankReport report = parse_report(reports[rank], topology.rank == 0);
    const bool same_node = report.node == topology.node_rank;
    if (same_node && first_of_node < 0) first_of_node = static_cast<int>(rank);
    if (!report.file) continue;
    manifest.shards.push_back(*report.file);
    if (same_node) own_part.push_back(*report.file);
    add_tensors(manifest, report);
  }
  require_whole_tensors(manifest);
  if (topology.rank == first_of_node) {
    write_file_durably(temporary + "/" + part_name(topology.node_rank, topology.node_count),
                       format_part(topology.node_rank, topology.node_count, base, own_part));
  }
  stage("parts");
  if (topology.rank != 0) return;
  manifest.world_size = topology.world_size;
  manifest.node_count = topology.node_count;
  manifest.created_ms = wall_time_ms();
  write_file_durably(temporary + "/" + kManifestName, format_manifest(manifest));
  stage("manifest");
}

std::string CheckpointWriter::path_of(int64_t step) const {
  return options_.directory + "/" + step_name(step);
}

std::string CheckpointWriter::save(const CheckpointContent& content, int64_t removable_up_to) {
  const int64_t step = content.manifest.step;
  const std::string path = path_of(step);
  const std::string temporary = path + ".tmp";
  if (publisher_ < 0) find_publisher();
  const bool publishes = options_.topology.rank == publisher_;
  try {
    agree_on_success(group_, error_of([&] { prepare(temporary); }));
    stage("prepared");
    std::string report;
    const std::string shard_error = error_of([&] {
      if (!content.error.empty()) throw CheckpointError(content.error);
      report = write_shard(temporary, content);
    });
    stage("shard");
    agree_on_success(group_, shard_error);
    Manifest manifest = content.manifest;
    manifest.metrics = agreed_metrics(manifest.metrics);
    const std::vector<std::string> reports = all_gather_strings(group_, report);
    agree_on_success(group_, error_of([&] { write_lists(temporary, manifest, reports); }));
    agree_on_success(group_, error_of([&] {
                       if (publishes) publish_directory(temporary, path);
                     }));
  } catch (const CheckpointError&) {
    if (publishes) error_of([&] { remove_tree(temporary); });
    throw;
  }
  stage("published");
  if (options_.on_published) options_.on_published(step, path);
  const std::string error = error_of([&] {
    if (publishes) retention_.apply(options_.directory, step, removable_up_to);
  });
  // The checkpoint is published; failing to remove an older one must not end the run.
  if (!error.empty()) std::fprintf(stderr, "muster: %s\n", error.c_str());
  stage("retained");
  return path;
}

}  // namespace muster
