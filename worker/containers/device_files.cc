#include "worker/containers/device_files.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/word_list.h"

namespace muster::worker {
namespace {

// One row per kind of accelerator. Lists are "a|b".
struct DeviceFiles {
  std::string_view kind;      // common/device_kinds.h
  std::string_view cdi_kind;  // empty: its vendor writes no CDI files
  std::string_view numbered;  // the device with index 3 is this and "3"
  std::string_view shared;    // devices that come with any of them, if they exist
  std::string_view driver;    // files and directories of its driver, if they exist; read-only
};

constexpr DeviceFiles kFiles[] = {
    {.kind = "gpu",
     .cdi_kind = "nvidia.com/gpu",
     .numbered = "/dev/nvidia",
     .shared = "/dev/nvidiactl|/dev/nvidia-uvm|/dev/nvidia-uvm-tools|/dev/nvidia-modeset",
     .driver = ""},
    {.kind = "npu",
     .cdi_kind = "",
     .numbered = "/dev/davinci",
     .shared = "/dev/davinci_manager|/dev/devmm_svm|/dev/hisi_hdc",
     .driver = "/usr/local/Ascend/driver|/usr/local/dcmi|/usr/local/bin/npu-smi|"
               "/etc/ascend_install.info"},
};
constexpr char kNetworkDevices[] = "/dev/infiniband";  // RDMA; of all kinds

void AddIfThere(std::string_view paths, bool is_device, CdiEdits* edits) {
  common::AnyWord(paths, [&](std::string_view path) {
    const std::string text(path);
    if (!text.empty() && common::Exists(text)) {
      edits->mounts.push_back(
          {.source = text, .target = text, .read_only = !is_device, .is_device = is_device});
    }
    return false;
  });
}

void Append(const CdiEdits& more, CdiEdits* edits) {
  edits->env.insert(edits->env.end(), more.env.begin(), more.env.end());
  edits->mounts.insert(edits->mounts.end(), more.mounts.begin(), more.mounts.end());
  edits->hooks.insert(edits->hooks.end(), more.hooks.begin(), more.hooks.end());
}

std::vector<uint32_t> Granted(const v1::NodePart& part) {
  std::vector<uint32_t> granted(part.device_indexes().begin(), part.device_indexes().end());
  std::sort(granted.begin(), granted.end());
  return granted;
}

absl::StatusOr<CdiEdits> ByCdi(const CdiSpec& spec, const v1::NodePart& part) {
  CdiEdits edits = spec.common;
  for (const uint32_t index : Granted(part)) {
    const auto found = spec.devices.find(common::StrCat(index));
    if (found == spec.devices.end()) {
      return absl::NotFoundError(common::StrCat("the node's CDI file of ", spec.kind,
                                                " has no device ", index,
                                                "; fix: make it again: nvidia-ctk cdi generate "
                                                "--format=json --output=/etc/cdi/nvidia.json"));
    }
    Append(found->second, &edits);
  }
  return edits;
}

}  // namespace

absl::StatusOr<CdiEdits> DeviceEdits(const v1::NodePart& part,
                                     const std::vector<std::string>& cdi_directories) {
  CdiEdits edits;
  const auto files = std::find_if(std::begin(kFiles), std::end(kFiles), [&](const auto& each) {
    return each.kind == part.device_kind();
  });
  if (files == std::end(kFiles) || part.device_indexes().empty()) return edits;
  if (!files->cdi_kind.empty()) {
    const absl::StatusOr<CdiSpec> spec = ReadCdi(files->cdi_kind, cdi_directories);
    if (spec.ok()) {
      ASSIGN_OR_RETURN(edits, ByCdi(*spec, part));
      AddIfThere(kNetworkDevices, true, &edits);
      return edits;
    }
    // A file that exists but cannot be read is an error to report; a missing one is not.
    if (!absl::IsNotFound(spec.status()))
      return absl::NotFoundError(
          common::StrCat(common::MessageOf(spec.status()), "; fix: correct or remove that file"));
  }
  for (const uint32_t index : Granted(part)) {
    const std::string path = common::StrCat(files->numbered, index);
    if (!common::Exists(path)) {
      return absl::NotFoundError(common::StrCat(
          path,
          " is not on the node; fix: check whether its driver is loaded, or describe its "
          "devices in /etc/cdi"));
    }
    edits.mounts.push_back({.source = path, .target = path, .is_device = true});
  }
  AddIfThere(files->shared, true, &edits);
  AddIfThere(kNetworkDevices, true, &edits);
  AddIfThere(files->driver, false, &edits);
  return edits;
}

void RenumberDevices(const v1::NodePart& part, std::vector<std::string>* env) {
  const common::DeviceKind* kind = common::FindDeviceKind(part.device_kind());
  if (kind == nullptr || kind->visible_variable.empty()) return;
  const std::vector<uint32_t> granted = Granted(part);
  const std::string prefix = common::StrCat(kind->visible_variable, "=");
  for (std::string& entry : *env) {
    if (!entry.starts_with(prefix)) continue;
    std::vector<uint32_t> numbers;
    for (const absl::string_view word :
         absl::StrSplit(entry.substr(prefix.size()), ',', absl::SkipEmpty())) {
      uint32_t index = 0;
      const auto found = absl::SimpleAtoi(word, &index)
                             ? std::find(granted.begin(), granted.end(), index)
                             : granted.end();
      if (found != granted.end()) numbers.push_back(static_cast<uint32_t>(found - granted.begin()));
    }
    entry = prefix + absl::StrJoin(numbers, ",");
  }
}

}  // namespace muster::worker
