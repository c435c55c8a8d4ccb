// The directory in which checkpoints appear as step-N: names, which of them are complete, manifests
// and part files. What stays: retention.h. docs/formats-checkpoint.md describes the bytes. No
// torch, no ranks: what several processes do together is in checkpoint.cc.
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

// The place of one loader in its data.
struct ManifestPosition {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t consumed = 0;                   // samples of this epoch, of all ranks together
  int64_t dataset_size = 0;               // -1: a stream, whose length nobody knows
  std::map<std::string, int64_t> fields;  // whatever else the loader wants back (global_batch, say)
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
  std::vector<ManifestPosition> data;                           // one per loader
  std::vector<std::vector<std::vector<int64_t>>> bucket_order;  // per model: DDP's buckets
  std::map<std::string, double> metrics;                        // given at the save
};

std::string step_name(int64_t step);               // "step-N"
std::string shard_name(int rank, int world_size);  // "shard-RRRRR-of-WWWWW.safetensors"
std::string part_name(int part, int parts);        // "part-PPPPP-of-QQQQQ.json"
inline constexpr char kManifestName[] = "manifest.json";

std::string format_manifest(const Manifest& manifest);
// Of `manifest` the step and the metrics: a node without the manifest decides by the part file
// which checkpoints stay.
std::string format_part(int part, int parts, const Manifest& manifest,
                        const std::vector<ShardFile>& shards);

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

// The metrics of a checkpoint, by its manifest or, where that lies on another node, its part file;
// none when neither can be read.
std::map<std::string, double> read_metrics(const std::string& step_directory);

// A name in a file that came from somewhere must stay inside that file's directory: throws
// FormatError("<where>: …") when it does not.
void require_plain_name(const std::string& name, const std::string& where);

}  // namespace muster
