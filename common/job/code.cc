#include "common/job/code.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/job/image_name.h"
#include "common/job/refuse.h"
#include "common/job/rules.h"
#include "common/outputs.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "muster/v1/job.pb.h"

namespace muster::job {
namespace {

using common::StrCat;

constexpr size_t kPathBytesMax = 4'096;
constexpr size_t kTextBytesMax = 1'024;  // where code came from
constexpr int kSetupWordsMax = 1'024;
constexpr size_t kSetupBytesMax = 64 << 10;
constexpr size_t kCommitDigits = 40;
constexpr size_t kLongCommitDigits = 64;

std::string Shown(const std::string& text) {
  return StrCat("\"", common::PrintableStart(text, kTextBytesMax), "\"");
}

bool IsCut(std::string_view text) { return text.find('\0') != std::string_view::npos; }

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool IsInside(const std::string& path) {
  return path.size() <= kPathBytesMax && common::StaysInside(path);
}

// Absolute, and the same path for every reader.
bool IsPlainAbsolute(const std::string& path) {
  return path.size() <= kPathBytesMax && !path.empty() && path[0] == '/' &&
         (path == "/" || common::StaysInside(std::string_view(path).substr(1)));
}

absl::Status CheckObject(std::string_view what, const std::string& name, uint64_t size) {
  constexpr std::string_view kFix = "jobctl fills in code; a job file sets workdir and sync: true";
  if (!common::IsSha256Hex(name)) {
    return Refuse(
        "JC1108",
        StrCat("code.", what, " ", Shown(name), " is not a SHA-256 in 64 lower-case hex digits"),
        kFix);
  }
  if (size >= 1 && size <= kManifestBytesMax) return absl::OkStatus();
  return Refuse("JC1108",
                StrCat("the ", what, " of the code has ", size, " bytes; it may have 1 to ",
                       kManifestBytesMax),
                kFix);
}

absl::Status CheckOrigin(const v1::CodeTree& code) {
  const std::string& commit = code.git_commit();
  const bool is_commit =
      commit.empty() ||
      ((commit.size() == kCommitDigits || commit.size() == kLongCommitDigits) && IsHex(commit));
  if (!is_commit) {
    return Refuse("JC1108", StrCat("code.git_commit ", Shown(commit), " is not a commit"),
                  "give its 40 or 64 hex digits, or leave it out");
  }
  if (code.from().size() > kTextBytesMax || !common::IsCleanUtf8(code.from())) {
    return Refuse("JC1108", StrCat("code.from ", Shown(code.from()), " is too long or not text"),
                  StrCat("give at most ", kTextBytesMax, " bytes of UTF-8"));
  }
  return absl::OkStatus();
}

absl::Status CheckMount(const v1::Mount& mount, std::set<std::string>& targets) {
  const std::string& target = TargetOf(mount);
  for (const std::string& path : {mount.source(), target}) {
    if (IsPlainAbsolute(path)) continue;
    return Refuse("JC1108",
                  StrCat("the mount ", Shown(path),
                         " is not an absolute path without \"..\", \".\" and empty parts"),
                  "mounts: [/data, /scratch:/tmp/scratch]");
  }
  if (targets.insert(target).second) return absl::OkStatus();
  return Refuse("JC1108", StrCat("two mounts are at ", Shown(target), " in the container"),
                "mount one of them elsewhere");
}

}  // namespace

const std::string& TargetOf(const v1::Mount& mount) {
  return mount.target().empty() ? mount.source() : mount.target();
}

absl::Status CheckCode(const v1::JobSpec& spec) {
  const std::string& workdir = spec.workdir();
  if (!spec.has_code()) {
    if (workdir.empty() || workdir[0] == '/') return absl::OkStatus();
    return Refuse("JC1107", StrCat("the working directory ", Shown(workdir), " is not absolute"),
                  "--workdir /absolute/path, or --sync to send the directory along");
  }
  if (!workdir.empty() && !IsInside(workdir)) {
    return Refuse("JC1107",
                  StrCat("the working directory ", Shown(workdir),
                         " is not a path below the code that the job brings"),
                  "name a directory below the one that is sent, or send none and name an absolute "
                  "path");
  }
  const v1::CodeTree& code = spec.code();
  RETURN_IF_ERROR(CheckObject("tree", code.tree(), code.manifest_bytes()));
  RETURN_IF_ERROR(CheckObject("placement", code.placement(), code.placement_bytes()));
  return CheckOrigin(code);
}

absl::Status CheckSetup(const v1::JobSpec& spec) {
  if (spec.setup().empty()) return absl::OkStatus();
  size_t bytes = 0;
  for (const std::string& word : spec.setup()) bytes += word.size();
  if (spec.setup(0).empty()) {
    return Refuse("JC1108", "setup names no program", "setup: pip install -r requirements.txt");
  }
  if (std::any_of(spec.setup().begin(), spec.setup().end(), IsCut))
    return Refuse("JC1108", "an argument of setup contains a NUL byte", "remove it");
  if (spec.setup_size() <= kSetupWordsMax && bytes <= kSetupBytesMax) return absl::OkStatus();
  return Refuse("JC1108",
                StrCat("setup has ", spec.setup_size(), " arguments of ", bytes,
                       " bytes; the limits are ", kSetupWordsMax, " and ", kSetupBytesMax),
                "put it into a script");
}

absl::Status CheckOutputs(const v1::JobSpec& spec) {
  if (spec.outputs_size() > kOutputsMax) {
    return Refuse(
        "JC1108",
        StrCat("outputs names ", spec.outputs_size(), " paths; the limit is ", kOutputsMax),
        "name the directory that they are in");
  }
  std::set<std::string> seen;
  for (const std::string& path : spec.outputs()) {
    const std::optional<std::string> clean = common::CleanOutput(path);
    if (!clean.has_value() || (!clean->empty() && !IsInside(*clean))) {
      return Refuse(
          "JC1108",
          StrCat("the output ", Shown(path), " is not a path below the working directory"),
          "outputs: [runs, model.pt], or . for all of it");
    }
    if (!seen.insert(*clean).second)
      return Refuse("JC1108", StrCat("the output ", Shown(path), " is named twice"),
                    "name it once");
  }
  return absl::OkStatus();
}

absl::Status CheckContainer(const v1::JobSpec& spec) {
  if (!spec.has_container()) return absl::OkStatus();
  const v1::ContainerSpec& container = spec.container();
  if (container.image().empty()) {
    return Refuse("JC1108", "the container names no image",
                  "image: docker.io/NAME@sha256:DIGEST, localhost/NAME or oci:/DIRECTORY");
  }
  RETURN_IF_ERROR(ParseImageName(container.image()).status());
  if (container.mounts_size() > kMountsMax) {
    return Refuse(
        "JC1108",
        StrCat("the container has ", container.mounts_size(), " mounts; the limit is ", kMountsMax),
        "mount a directory above them");
  }
  std::set<std::string> targets;
  for (const v1::Mount& mount : container.mounts()) RETURN_IF_ERROR(CheckMount(mount, targets));
  if (container.shm_bytes() <= kShmBytesMax) return absl::OkStatus();
  return Refuse(
      "JC1108",
      StrCat("the container's /dev/shm may have at most ", common::ExactBytes(kShmBytesMax),
             ", not ", common::ExactBytes(container.shm_bytes())),
      "shm: 8GiB, or omit it");
}

bool NeedsPreparation(const v1::JobSpec& spec) {
  return spec.has_code() || !spec.setup().empty() || !spec.container().image().empty();
}

}  // namespace muster::job
