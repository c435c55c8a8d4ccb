// See rank_report.h. A report is a line of JSON, the file, and the tensors as binary fields, which only
// rank 0 reads: there may be very many. All ranks run the same program, so this is not a format.
#include "checkpoint/rank_report.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "checkpoint/tensor_pieces.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Json = nlohmann::json;

std::string json_shape(const std::vector<int64_t>& shape) { return Json(shape).dump(); }

// A field: its number of bytes, and these.
void put_bytes(std::string& text, const void* data, size_t bytes) {
  const auto length = static_cast<uint64_t>(bytes);
  text.append(reinterpret_cast<const char*>(&length), sizeof(length));
  text.append(static_cast<const char*>(data), bytes);
}
void put(std::string& text, const std::string& value) {
  put_bytes(text, value.data(), value.size());
}
void put(std::string& text, const std::vector<int64_t>& values) {
  put_bytes(text, values.data(), values.size() * sizeof(int64_t));
}

// Reads what put wrote.
class Fields {
 public:
  explicit Fields(std::string_view text) : left_(text) {}
  bool at_end() const { return left_.empty(); }
  std::string string() { return std::string(next()); }
  std::vector<int64_t> integers() {
    const std::string_view bytes = next();
    std::vector<int64_t> values(bytes.size() / sizeof(int64_t));
    if (!values.empty()) {
      std::memcpy(values.data(), bytes.data(), values.size() * sizeof(int64_t));
    }
    return values;
  }

 private:
  std::string_view take(uint64_t bytes) {
    if (bytes > left_.size()) throw CheckpointError("a rank's report of what it wrote is cut off");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }
  std::string_view next() {
    uint64_t length = 0;
    std::memcpy(&length, take(sizeof(length)).data(), sizeof(length));
    return take(length);
  }

  std::string_view left_;
};

}  // namespace

std::string format_report(const RankReport& report) {
  Json head = {{"node", report.node}};
  if (report.file) {
    head["file"] = report.file->file;
    head["bytes"] = report.file->bytes;
    head["sha256"] = report.file->sha256;
    head["rank"] = report.file->rank;
  }
  std::string text = head.dump() + "\n";
  for (const auto& [name, tensor] : report.tensors) {
    const TensorPiece& piece = tensor.pieces.at(0);
    put(text, name);
    put(text, tensor.dtype);
    put(text, tensor.shape);
    put(text, piece.tensor);
    put(text, piece.offsets);
    put(text, piece.sizes);
  }
  return text;
}

RankReport parse_report(const std::string& text, bool with_tensors) {
  const size_t end_of_head = text.find('\n');
  const Json head = Json::parse(text.substr(0, end_of_head));
  RankReport report;
  report.node = head.at("node").get<int>();
  if (!head.contains("file")) return report;
  report.file =
      ShardFile{head.at("file").get<std::string>(), head.at("bytes").get<uint64_t>(),
                head.at("sha256").get<std::string>(), head.at("rank").get<int>(), report.node};
  if (!with_tensors) return report;
  Fields fields(std::string_view(text).substr(end_of_head + 1));
  while (!fields.at_end()) {
    std::string name = fields.string();
    ManifestTensor tensor{fields.string(), fields.integers(), {}};
    std::string in_file = fields.string();
    std::vector<int64_t> offsets = fields.integers();
    tensor.pieces.push_back(
        {report.file->file, std::move(in_file), std::move(offsets), fields.integers()});
    report.tensors.emplace_hint(report.tensors.end(), std::move(name), std::move(tensor));
  }
  return report;
}

void add_tensors(Manifest& manifest, const RankReport& report) {
  for (const auto& [name, tensor] : report.tensors) {
    const auto [at, is_new] = manifest.tensors.try_emplace(name, tensor);
    if (is_new) continue;
    ManifestTensor& known = at->second;
    if (known.dtype != tensor.dtype || known.shape != tensor.shape) {
      throw CheckpointError("'" + name + "' is " + known.dtype + " " + json_shape(known.shape) +
                            " in " + known.pieces.at(0).file + " and " + tensor.dtype + " " +
                            json_shape(tensor.shape) + " in " + report.file->file +
                            ": the ranks must agree on its shape and dtype");
    }
    // Several ranks may report a tensor without elements.
    if (count_elements(known.shape, name) == 0) continue;
    known.pieces.push_back(tensor.pieces.at(0));
  }
}

void require_whole_tensors(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.tensors) {
    try {
      require_cover(name, tensor, "the ranks' shards do not form complete tensors");
    } catch (const FormatError& error) {
      throw CheckpointError(error.what());
    }
  }
}

}  // namespace muster
