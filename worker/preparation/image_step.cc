#include "worker/preparation/image_step.h"

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/job/image_name.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "worker/containers/container_tools.h"
#include "worker/preparation/image_tools.h"
#include "worker/preparation/layout_files.h"
#include "worker/preparation/without_rights.h"

namespace muster::worker {
namespace {

using common::StrCat;
namespace fs = std::filesystem;

constexpr int64_t kImageSayEveryMs = 1'000;
// limit: images: files; refused
constexpr uint64_t kImageEntriesMax = 4'000'000;
constexpr int kAskMs = 120'000;             // a registry or podman, about an image
constexpr uint64_t kFetchSlack = 64 << 20;  // beside the layers
constexpr char kDigestWord[] = "sha256:";

class ImageStep {
 public:
  ImageStep(PreparationContext& context, job::ImageName name, const RankAccount& account,
            const Progress& progress)
      : context_(context), name_(std::move(name)), account_(account), progress_(progress) {}

  absl::StatusOr<CachedImage> Get() {
    ASSIGN_OR_RETURN(const std::string key, SourceKey());
    // One turn per source: a registry that never answers does not delay images from another.
    ASSIGN_OR_RETURN(const Turns::Turn turn,
                     context_.turns.Take(StrCat("image ", name_.repository, " ", key), progress_));
    const Progress shared = turn.Shared(progress_);
    progress_ = shared;
    const std::string known = KnownAs(key);
    if (!known.empty()) {
      if (absl::StatusOr<CachedImage> cached = FromCache(known); cached.ok()) {
        if (name_.kind == job::ImageName::Kind::kLayout) RETURN_IF_ERROR(CheckHeld());
        return cached;
      }
    }
    ASSIGN_OR_RETURN(const std::string directory, context_.cache.NewDirectory());
    absl::Status made = FetchInto(directory, key);
    const absl::Status removed = common::RemoveTree(directory);
    RETURN_IF_ERROR(made);
    RETURN_IF_ERROR(removed);
    // The worker has just read and hashed it with the account's rights.
    const bool is_others = name_.kind == job::ImageName::Kind::kLayout && account_.ids.is_other;
    if (is_others) RETURN_IF_ERROR(NoteHeld());
    context_.cache.Collect();
    return FromCache(layout_.taken.manifest_hex);
  }

 private:
  const ContainerTools& tools() const { return context_.setup.containers; }

  // Runs a tool for its output.
  absl::StatusOr<std::string> Ask(std::vector<std::string> words, size_t output_max = 0) {
    ToolEnd end = RunTool(
        {.words = std::move(words), .output_max = output_max, .timeout_ms = kAskMs}, progress_);
    RETURN_IF_ERROR(end.status);
    return std::move(end.out);
  }
  // `bytes_max`: how large `to` may grow.
  absl::Status Fetch(std::vector<std::string> words, const std::string& to, uint64_t bytes_max) {
    return RunTool({.words = std::move(words),
                    .grows = to,
                    .bytes_max = bytes_max,
                    .says = StrCat("fetching image ", name_.text)},
                   progress_)
        .status;
  }

  // A key that names the same bytes as long as the cache has them.
  absl::StatusOr<std::string> SourceKey() {
    switch (name_.kind) {
      case job::ImageName::Kind::kLayout: {
        layout_.source = {.directory = name_.directory, .account = account_};
        ASSIGN_OR_RETURN(layout_.taken, ReadLayout(layout_.source, ""));
        return layout_.taken.manifest_hex;
      }
      case job::ImageName::Kind::kRegistry:
        return StrCat(kDigestWord, name_.digest);
      case job::ImageName::Kind::kLocal:
        break;
    }
    if (tools().podman.empty()) {
      return absl::FailedPreconditionError(
          "podman, whose images have such names, is not on that worker's PATH; fix: install it, or "
          "name docker.io/NAME@sha256:DIGEST or oci:DIRECTORY");
    }
    const absl::StatusOr<std::string> found =
        Ask({tools().podman, "image", "inspect", "--format", "{{.Id}}", "--", name_.text});
    const std::string id = found.ok() ? std::string(absl::StripAsciiWhitespace(*found)) : "";
    if (found.ok() && common::IsSha256Hex(id)) return StrCat("id:", id);
    if (absl::IsCancelled(found.status())) return found.status();
    return absl::NotFoundError(
        StrCat("the podman of that worker's user does not have it",
               found.ok() ? "" : StrCat(" (", common::MessageOf(found.status()), ")"),
               "; fix: build or pull it there, or name docker.io/NAME@sha256:DIGEST"));
  }

  std::string NameFile(const std::string& key) const {
    return StrCat(context_.setup.paths.CodeDir(), "/image-names/", common::Sha256Hex(key));
  }
  std::string KnownAs(const std::string& key) const {
    if (name_.kind == job::ImageName::Kind::kLayout) return key;
    const auto known = common::ReadFile(NameFile(key), 64);
    return known.ok() && common::IsSha256Hex(*known) ? *known : "";
  }

  absl::StatusOr<CachedImage> FromCache(const std::string& hex) {
    CachedImage cached;
    cached.path = context_.cache.ImagePath(hex);
    cached.pin = context_.cache.Hold(cached.path);
    if (!context_.cache.Use(cached.path)) return absl::NotFoundError("it is not in the cache");
    ASSIGN_OR_RETURN(const std::string config,
                     common::ReadFile(cached.path + "/config.json", kImageJsonBytesMax));
    ASSIGN_OR_RETURN(cached.image.config, ParseImageConfig(config));
    cached.image.name = name_.text;
    cached.image.root = cached.path + "/root";
    cached.image.digest = StrCat(kDigestWord, name_.digest.empty() ? hex : name_.digest);
    return cached;
  }

  absl::Status FetchInto(const std::string& directory, const std::string& key) {
    progress_.say(StrCat("fetching image ", name_.text));
    if (name_.kind != job::ImageName::Kind::kLayout) {
      const std::string fetched = directory + "/fetched";
      RETURN_IF_ERROR(common::MakeDirectories(fetched));
      std::string wanted;
      if (name_.kind == job::ImageName::Kind::kLocal) {
        RETURN_IF_ERROR(CopyFromPodman(key.substr(3), fetched));
      } else if (!tools().skopeo.empty()) {
        ASSIGN_OR_RETURN(wanted, FetchBySkopeo(fetched));
      } else {
        RETURN_IF_ERROR(FetchByPodman(fetched));
      }
      layout_.source = {.directory = fetched, .is_oci = false, .is_ours = true, .account = {}};
      ASSIGN_OR_RETURN(layout_.taken, ReadLayout(layout_.source, wanted));
    }
    RETURN_IF_ERROR(Unpack(directory));
    if (name_.kind == job::ImageName::Kind::kLayout) return absl::OkStatus();
    return NoteName(NameFile(key), layout_.taken.manifest_hex);
  }

  // An account may use a layout's image if it can read all of it. One check is enough, as the bytes never
  // change afterwards.
  absl::Status CheckHeld() {
    if (!account_.ids.is_other) return absl::OkStatus();  // has the worker's own rights
    if (common::Exists(HeldFile())) return absl::OkStatus();
    RETURN_IF_ERROR(CheckLayers(layout_.source, layout_.taken, Verifying()));
    return NoteHeld();
  }

  std::string HeldFile() const {
    return NameFile(StrCat("seen by ", account_.ids.uid, " ", layout_.taken.manifest_hex));
  }
  absl::Status NoteHeld() const { return NoteName(HeldFile(), layout_.taken.manifest_hex); }

  absl::Status NoteName(const std::string& file, const std::string& hex) const {
    RETURN_IF_ERROR(common::MakeDirectories(context_.setup.paths.CodeDir() + "/image-names"));
    return common::WriteFileDurably(file, hex);
  }

  // The registry's answer, checked against the digest.
  absl::StatusOr<std::string> RegistryManifest(const std::string& from, const std::string& hex) {
    ASSIGN_OR_RETURN(std::string raw,
                     Ask({tools().skopeo, "inspect", "--raw", from + hex}, kImageJsonBytesMax + 1));
    if (const std::string got = common::Sha256Hex(raw); got != hex)
      return absl::DataLossError(StrCat("the registry answered with sha256:", got));
    return raw;
  }

  // The digest may be that of an index: then the image is one of the manifests that it lists. Returns
  // which.
  absl::StatusOr<std::string> FetchBySkopeo(const std::string& to) {
    const std::string from = StrCat("docker://", name_.repository, "@", kDigestWord);
    std::string wanted = name_.digest;
    ASSIGN_OR_RETURN(std::string raw, RegistryManifest(from, wanted));
    if (IsImageIndex(raw)) {
      ASSIGN_OR_RETURN(const ImageBlob chosen, ChooseManifest(raw));
      wanted = chosen.hex;
      ASSIGN_OR_RETURN(raw, RegistryManifest(from, wanted));
    }
    ASSIGN_OR_RETURN(const ImageManifest manifest, ParseManifest(raw));
    const uint64_t bytes = PackedBytes(manifest);
    RETURN_IF_ERROR(context_.cache.MakeRoom("the job's image", 2 * bytes));
    RETURN_IF_ERROR(Fetch({tools().skopeo, "copy", "--quiet", from + wanted, "dir:" + to}, to,
                          bytes + kFetchSlack));
    return wanted;
  }

  // Podman verifies the digest, and names it afterwards; the layers are as it stores them.
  absl::Status FetchByPodman(const std::string& to) {
    if (tools().podman.empty()) {
      return absl::FailedPreconditionError(
          "neither skopeo nor podman is on that worker's PATH; fix: install one, or name an "
          "oci:DIRECTORY");
    }
    const std::string reference = StrCat(name_.repository, "@", kDigestWord, name_.digest);
    const bool was_there = Ask({tools().podman, "image", "exists", reference}).ok();
    RETURN_IF_ERROR(
        RunTool({.words = {tools().podman, "pull", "--quiet", reference}}, progress_).status);
    ASSIGN_OR_RETURN(const std::string found,
                     Ask({tools().podman, "image", "inspect", "--format",
                          "{{.Id}} {{join .RepoDigests \" \"}}", reference},
                         kImageJsonBytesMax));
    const std::vector<std::string> words = absl::StrSplit(absl::StripAsciiWhitespace(found), ' ');
    if (!common::IsSha256Hex(words.front()) ||
        !absl::StrContains(found, StrCat("@", kDigestWord, name_.digest)))
      return absl::DataLossError("podman pulled an image with another digest");
    const absl::Status copied = CopyFromPodman(words.front(), to);
    // --cache-size does not limit podman's storage.
    if (!was_there) Ask({tools().podman, "rmi", words.front()}).status().IgnoreError();
    return copied;
  }

  absl::Status CopyFromPodman(const std::string& id, const std::string& to) {
    return Fetch({tools().podman, "push", "--quiet", id, "dir:" + to}, to, kImageBytesMax);
  }

  static uint64_t PackedBytes(const ImageManifest& manifest) {
    uint64_t bytes = 0;
    for (const ImageBlob& layer : manifest.layers) bytes += layer.size;
    return bytes;
  }

  // Reports progress while bytes are hashed.
  std::function<bool(uint64_t)> Verifying() {
    return [this, packed = PackedBytes(layout_.taken.manifest),
            said_ms = common::MonotonicMs()](uint64_t bytes) mutable {
      if (const int64_t now_ms = common::MonotonicMs(); now_ms - said_ms >= kImageSayEveryMs) {
        said_ms = now_ms;
        progress_.say(StrCat("verifying image ", name_.text, ": ", common::HumanBytes(bytes),
                             " of ", common::HumanBytes(packed)));
      }
      return !progress_.stopped();
    };
  }

  absl::Status Unpack(const std::string& directory) {
    RETURN_IF_ERROR(
        context_.cache.MakeRoom("the job's image", 2 * PackedBytes(layout_.taken.manifest)));
    const std::string layout = directory + "/layout", entry = directory + "/entry";
    RETURN_IF_ERROR(TakeLayout(layout_.source, layout_.taken, layout, Verifying()));
    RETURN_IF_ERROR(common::MakeDirectories(entry));
    RETURN_IF_ERROR(UnpackLayers(layout, entry));
    ASSIGN_OR_RETURN(const uint64_t bytes, TakeRights(entry, kImageEntriesMax));
    if (rename((layout + "/blobs/sha256/" + layout_.taken.manifest.config.hex).c_str(),
               (entry + "/config.json").c_str()) != 0)
      return common::ErrnoStatus("cannot keep the image's configuration");
    return Keep(entry, bytes);
  }

  // "rootless": here every file of the image belongs to the worker; devices become files.
  absl::Status UnpackLayers(const std::string& layout, const std::string& entry) {
    progress_.say(StrCat("unpacking image ", name_.text));
    const ToolEnd end = RunTool({.words = {tools().umoci, "raw", "unpack", "--rootless", "--image",
                                           layout + ":image", entry + "/root"},
                                 .grows = entry,
                                 .bytes_max = kImageBytesMax,
                                 .says = StrCat("unpacking image ", name_.text)},
                                progress_);
    const bool is_of_image = absl::IsUnavailable(end.status) && end.exited;
    return is_of_image ? absl::DataLossError(end.status.message()) : end.status;
  }

  // Held until the attempt uses it: the next Collect would remove an entry that nothing uses.
  absl::Status Keep(const std::string& entry, uint64_t bytes) {
    const std::string path = context_.cache.ImagePath(layout_.taken.manifest_hex);
    ASSIGN_OR_RETURN(const Turns::Turn turn, context_.turns.Take(StrCat("keep ", path), progress_));
    pin_ = context_.cache.Hold(path);
    if (context_.cache.Use(path)) return absl::OkStatus();  // the same image, by another name
    context_.cache.Discard(path);
    if (rename(entry.c_str(), path.c_str()) != 0)
      return common::ErrnoStatus(StrCat("cannot rename ", entry));
    return context_.cache.Complete(path, bytes);
  }

  struct Layout {
    LayoutSource source;
    TakenLayout taken;
  };

  PreparationContext& context_;
  const job::ImageName name_;
  const RankAccount& account_;
  Progress progress_;
  Layout layout_;
  CodeCache::Pin pin_;
};

// Our own sentences end with the fix.
std::string_view FixOf(const absl::Status& status, const job::ImageName& name) {
  if (absl::StrContains(status.message(), "; fix: ")) return "";
  if (absl::IsDataLoss(status)) return "; fix: make or push the image again";
  if (absl::IsResourceExhausted(status)) return "";
  return name.kind == job::ImageName::Kind::kLayout
             ? "; fix: name a directory that the job's account can read on that node, with "
               "oci-layout, index.json and blobs in it"
             : "; fix: check whether that node reaches the registry, with the credentials of its "
               "worker's user";
}

}  // namespace

absl::StatusOr<CachedImage> GetImage(PreparationContext& context, const std::string& text,
                                     const RankAccount& account, const Progress& progress) {
  absl::StatusOr<job::ImageName> name = job::ParseImageName(text);
  if (!name.ok()) {
    return absl::InvalidArgumentError(
        StrCat("node ", context.setup.node, ": ", common::MessageOf(name.status())));
  }
  absl::StatusOr<CachedImage> image = ImageStep(context, *name, account, progress).Get();
  if (image.ok() || absl::IsCancelled(image.status())) return image;
  return absl::Status(
      image.status().code(),
      StrCat("node ", context.setup.node, " cannot get the image ", name->text, ": ",
             common::MessageOf(image.status()), FixOf(image.status(), *name)));
}

absl::Status UseImage(const Paths& paths, const AttemptKey& key, const CachedImage& image) {
  const std::string link = paths.AttemptImage(key);
  unlink(link.c_str());
  if (symlink(image.path.c_str(), link.c_str()) == 0) return absl::OkStatus();
  return common::ErrnoStatus(StrCat("cannot create ", link));
}

}  // namespace muster::worker
