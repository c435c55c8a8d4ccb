#include "common/job/image_name.h"

#include <algorithm>

#include "common/hash/sha256.h"
#include "common/job/refuse.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::job {
namespace {

constexpr size_t kNameBytesMax = 512;
constexpr std::string_view kLayoutPrefix = "oci:";
constexpr std::string_view kDigestMark = "@sha256:";

absl::Status NotAnImage(std::string_view text, std::string_view why, std::string_view fix) {
  return Refuse(
      "JC1108",
      common::StrCat("the image \"", common::Printable(text.substr(0, kNameBytesMax)), "\": ", why),
      fix);
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/:").find(c) != std::string_view::npos;
}

bool IsRepository(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsNameCharacter) &&
         std::string_view("._-/:").find(text.front()) == std::string_view::npos &&
         common::StaysInside(text);
}

// A registry's host has a dot or a port; podman uses "localhost" for images that it built locally.
bool NamesRegistry(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view host = text.substr(0, slash);
  return host != "localhost" && host.find_first_of(".:") != std::string_view::npos;
}

absl::StatusOr<ImageName> ParseLayout(std::string_view text, ImageName name) {
  name.kind = ImageName::Kind::kLayout;
  name.directory = text.substr(kLayoutPrefix.size());
  const std::string& path = name.directory;
  if (!path.starts_with('/') || !common::StaysInside(std::string_view(path).substr(1)) ||
      !common::IsCleanUtf8(path)) {
    return NotAnImage(text, "the directory is not an absolute path without . and ..",
                      "oci:/path/of/the/layout");
  }
  return name;
}

}  // namespace

absl::StatusOr<ImageName> ParseImageName(std::string_view text) {
  ImageName name;
  name.text = text;
  if (text.size() > kNameBytesMax) return NotAnImage(text, "it is too long", "a shorter name");
  if (text.starts_with(kLayoutPrefix)) return ParseLayout(text, std::move(name));
  const size_t mark = text.find(kDigestMark);
  const std::string_view repository = text.substr(0, mark);
  if (!IsRepository(repository)) {
    return NotAnImage(text, "this is not the name of an image",
                      "docker.io/NAME@sha256:DIGEST, localhost/NAME or oci:DIRECTORY");
  }
  if (mark == std::string_view::npos) {
    if (!NamesRegistry(repository)) return name;
    return NotAnImage(
        text, "a tag can mean another image on each node and tomorrow",
        common::StrCat("name its digest: ", repository.substr(0, repository.rfind(':')),
                       "@sha256:…, as `skopeo inspect docker://", repository, "` prints it"));
  }
  name.digest = text.substr(mark + kDigestMark.size());
  if (!common::IsSha256Hex(name.digest))
    return NotAnImage(text, "its digest is not 64 lower-case hex digits", "copy the whole digest");
  if (!NamesRegistry(repository)) {
    return NotAnImage(
        text, "a name with a digest needs its registry",
        common::StrCat("docker.io/",
                       repository.find('/') == std::string_view::npos ? "library/" : "", repository,
                       kDigestMark, name.digest));
  }
  name.kind = ImageName::Kind::kRegistry;
  // "NAME:TAG@sha256:…": the tag is for people.
  const size_t colon = repository.rfind(':');
  const bool has_tag =
      colon != std::string_view::npos && repository.find('/', colon) == std::string_view::npos;
  name.repository = has_tag ? repository.substr(0, colon) : repository;
  return name;
}

}  // namespace muster::job
