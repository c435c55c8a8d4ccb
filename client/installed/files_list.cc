#include "client/installed/files_list.h"

#include "absl/strings/str_split.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr std::string_view kFirst = "# muster-files 1";
constexpr std::string_view kPackage = "# package: ";
constexpr std::string_view kSignedBy = "# signed-by: ";
constexpr std::string_view kWhole = "# whole: ";
constexpr std::string_view kNobody = "nobody";
constexpr size_t kHexDigits = 64;

bool ReadComment(std::string_view line, FilesList& list) {
  if (line.starts_with(kPackage)) list.package = line.substr(kPackage.size());
  if (line.starts_with(kSignedBy)) list.signed_by = line.substr(kSignedBy.size());
  if (line.starts_with(kWhole)) list.whole.emplace_back(line.substr(kWhole.size()));
  return line.starts_with('#');
}

// "HEX  PATH".
bool ReadFileLine(std::string_view line, FilesList& list) {
  if (line.size() <= kHexDigits + 2 || line.substr(kHexDigits, 2) != "  ") return false;
  ListedFile file{.path = std::string(line.substr(kHexDigits + 2)),
                  .sha256 = std::string(line.substr(0, kHexDigits))};
  if (!common::IsSha256Hex(file.sha256) || file.path.starts_with('/')) return false;
  list.files.push_back(std::move(file));
  return true;
}

}  // namespace

absl::StatusOr<FilesList> ParseFilesList(std::string_view text) {
  FilesList list;
  size_t number = 0;
  for (const absl::string_view each : absl::StrSplit(common::ToAbsl(text), '\n')) {
    const std::string_view line(each.data(), each.size());
    ++number;
    if (number == 1 ? line == kFirst
                    : line.empty() || ReadComment(line, list) || ReadFileLine(line, list))
      continue;
    return absl::InvalidArgumentError(StrCat("line ", number,
                                             " is not a line of a list of files: \"",
                                             common::Printable(line.substr(0, 80)), "\""));
  }
  if (list.signed_by == kNobody) list.signed_by.clear();
  return list;
}

}  // namespace muster::client
