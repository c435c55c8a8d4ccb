// Names and manifests of checkpoints; see checkpoint_directory.h.
#include "checkpoint/checkpoint_directory.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/files.h"
#include "checkpoint/json_text.h"
#include "muster/base/errors.h"
#include "muster/base/version.h"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "muster-checkpoint";
constexpr int kFormatVersion = 2;  // the newest that is read
constexpr uint64_t kManifestBytesMax = 256 << 20;

// "step-N" with N decimal and without leading zeros (docs/protocol.md).
std::optional<int64_t> step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  if (std::to_string(step) != name) return std::nullopt;
  return step;
}

// "step-5" of "/x/step-5" and of "/x/step-5/".
std::string_view last_part(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

std::string five_digits(int number) {
  char text[16];
  std::snprintf(text, sizeof(text), "%05d", number);
  return text;
}

Json json_shard(const ShardFile& shard) {
  return {{"file", shard.file},
          {"bytes", shard.bytes},
          {"sha256", shard.sha256},
          {"rank", shard.rank},
          {"part", shard.part}};
}

// JSON cannot represent NaN and infinities.
Json json_metrics(const std::map<std::string, double>& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) {
      json[name] = value;
    } else {
      json[name] = std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    }
  }
  return json;
}

std::map<std::string, double> parse_metrics(const Json& json) {
  std::map<std::string, double> metrics;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) {
      metrics[name] = value.get<double>();
    } else {
      const double infinity = std::numeric_limits<double>::infinity();
      const std::string word = value.get<std::string>();
      metrics[name] = word == "Infinity"    ? infinity
                      : word == "-Infinity" ? -infinity
                                            : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return metrics;
}

constexpr int64_t kInt64Most = std::numeric_limits<int64_t>::max();
constexpr int64_t kIntMost = std::numeric_limits<int>::max();

// nlohmann's get<int>() makes an integer of every number: it cuts off fractions and high bits.
int64_t integer(const Json& json, const char* key, int64_t least, int64_t most) {
  const Json& value = json.at(key);
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= static_cast<uint64_t>(kInt64Most)
                        : value.is_number_integer();
  if (fits && value.get<int64_t>() >= least && value.get<int64_t>() <= most) {
    return value.get<int64_t>();
  }
  throw FormatError("\"" + std::string(key) + "\" is " + value.dump().substr(0, 40) +
                    ", but must be an integer from " + std::to_string(least) + " to " +
                    std::to_string(most));
}

uint64_t natural(const Json& json, const char* key) {
  const Json& value = json.at(key);
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  throw FormatError("\"" + std::string(key) + "\" is " + value.dump().substr(0, 40) +
                    ", but must be an integer from 0");
}

// Any that fits: its users check them against shapes and parameters.
std::vector<int64_t> integers(const Json& json) {
  std::vector<int64_t> numbers;
  for (const Json& value : json) {
    numbers.push_back(integer({{"item", value}}, "item", -kInt64Most - 1, kInt64Most));
  }
  return numbers;
}

Json json_position(const ManifestPosition& position) {
  Json json = {{"seed", position.seed},
               {"epoch", position.epoch},
               {"consumed", position.consumed},
               {"dataset_size", position.dataset_size}};
  if (!position.fields.empty()) json["fields"] = position.fields;
  return json;
}

// One line.
void append_tensor(std::string& text, const std::string& name, const ManifestTensor& tensor) {
  append_json_name(text, name);
  text += ": {\"dtype\": ";
  append_json_name(text, tensor.dtype);
  text += ", \"shape\": ";
  append_json_integers(text, tensor.shape);
  text += ", \"pieces\": [";
  for (const TensorPiece& piece : tensor.pieces) {
    if (&piece != &tensor.pieces.front()) text += ", ";
    text += "{\"file\": ";
    append_json_name(text, piece.file);
    text += ", \"tensor\": ";
    append_json_name(text, piece.tensor);
    text += ", \"offsets\": ";
    append_json_integers(text, piece.offsets);
    text += ", \"sizes\": ";
    append_json_integers(text, piece.sizes);
    text += '}';
  }
  text += "]}";
}

ManifestPosition parse_position(const Json& json) {
  ManifestPosition position{natural(json, "seed"),
                            integer(json, "epoch", 0, kInt64Most),
                            integer(json, "consumed", 0, kInt64Most),
                            integer(json, "dataset_size", -1, kInt64Most),
                            {}};
  if (json.contains("fields")) {
    const Json& fields = json.at("fields");
    for (const auto& [name, value] : fields.items()) {
      position.fields[name] = integer(fields, name.c_str(), -kInt64Most - 1, kInt64Most);
    }
  }
  return position;
}

ShardFile parse_shard(const Json& json, const std::string& where) {
  ShardFile shard;
  shard.file = json.at("file").get<std::string>();
  require_plain_name(shard.file, where);
  shard.bytes = natural(json, "bytes");
  shard.sha256 = json.at("sha256").get<std::string>();
  shard.rank = static_cast<int>(integer(json, "rank", 0, kIntMost));
  shard.part = static_cast<int>(integer(json, "part", 0, kIntMost));
  return shard;
}

ManifestTensor parse_tensor(const Json& json, const std::string& where) {
  ManifestTensor tensor;
  tensor.dtype = json.at("dtype").get<std::string>();
  tensor.shape = integers(json.at("shape"));
  for (const Json& piece : json.at("pieces")) {
    TensorPiece parsed{piece.at("file").get<std::string>(), piece.at("tensor").get<std::string>(),
                       integers(piece.at("offsets")), integers(piece.at("sizes"))};
    require_plain_name(parsed.file, where);
    tensor.pieces.push_back(std::move(parsed));
  }
  return tensor;
}

Manifest parse_fields(const Json& json, const std::string& where) {
  Manifest manifest;
  manifest.version = static_cast<int>(integer(json, "version", 1, kFormatVersion));
  manifest.step = integer(json, "step", 0, kInt64Most);
  manifest.job = integer(json, "job", 0, kInt64Most);
  manifest.attempt = integer(json, "attempt", 0, kInt64Most);
  manifest.world_size = static_cast<int>(integer(json, "world_size", 1, kIntMost));
  manifest.node_count = static_cast<int>(integer(json, "node_count", 1, manifest.world_size));
  manifest.created_ms = integer(json, "created_ms", 0, kInt64Most);
  for (const Json& shard : json.at("shards")) manifest.shards.push_back(parse_shard(shard, where));
  for (const auto& [name, tensor] : json.at("tensors").items()) {
    manifest.tensors[name] = parse_tensor(tensor, where);
  }
  for (const Json& position : json.at("data")) {
    manifest.data.push_back(parse_position(position));
  }
  for (const Json& model : json.at("bucket_order")) {
    auto& buckets = manifest.bucket_order.emplace_back();
    for (const Json& bucket : model) buckets.push_back(integers(bucket));
  }
  // Added with retention policies; older checkpoints have none.
  if (json.contains("metrics")) manifest.metrics = parse_metrics(json.at("metrics"));
  return manifest;
}

}  // namespace

std::string step_name(int64_t step) { return "step-" + std::to_string(step); }

std::string shard_name(int rank, int world_size) {
  return "shard-" + five_digits(rank) + "-of-" + five_digits(world_size) + ".safetensors";
}

std::string part_name(int part, int parts) {
  return "part-" + five_digits(part) + "-of-" + five_digits(parts) + ".json";
}

std::string format_manifest(const Manifest& manifest) {
  Json json = {{"format", kFormat},
               {"version", manifest.version},
               {"client", std::string("muster-trainer/") + kVersion},
               {"step", manifest.step},
               {"job", manifest.job},
               {"attempt", manifest.attempt},
               {"world_size", manifest.world_size},
               {"node_count", manifest.node_count},
               {"created_ms", manifest.created_ms},
               {"bucket_order", manifest.bucket_order}};
  json["shards"] = Json::array();
  for (const ShardFile& shard : manifest.shards) json["shards"].push_back(json_shard(shard));
  json["data"] = Json::array();
  for (const ManifestPosition& position : manifest.data) {
    json["data"].push_back(json_position(position));
  }
  json["metrics"] = json_metrics(manifest.metrics);
  std::string text = "{\n";
  for (const auto& [key, value] : json.items()) {
    // An index of every parameter is one line, like a tensor.
    const int indent = key == "bucket_order" ? -1 : 1;
    text += " " + Json(key).dump() + ": " + value.dump(indent) + ",\n";
  }
  text += " \"tensors\": {";
  bool is_first = true;
  for (const auto& [name, tensor] : manifest.tensors) {
    text += is_first ? "\n  " : ",\n  ";
    is_first = false;
    append_tensor(text, name, tensor);
  }
  return text + "\n }\n}\n";
}

std::string format_part(int part, int parts, const Manifest& manifest,
                        const std::vector<ShardFile>& shards) {
  Json json = {{"part", part},
               {"parts", parts},
               {"step", manifest.step},
               {"metrics", json_metrics(manifest.metrics)},
               {"shards", Json::array()}};
  for (const ShardFile& shard : shards) json["shards"].push_back(json_shard(shard));
  return json.dump(1) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& where) {
  try {
    const Json json = Json::parse(text);
    if (json.value("format", "") != kFormat) {
      throw FormatError(where + ": not a manifest of a Muster checkpoint");
    }
    if (const int64_t version = integer(json, "version", 1, kInt64Most); version > kFormatVersion) {
      throw FormatError(where + ": version " + std::to_string(version) + " is newer than this " +
                        "library supports (" + std::to_string(kFormatVersion) +
                        "): update the library");
    }
    return parse_fields(json, where);
  } catch (const Json::exception& error) {
    throw FormatError(where + ": " + error.what());
  } catch (const FormatError& error) {
    const std::string text = error.what();
    throw FormatError(text.starts_with(where) ? text : where + ": " + text);
  }
}

Manifest read_checkpoint(const std::string& step_directory, bool verify_hashes) {
  const std::string path = step_directory + "/" + kManifestName;
  if (!path_exists(path)) {
    throw CheckpointError(step_directory + " has no " + kManifestName +
                          ": it is not a complete checkpoint");
  }
  Manifest manifest = parse_manifest(read_file(path, kManifestBytesMax), path);
  const std::optional<int64_t> step = step_of(last_part(step_directory));
  if (step && *step != manifest.step) {
    throw FormatError(path + " is of step " + std::to_string(manifest.step) +
                      ", but its directory is named for step " + std::to_string(*step));
  }
  for (const ShardFile& shard : manifest.shards) {
    const std::string file = step_directory + "/" + shard.file;
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) throw_errno("read", file);
    if (static_cast<uint64_t>(status.st_size) != shard.bytes) {
      throw FormatError(file + " has " + std::to_string(status.st_size) +
                        " bytes, but the manifest lists " + std::to_string(shard.bytes));
    }
    if (verify_hashes && sha256_of_file(file) != shard.sha256) {
      throw FormatError(file + " is damaged: its SHA-256 differs from the manifest's " +
                        shard.sha256);
    }
  }
  return manifest;
}

std::vector<int64_t> list_steps(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && entry.is_directory(error)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void remove_unfinished(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> unfinished;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-") && name.ends_with(".tmp")) unfinished.push_back(entry.path());
  }
  for (const std::string& path : unfinished) remove_tree(path);
}

std::map<std::string, double> read_metrics(const std::string& step_directory) {
  try {
    const std::string manifest = step_directory + "/" + kManifestName;
    if (path_exists(manifest)) {
      return parse_manifest(read_file(manifest, kManifestBytesMax), manifest).metrics;
    }
    for (const auto& entry : std::filesystem::directory_iterator(step_directory)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("part-") || !name.ends_with(".json")) continue;
      const Json json = Json::parse(read_file(entry.path(), kManifestBytesMax));
      if (json.contains("metrics")) return parse_metrics(json.at("metrics"));
    }
  } catch (const std::exception&) {
    // Without readable metrics, no best-metric rule can keep the checkpoint.
  }
  return {};
}

void require_plain_name(const std::string& name, const std::string& where) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    throw FormatError(where + ": '" + name + "' is not a plain file name");
  }
}

}  // namespace muster
