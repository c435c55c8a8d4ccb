// The directory that holds checkpoints as step-N: names, completeness, manifests and part files.
// Retention: retention.h. docs/formats-checkpoint.md describes the bytes. No torch and no ranks:
// the collective part is in checkpoint.cc.
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

// The piece of a tensor that one shard file holds, and where it lies in the full tensor.
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

// The position of one loader in its data.
struct ManifestPosition {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t consumed = 0;                   // samples of this epoch, of all ranks together
  int64_t dataset_size = 0;               // -1: a stream of unknown length
  std::map<std::string, int64_t> fields;  // other values that the loader restores (global_batch)
};

struct Manifest {
  int version = 1;  // of the format; 2: other names of optimizer state
  int64_t step = 0;
  int64_t job = 0;
  int64_t attempt = 0;
  int world_size = 1;
  int node_count = 1;
  int64_t created_ms = 0;
  std::vector<ShardFile> shards;
  std::map<std::string, ManifestTensor> tensors;
  std::vector<ManifestPosition> data;                           // one per loader
  std::vector<std::vector<std::vector<int64_t>>> bucket_order;  // per model: DDP's buckets
  std::map<std::string, double> metrics;                        // passed to the save
};

std::string step_name(int64_t step);               // "step-N"
std::string shard_name(int rank, int world_size);  // "shard-RRRRR-of-WWWWW.safetensors"
std::string part_name(int part, int parts);        // "part-PPPPP-of-QQQQQ.json"
inline constexpr char kManifestName[] = "manifest.json";

std::string format_manifest(const Manifest& manifest);
// Contains the manifest's step and metrics: a node without the manifest applies retention by its
// part file.
std::string format_part(int part, int parts, const Manifest& manifest,
                        const std::vector<ShardFile>& shards);

// Throws FormatError naming `where` and the first problem, including a newer version, numbers that
// no save writes, or file names that leave the directory.
Manifest parse_manifest(const std::string& json, const std::string& where);

// The manifest of a complete checkpoint. Every shard it lists must exist with its size and, with
// verify_hashes, its hash; in a directory step-N its step must be N. Throws FormatError or
// CheckpointError otherwise.
Manifest read_checkpoint(const std::string& step_directory, bool verify_hashes);

// The steps with a final name in a checkpoint directory, ascending; not verified. Empty for a
// missing directory.
std::vector<int64_t> list_steps(const std::string& directory);

// Removes the leftovers of interrupted saves: step-*.tmp.
void remove_unfinished(const std::string& directory);

// The metrics of a checkpoint, from its manifest or, if that is on another node, from its part
// file; empty if neither can be read.
std::map<std::string, double> read_metrics(const std::string& step_directory);

// A file name read from an untrusted file must stay inside that file's directory: throws
// FormatError("<where>: …") otherwise.
void require_plain_name(const std::string& name, const std::string& where);

}  // namespace muster
