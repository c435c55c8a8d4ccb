// See rank_report.h. A report is two lines of JSON: the file, and the tensors, which only rank 0
// parses.
#include "checkpoint/rank_report.h"

#include <nlohmann/json.hpp>

#include "checkpoint/tensor_pieces.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Json = nlohmann::json;

std::string json_shape(const std::vector<int64_t>& shape) { return Json(shape).dump(); }

}  // namespace

std::string format_report(const RankReport& report) {
  Json head = {{"node", report.node}};
  if (report.file) {
    head["file"] = report.file->file;
    head["bytes"] = report.file->bytes;
    head["sha256"] = report.file->sha256;
    head["rank"] = report.file->rank;
  }
  Json tensors = Json::object();
  for (const auto& [name, tensor] : report.tensors) {
    const TensorPiece& piece = tensor.pieces.at(0);
    tensors[name] = {tensor.dtype, tensor.shape, piece.tensor, piece.offsets, piece.sizes};
  }
  return head.dump() + "\n" + tensors.dump();
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
  const Json tensors = Json::parse(text.substr(end_of_head + 1));
  for (const auto& [name, tensor] : tensors.items()) {
    report.tensors[name] = {
        tensor.at(0).get<std::string>(),
        tensor.at(1).get<std::vector<int64_t>>(),
        {{report.file->file, tensor.at(2).get<std::string>(),
          tensor.at(3).get<std::vector<int64_t>>(), tensor.at(4).get<std::vector<int64_t>>()}}};
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
