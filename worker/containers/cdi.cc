#include "worker/containers/cdi.h"

#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

using nlohmann::json;

// limit: images: a CDI file; refused
constexpr size_t kCdiBytesMax = 4 << 20;
constexpr size_t kCdiDepthMax = 16;
// limit: images: entries of one; refused
constexpr size_t kCdiItemsMax = 4'096;
constexpr size_t kCdiFilesMax = 256;

absl::Status Wrong(std::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

std::string CdiText(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Empty if there is no such list.
const json& CdiList(const json& object, const char* name) {
  static const json none = json::array();
  const auto found = object.find(name);
  return found != object.end() && found->is_array() ? *found : none;
}

absl::StatusOr<std::vector<std::string>> CdiTexts(const json& object, const char* name) {
  std::vector<std::string> texts;
  for (const json& each : CdiList(object, name)) {
    if (!each.is_string() || each.get_ref<const std::string&>().find('\0') != std::string::npos)
      return Wrong(common::StrCat(name, " has an entry that is not a string"));
    texts.push_back(each.get<std::string>());
  }
  if (texts.size() > kCdiItemsMax) return Wrong(common::StrCat(name, " is too long"));
  return texts;
}

bool IsPath(const std::string& path) {
  return path.starts_with('/') && common::StaysInside(std::string_view(path).substr(1));
}

absl::Status ReadNodes(const json& edits, CdiEdits* out) {
  for (const json& each : CdiList(edits, "deviceNodes")) {
    if (!each.is_object()) return Wrong("a device node is not an object");
    const std::string path = CdiText(each, "path"), host = CdiText(each, "hostPath");
    BundleMount mount{.source = host.empty() ? path : host, .target = path, .is_device = true};
    if (!IsPath(mount.target) || !IsPath(mount.source) || !mount.source.starts_with("/dev/") ||
        !mount.target.starts_with("/dev/"))
      return Wrong(common::StrCat("a device node is not below /dev: ", common::Printable(path)));
    out->mounts.push_back(std::move(mount));
  }
  return absl::OkStatus();
}

absl::Status ReadMounts(const json& edits, CdiEdits* out) {
  for (const json& each : CdiList(edits, "mounts")) {
    if (!each.is_object()) return Wrong("a mount is not an object");
    BundleMount mount{.source = CdiText(each, "hostPath"),
                      .target = CdiText(each, "containerPath")};
    if (!IsPath(mount.source) || !IsPath(mount.target))
      return Wrong(common::StrCat("a mount does not have absolute paths: ",
                                  common::Printable(mount.source)));
    ASSIGN_OR_RETURN(const std::vector<std::string> options, CdiTexts(each, "options"));
    for (const std::string& option : options) mount.read_only = mount.read_only || option == "ro";
    out->mounts.push_back(std::move(mount));
  }
  return absl::OkStatus();
}

absl::Status ReadHooks(const json& edits, CdiEdits* out) {
  for (const json& each : CdiList(edits, "hooks")) {
    if (!each.is_object()) return Wrong("a hook is not an object");
    if (const std::string name = CdiText(each, "hookName"); name != "createContainer")
      return Wrong(common::StrCat("a hook for ", common::Printable(name), " is not supported"));
    BundleHook hook{.path = CdiText(each, "path")};
    if (!IsPath(hook.path)) return Wrong("a hook's program is not an absolute path");
    ASSIGN_OR_RETURN(hook.args, CdiTexts(each, "args"));
    ASSIGN_OR_RETURN(hook.env, CdiTexts(each, "env"));
    out->hooks.push_back(std::move(hook));
  }
  return absl::OkStatus();
}

absl::StatusOr<CdiEdits> ReadEdits(const json& of) {
  CdiEdits edits;
  const auto found = of.find("containerEdits");
  if (found == of.end()) return edits;
  if (!found->is_object()) return Wrong("containerEdits is not an object");
  ASSIGN_OR_RETURN(edits.env, CdiTexts(*found, "env"));
  RETURN_IF_ERROR(ReadNodes(*found, &edits));
  RETURN_IF_ERROR(ReadMounts(*found, &edits));
  RETURN_IF_ERROR(ReadHooks(*found, &edits));
  if (edits.mounts.size() + edits.hooks.size() > kCdiItemsMax)
    return Wrong("containerEdits has too many entries");
  return edits;
}

}  // namespace

absl::StatusOr<CdiSpec> ParseCdi(std::string_view text) {
  if (text.size() > kCdiBytesMax || common::NestsDeeper(text, kCdiDepthMax))
    return Wrong("it is too large");
  const json object = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Wrong("it is not a JSON object");
  CdiSpec spec;
  spec.kind = CdiText(object, "kind");
  if (spec.kind.empty()) return Wrong("it names no kind");
  ASSIGN_OR_RETURN(spec.common, ReadEdits(object));
  for (const json& each : CdiList(object, "devices")) {
    if (!each.is_object()) return Wrong("a device is not an object");
    std::string name = CdiText(each, "name");
    if (auto number = each.find("name"); number != each.end() && number->is_number_unsigned())
      name = common::StrCat(number->get<uint64_t>());
    if (name.empty() || spec.devices.size() >= kCdiItemsMax) return Wrong("a device has no name");
    ASSIGN_OR_RETURN(spec.devices[name], ReadEdits(each));
  }
  return spec;
}

absl::StatusOr<CdiSpec> ReadCdi(std::string_view kind,
                                const std::vector<std::string>& directories) {
  absl::Status problem = absl::NotFoundError(common::StrCat("no file of kind ", kind));
  for (const std::string& directory : directories) {
    const auto names = common::ListDirectory(directory, kCdiFilesMax);
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (!name.ends_with(".json")) continue;
      const std::string path = common::StrCat(directory, "/", name);
      const auto text = common::ReadFile(path, kCdiBytesMax);
      absl::StatusOr<CdiSpec> spec = text.ok() ? ParseCdi(*text) : text.status();
      if (spec.ok() && spec->kind == kind) return spec;
      if (!spec.ok())
        problem = absl::Status(spec.status().code(),
                               common::StrCat(path, ": ", common::MessageOf(spec.status())));
    }
  }
  return problem;
}

}  // namespace muster::worker
