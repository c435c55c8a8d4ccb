#include "worker/containers/image_step.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/job/image_name.h"
#include "common/problem.h"
#include "common/sha256.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "common/units.h"
#include "worker/containers/container_tools.h"
#include "worker/containers/layout_files.h"

namespace muster::worker {
namespace {

using common::StrCat;
namespace fs = std::filesystem;

constexpr int64_t kImageSayEveryMs = 1'000;
constexpr size_t kToolWordsMax = 400;  // of what a tool printed
// Of registries, by their protocol.
constexpr const char* kFinalWords[] = {"manifest unknown", "name unknown", "unauthorized",
                                       "access to the resource is denied"};
constexpr char kDigestWord[] = "sha256:";

// The last line with words: tools end with their reason.
std::string LastLine(const std::string& text) {
  std::string last;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    last = std::string(absl::StripAsciiWhitespace(line));
  }
  if (last.size() > kToolWordsMax) last.erase(0, last.size() - kToolWordsMax);
  return common::Printable(last);
}

// On the disk. What cannot be looked at counts as nothing.
uint64_t TreeBytes(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    struct stat info {};
    if (lstat(at->path().c_str(), &info) == 0) bytes += uint64_t(info.st_blocks) * 512;
  }
  return bytes;
}

class ImageStep {
 public:
  ImageStep(Workshop& shop, job::ImageName name, const RankAccount& account,
            const Progress& progress)
      : shop_(shop), name_(std::move(name)), account_(account), progress_(progress) {}

  absl::StatusOr<CachedImage> Get() {
    ASSIGN_OR_RETURN(const std::string key, SourceKey());
    ASSIGN_OR_RETURN(const Turns::Turn turn, shop_.turns.Take(StrCat("image ", key), progress_));
    const Progress shared = turn.Shared(progress_);
    progress_ = shared;
    const std::string known = KnownAs(key);
    if (!known.empty()) {
      if (absl::StatusOr<CachedImage> cached = FromCache(known); cached.ok()) {
        if (layout_.source.is_oci && !layout_.source.directory.empty())
          RETURN_IF_ERROR(CheckReadable(layout_.source, layout_.taken));
        return cached;
      }
    }
    ASSIGN_OR_RETURN(const std::string directory, shop_.cache.NewDirectory());
    absl::Status made = FetchInto(directory, key);
    const absl::Status removed = common::RemoveTree(directory);
    RETURN_IF_ERROR(made);
    RETURN_IF_ERROR(removed);
    shop_.cache.Collect();
    return FromCache(layout_.taken.manifest_hex);
  }

 private:
  const ContainerTools& tools() const { return shop_.setup.containers; }

  absl::StatusOr<CommandOutput> RunTool(std::vector<std::string> words, size_t bytes_max,
                                        const std::string& grows = "") {
    const std::string tool = fs::path(words.front()).filename();
    BoundedCommand command = ToolCommand(std::move(words));
    if (bytes_max > 0) command.bytes_max = bytes_max;
    std::atomic<bool> stop = false;
    int64_t said_ms = common::MonotonicMs();
    command.stop = &stop;
    command.tick = [&] {
      if (progress_.stopped()) stop = true;
      const int64_t now_ms = common::MonotonicMs();
      if (grows.empty() || now_ms - said_ms < kImageSayEveryMs) return;
      said_ms = now_ms;
      progress_.say(
          StrCat("fetching image ", name_.text, ": ", common::HumanBytes(TreeBytes(grows))));
    };
    CommandOutput output = RunBounded(command);
    if (stop) return StoppedStatus();
    if (output.problem.empty()) return output;
    const std::string said = LastLine(output.err);
    const std::string why =
        StrCat(tool, ": ", output.problem, said.empty() ? "" : StrCat(": ", said));
    // Another try gets the same answer.
    const bool is_final =
        std::any_of(std::begin(kFinalWords), std::end(kFinalWords),
                    [&](const char* words) { return absl::StrContains(output.err, words); });
    return is_final ? absl::NotFoundError(why) : absl::UnavailableError(why);
  }

  // What names the same bytes for as long as the cache has them.
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
    const absl::StatusOr<CommandOutput> found =
        RunTool({tools().podman, "image", "inspect", "--format", "{{.Id}}", "--", name_.text}, 0);
    const std::string id = found.ok() ? std::string(absl::StripAsciiWhitespace(found->out)) : "";
    if (found.ok() && common::IsSha256Hex(id)) return StrCat("id:", id);
    if (absl::IsCancelled(found.status())) return found.status();
    return absl::NotFoundError(
        StrCat("the podman of that worker's user does not have it",
               found.ok() ? "" : StrCat(" (", common::MessageOf(found.status()), ")"),
               "; fix: build or pull it there, or name docker.io/NAME@sha256:DIGEST"));
  }

  std::string NameFile(const std::string& key) const {
    return StrCat(shop_.setup.paths.CodeDir(), "/image-names/", common::Sha256Hex(key));
  }
  std::string KnownAs(const std::string& key) const {
    if (name_.kind == job::ImageName::Kind::kLayout) return key;
    const auto known = common::ReadFile(NameFile(key), 64);
    return known.ok() && common::IsSha256Hex(*known) ? *known : "";
  }

  absl::StatusOr<CachedImage> FromCache(const std::string& hex) {
    CachedImage cached;
    cached.path = shop_.cache.ImagePath(hex);
    cached.pin = shop_.cache.Hold(cached.path);
    if (!shop_.cache.Use(cached.path)) return absl::NotFoundError("it is not in the cache");
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
    RETURN_IF_ERROR(common::MakeDirectories(shop_.setup.paths.CodeDir() + "/image-names"));
    return common::WriteFileDurably(NameFile(key), layout_.taken.manifest_hex);
  }

  // The digest may be an index's: then it is one of the manifests that this lists. Returns which.
  absl::StatusOr<std::string> FetchBySkopeo(const std::string& to) {
    const std::string from = std::string(StrCat("docker://", name_.repository, "@", kDigestWord));
    ASSIGN_OR_RETURN(
        const CommandOutput raw,
        RunTool({tools().skopeo, "inspect", "--raw", from + name_.digest}, kImageJsonBytesMax + 1));
    if (const std::string hex = common::Sha256Hex(raw.out); hex != name_.digest)
      return absl::DataLossError(StrCat("the registry answered with sha256:", hex));
    std::string wanted = name_.digest;
    if (IsImageIndex(raw.out)) {
      ASSIGN_OR_RETURN(const ImageBlob chosen, ChooseManifest(raw.out));
      wanted = chosen.hex;
    }
    RETURN_IF_ERROR(
        RunTool({tools().skopeo, "copy", "--quiet", from + wanted, "dir:" + to}, 0, to).status());
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
    RETURN_IF_ERROR(RunTool({tools().podman, "pull", "--quiet", reference}, 0).status());
    ASSIGN_OR_RETURN(const CommandOutput found,
                     RunTool({tools().podman, "image", "inspect", "--format",
                              "{{.Id}} {{join .RepoDigests \" \"}}", reference},
                             kImageJsonBytesMax));
    const std::vector<std::string> words =
        absl::StrSplit(absl::StripAsciiWhitespace(found.out), ' ');
    if (!common::IsSha256Hex(words.front()) ||
        !absl::StrContains(found.out, StrCat("@", kDigestWord, name_.digest)))
      return absl::DataLossError("podman pulled something of another digest");
    return CopyFromPodman(words.front(), to);
  }

  absl::Status CopyFromPodman(const std::string& id, const std::string& to) {
    return RunTool({tools().podman, "push", "--quiet", id, "dir:" + to}, 0, to).status();
  }

  absl::Status Unpack(const std::string& directory) {
    uint64_t packed = 0;
    for (const ImageBlob& layer : layout_.taken.manifest.layers) packed += layer.size;
    RETURN_IF_ERROR(shop_.cache.MakeRoom("the job's image", 2 * packed));
    const std::string layout = directory + "/layout", entry = directory + "/entry";
    int64_t said_ms = common::MonotonicMs();
    RETURN_IF_ERROR(TakeLayout(layout_.source, layout_.taken, layout, [&](uint64_t bytes) {
      if (const int64_t now_ms = common::MonotonicMs(); now_ms - said_ms >= kImageSayEveryMs) {
        said_ms = now_ms;
        progress_.say(StrCat("verifying image ", name_.text, ": ", common::HumanBytes(bytes),
                             " of ", common::HumanBytes(packed)));
      }
      return !progress_.stopped();
    }));
    progress_.say(StrCat("unpacking image ", name_.text));
    RETURN_IF_ERROR(common::MakeDirectories(entry));
    // "rootless": whoever owns a file in the image, here it is the worker's; devices become files.
    absl::Status unpacked = RunTool({tools().umoci, "raw", "unpack", "--rootless", "--image",
                                     layout + ":image", entry + "/root"},
                                    0)
                                .status();
    if (absl::IsUnavailable(unpacked)) unpacked = absl::DataLossError(unpacked.message());
    RETURN_IF_ERROR(unpacked);
    if (rename((layout + "/blobs/sha256/" + layout_.taken.manifest.config.hex).c_str(),
               (entry + "/config.json").c_str()) != 0)
      return common::ErrnoStatus("cannot keep the image's configuration");
    const std::string path = shop_.cache.ImagePath(layout_.taken.manifest_hex);
    const CodeCache::Pin pin = shop_.cache.Hold(path);
    if (shop_.cache.Use(path)) return absl::OkStatus();  // the same image, by another name
    shop_.cache.Discard(path);
    const uint64_t bytes = TreeBytes(entry);
    if (rename(entry.c_str(), path.c_str()) != 0)
      return common::ErrnoStatus(StrCat("cannot rename ", entry));
    return shop_.cache.Complete(path, bytes);
  }

  struct Layout {
    LayoutSource source;
    TakenLayout taken;
  };

  Workshop& shop_;
  const job::ImageName name_;
  const RankAccount& account_;
  Progress progress_;
  Layout layout_;
};

// Sentences of our own end with the fix.
std::string_view FixOf(const absl::Status& status, const job::ImageName& name) {
  if (absl::StrContains(status.message(), "; fix: ")) return "";
  if (absl::IsDataLoss(status)) return "; fix: make or push the image again";
  if (absl::IsResourceExhausted(status)) return "";
  return name.kind == job::ImageName::Kind::kLayout
             ? "; fix: name a directory that the job's account can read on that node, with "
               "oci-layout, index.json and blobs in it"
             : "; fix: see whether that node reaches the registry, with the credentials of its "
               "worker's user";
}

}  // namespace

absl::StatusOr<CachedImage> GetImage(Workshop& shop, const std::string& text,
                                     const RankAccount& account, const Progress& progress) {
  absl::StatusOr<job::ImageName> name = job::ParseImageName(text);
  if (!name.ok()) {
    return absl::InvalidArgumentError(
        StrCat("node ", shop.setup.node, ": ", common::MessageOf(name.status())));
  }
  absl::StatusOr<CachedImage> image = ImageStep(shop, *name, account, progress).Get();
  if (image.ok() || absl::IsCancelled(image.status())) return image;
  return absl::Status(image.status().code(),
                      StrCat("node ", shop.setup.node, " cannot get the image ", name->text, ": ",
                             common::MessageOf(image.status()), FixOf(image.status(), *name)));
}

absl::Status UseImage(const Paths& paths, const AttemptKey& key, const CachedImage& image) {
  const std::string link = paths.AttemptImage(key);
  unlink(link.c_str());
  if (symlink(image.path.c_str(), link.c_str()) == 0) return absl::OkStatus();
  return common::ErrnoStatus(StrCat("cannot create ", link));
}

absl::StatusOr<ReadyImage> ImageOf(const Paths& paths, const AttemptKey& key,
                                   const std::string& name) {
  std::error_code error;
  const std::string hex = fs::read_symlink(paths.AttemptImage(key), error).filename();
  if (error || !common::IsSha256Hex(hex))
    return absl::NotFoundError("the attempt's image was not prepared");
  ReadyImage image;
  image.name = name;
  image.digest = kDigestWord + hex;
  const std::string entry = StrCat(paths.CodeImages(), "/", hex);
  image.root = entry + "/root";
  ASSIGN_OR_RETURN(const std::string config,
                   common::ReadFile(entry + "/config.json", kImageJsonBytesMax));
  ASSIGN_OR_RETURN(image.config, ParseImageConfig(config));
  return image;
}

}  // namespace muster::worker
