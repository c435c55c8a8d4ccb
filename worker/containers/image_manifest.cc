#include "worker/containers/image_manifest.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

using nlohmann::json;

// limit: images: nesting of such a document; refused
constexpr size_t kImageDepthMax = 16;
constexpr size_t kVariablesMax = 4'096;
constexpr size_t kManifestsMax = 1'024;
constexpr std::string_view kImageDigestPrefix = "sha256:";
constexpr char kOciManifest[] = "application/vnd.oci.image.manifest.v1+json";
constexpr char kOciConfig[] = "application/vnd.oci.image.config.v1+json";

absl::Status BadManifest(std::string_view what) { return absl::DataLossError(std::string(what)); }

// Null if it is not an object within the bounds.
json ParseObject(std::string_view text) {
  if (text.size() > kImageJsonBytesMax || common::NestsDeeper(text, kImageDepthMax)) return {};
  json value = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  return value.is_object() ? value : json();
}

std::string TextOf(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const json* ListOf(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? &*found : nullptr;
}

std::optional<ImageBlob> ReadDescriptor(const json& descriptor, uint64_t size_max) {
  if (!descriptor.is_object()) return std::nullopt;
  const std::string digest = TextOf(descriptor, "digest");
  const auto size = descriptor.find("size");
  if (!digest.starts_with(kImageDigestPrefix) || size == descriptor.end() ||
      !size->is_number_unsigned() || size->get<uint64_t>() > size_max) {
    return std::nullopt;
  }
  ImageBlob blob{.hex = digest.substr(kImageDigestPrefix.size()),
                 .size = size->get<uint64_t>(),
                 .media_type = TextOf(descriptor, "mediaType")};
  if (!common::IsSha256Hex(blob.hex)) return std::nullopt;
  return blob;
}

// Empty: this worker cannot unpack such a layer.
std::string LayerType(std::string_view type) {
  if (type == kTarLayer || type == "application/vnd.docker.image.rootfs.diff.tar") return kTarLayer;
  if (type == kGzipLayer || type == "application/vnd.docker.image.rootfs.diff.tar.gzip")
    return kGzipLayer;
  return {};
}

json DescriptorOf(const ImageBlob& blob, std::string_view type) {
  return {{"mediaType", type},
          {"digest", common::StrCat(kImageDigestPrefix, blob.hex)},
          {"size", blob.size}};
}

}  // namespace

std::string_view ImageArchitecture() {
#if defined(__x86_64__)
  return "amd64";
#elif defined(__aarch64__)
  return "arm64";
#else
#error "which images run on this machine?"
#endif
}

bool IsImageIndex(std::string_view text) {
  const json object = ParseObject(text);
  return object.is_object() && ListOf(object, "manifests") != nullptr;
}

absl::StatusOr<ImageBlob> ChooseManifest(std::string_view index_json) {
  const json index = ParseObject(index_json);
  const json* manifests = index.is_object() ? ListOf(index, "manifests") : nullptr;
  if (manifests == nullptr || manifests->empty() || manifests->size() > kManifestsMax)
    return BadManifest("its index lists no manifest");
  std::string others;
  for (const json& each : *manifests) {
    const std::optional<ImageBlob> blob = ReadDescriptor(each, kImageJsonBytesMax);
    if (!blob) return BadManifest("its index names a manifest without a valid digest and size");
    const auto platform = each.find("platform");
    const bool is_given = platform != each.end() && platform->is_object();
    const std::string architecture = is_given ? TextOf(*platform, "architecture") : "";
    const std::string system = is_given ? TextOf(*platform, "os") : "";
    if (!is_given && manifests->size() == 1) return *blob;
    if (architecture == ImageArchitecture() && system == "linux") return *blob;
    common::StrAppend(&others, others.empty() ? "" : ", ",
                      common::Printable(architecture.empty() ? "unknown" : architecture));
  }
  return absl::NotFoundError(common::StrCat("it has nothing for ", ImageArchitecture(),
                                            ", only for ", others.substr(0, 200)));
}

absl::StatusOr<ImageManifest> ParseManifest(std::string_view text) {
  const json object = ParseObject(text);
  const json* layers = object.is_object() ? ListOf(object, "layers") : nullptr;
  if (layers == nullptr || !object.contains("config"))
    return BadManifest("its manifest lists no configuration and layers");
  if (layers->size() > kImageLayersMax)
    return BadManifest(common::StrCat("it has more than ", kImageLayersMax, " layers"));
  ImageManifest manifest;
  const std::optional<ImageBlob> config = ReadDescriptor(object.at("config"), kImageJsonBytesMax);
  if (!config) return BadManifest("its manifest names no valid configuration");
  manifest.config = *config;
  uint64_t total = 0;
  for (const json& each : *layers) {
    std::optional<ImageBlob> layer = ReadDescriptor(each, kImageBytesMax);
    if (!layer) return BadManifest("its manifest names a layer without a valid digest and size");
    total += layer->size;
    if (total > kImageBytesMax) return BadManifest("its layers are larger than 1 TiB");
    const std::string type = LayerType(layer->media_type);
    if (type.empty()) {
      return absl::UnimplementedError(common::StrCat("its layers are of type ",
                                                     common::Printable(layer->media_type),
                                                     "; only tar and tar+gzip can be unpacked"));
    }
    layer->media_type = type;
    manifest.layers.push_back(*std::move(layer));
  }
  return manifest;
}

absl::StatusOr<ImageConfig> ParseImageConfig(std::string_view text) {
  const json object = ParseObject(text);
  if (!object.is_object()) return BadManifest("its configuration is not JSON");
  ImageConfig config;
  config.architecture = TextOf(object, "architecture");
  if (config.architecture != ImageArchitecture() || TextOf(object, "os") != "linux") {
    return absl::NotFoundError(common::StrCat("it is for ", common::Printable(TextOf(object, "os")),
                                              " on ", common::Printable(config.architecture),
                                              ", this node is linux on ", ImageArchitecture()));
  }
  const auto inner = object.find("config");
  if (inner == object.end() || !inner->is_object()) return config;
  config.workdir = TextOf(*inner, "WorkingDir");
  const json* env = ListOf(*inner, "Env");
  if (env == nullptr) return config;
  if (env->size() > kVariablesMax) return BadManifest("its configuration has too many variables");
  for (const json& each : *env) {
    if (!each.is_string())
      return BadManifest("its configuration has a variable that is not a string");
    std::string variable = each.get<std::string>();
    const size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string::npos || variable.find('\0') != std::string::npos)
      continue;  // cannot be passed to a program
    config.env.push_back(std::move(variable));
  }
  return config;
}

std::string ManifestJson(const ImageManifest& manifest) {
  json layers = json::array();
  for (const ImageBlob& layer : manifest.layers) {
    layers.push_back(DescriptorOf(layer, layer.media_type));
  }
  return json{{"schemaVersion", 2},
              {"mediaType", kOciManifest},
              {"config", DescriptorOf(manifest.config, kOciConfig)},
              {"layers", std::move(layers)}}
      .dump();
}

std::string IndexJson(std::string_view manifest_json) {
  json entry = DescriptorOf(
      {.hex = common::Sha256Hex(manifest_json), .size = manifest_json.size(), .media_type = ""},
      kOciManifest);
  entry["annotations"] = {{"org.opencontainers.image.ref.name", "image"}};
  return json{{"schemaVersion", 2}, {"manifests", json::array({std::move(entry)})}}.dump();
}

}  // namespace muster::worker
