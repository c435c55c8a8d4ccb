#include "coordinator/care/manifest.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::string_view kMagic = "muster-backup";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderWords = 6;
constexpr size_t kFileWords = 5;
constexpr std::string_view kSeal = "sha256 ";
constexpr size_t kSealBytes = 7 + 64 + 1;

absl::Status Damaged(const std::string& what) { return absl::DataLossError(what); }

bool ParseHeader(const std::vector<absl::string_view>& words, Manifest* manifest) {
  if (words.size() != kHeaderWords) return false;
  manifest->cluster = std::string(words[2]);
  return absl::SimpleAtoi(words[3], &manifest->number) &&
         absl::SimpleAtoi(words[4], &manifest->made_ms) &&
         absl::SimpleAtoi(words[5], &manifest->last_event);
}

bool ParseFile(const std::vector<absl::string_view>& words, SavedFile* file) {
  if (words.size() != kFileWords) return false;
  file->sha256 = std::string(words[1]);
  file->stored = std::string(words[3]);
  file->path = std::string(words[4]);
  return absl::SimpleAtoi(words[0], &file->size) && common::IsSha256Hex(file->sha256) &&
         absl::SimpleAtoi(words[2], &file->modified_ns) && IsSavedName(file->stored) &&
         IsSavedName(file->path);
}

}  // namespace

bool IsSavedName(std::string_view path) {
  for (const char letter : path) {
    const bool is_plain = absl::ascii_isalnum(static_cast<unsigned char>(letter)) ||
                          letter == '.' || letter == '_' || letter == '-' || letter == '/';
    if (!is_plain) return false;
  }
  return common::StaysInside(path);
}

std::string ManifestText(const Manifest& manifest) {
  std::string text = StrCat(kMagic, " ", kVersion, " ", manifest.cluster, " ", manifest.number, " ",
                            manifest.made_ms, " ", manifest.last_event, "\n");
  for (const SavedFile& file : manifest.files) {
    common::StrAppend(&text, file.size, " ", file.sha256, " ", file.modified_ns, " ", file.stored,
                      " ", file.path, "\n");
  }
  common::StrAppend(&text, kSeal, common::Sha256Hex(text), "\n");
  return text;
}

absl::StatusOr<Manifest> ParseManifest(std::string_view text) {
  if (text.substr(0, kMagic.size()) != kMagic) return Damaged("it is not a manifest of a backup");
  const std::vector<absl::string_view> first =
      absl::StrSplit(common::ToAbsl(text.substr(0, text.find('\n'))), ' ');
  uint32_t version = 0;
  if (first.size() > 1 && absl::SimpleAtoi(first[1], &version) && version > kVersion) {
    return absl::FailedPreconditionError(
        StrCat("it was written by a newer muster-coordinator (version ", version, ")"));
  }
  if (text.size() < kSealBytes) return Damaged("it is cut off");
  const std::string_view listed = text.substr(0, text.size() - kSealBytes);
  if (text.substr(listed.size()) != StrCat(kSeal, common::Sha256Hex(listed), "\n")) {
    return Damaged("it is cut off or damaged: its last line does not match the lines before it");
  }
  Manifest manifest;
  if (!ParseHeader(first, &manifest)) return Damaged("its first line cannot be read");
  size_t number = 1;
  for (absl::string_view line : absl::StrSplit(common::ToAbsl(listed), '\n', absl::SkipEmpty())) {
    if (number++ == 1) continue;
    if (!ParseFile(absl::StrSplit(line, ' '), &manifest.files.emplace_back())) {
      return Damaged(StrCat("its line ", number - 1, " cannot be read"));
    }
  }
  return manifest;
}

}  // namespace muster::coordinator
