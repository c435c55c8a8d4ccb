// The directory in which checkpoints appear as step-N: names, which of them are complete, manifests
// and part files, retention. docs/formats-checkpoint.md describes the bytes. No torch, no ranks:
// what several processes do together is in checkpoint.cc.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// One file of a checkpoint.
struct ShardFile {
  std::string file;  // relative to step-N
  uint64_t bytes = 0;
  std::string sha256;
  int rank = 0;
  int part = 0;  // of the node that wrote it
};

// What one shard holds of a tensor of the whole model: where this piece lies in the full tensor.
struct TensorPiece {
  std::string file;
  std::string tensor;  // its name inside the file
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
};

struct ManifestTensor {
  std::string dtype;  // as in safetensors
  std::vector<int64_t> shape;
  std::vector<TensorPiece> pieces;
};

struct ManifestPosition {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t consumed = 0;
  int64_t dataset_size = 0;
};

struct Manifest {
  int64_t step = 0;
  int64_t job = 0;
  int64_t attempt = 0;
  int world_size = 1;
  int node_count = 1;
  int64_t created_ms = 0;
  std::vector<ShardFile> shards;
  std::map<std::string, ManifestTensor> tensors;
  std::vector<ManifestPosition> data;                           // one per sampler
  std::vector<std::vector<std::vector<int64_t>>> bucket_order;  // per model: DDP's buckets
};

std::string step_name(int64_t step);               // "step-N"
std::string shard_name(int rank, int world_size);  // "shard-RRRRR-of-WWWWW.safetensors"
std::string part_name(int part, int parts);        // "part-PPPPP-of-QQQQQ.json"
inline constexpr char kManifestName[] = "manifest.json";

std::string format_manifest(const Manifest& manifest);
std::string format_part(int part, int parts, int64_t step, const std::vector<ShardFile>& shards);

// Throws FormatError naming `where` and the first thing that is wrong, also for a manifest of a
// newer version or one whose file names leave the directory.
Manifest parse_manifest(const std::string& json, const std::string& where);

// The manifest of a finished checkpoint. Every shard it lists must be there with its size, and with
// its hash too when verify_hashes. Throws FormatError or CheckpointError otherwise.
Manifest read_checkpoint(const std::string& step_directory, bool verify_hashes);

// Steps that stand in a checkpoint directory under a final name, ascending; not verified. A missing
// directory holds none.
std::vector<int64_t> list_steps(const std::string& directory);

// Removes what an interrupted save left behind: step-*.tmp.
void remove_unfinished(const std::string& directory);

// Removes the oldest steps so that `keep` remain (0: all remain), never one above removable_up_to.
// Each leaves its final name in one rename before its files go.
void remove_old_steps(const std::string& directory, int keep, int64_t removable_up_to);

}  // namespace muster
