#include "coordinator/s3/credential_files.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/text/strings.h"

namespace muster::coordinator::s3 {
namespace {

std::string_view Stripped(std::string_view text) {
  return common::FromAbsl(absl::StripAsciiWhitespace(common::ToAbsl(text)));
}

// "[profile name]" or "[name]"; empty: it is not the head of a section.
std::string_view SectionOf(std::string_view line) {
  const size_t end = line.find(']');
  if (!line.starts_with('[') || end == std::string_view::npos) return {};
  const std::string_view name = Stripped(line.substr(1, end - 1));
  constexpr std::string_view kProfile = "profile ";
  return name.starts_with(kProfile) ? Stripped(name.substr(kProfile.size())) : name;
}

}  // namespace

ProfileKeys ReadProfile(std::string_view file, std::string_view profile) {
  ProfileKeys keys;
  bool is_in_section = false;
  for (const absl::string_view part : absl::StrSplit(common::ToAbsl(file), '\n')) {
    const std::string_view line = common::FromAbsl(part);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_in_section = SectionOf(line) == profile;
      continue;
    }
    const size_t equals = line.find('=');
    const bool is_nested = line.front() == ' ' || line.front() == '\t';
    if (!is_in_section || is_nested || equals == std::string_view::npos) continue;
    keys[std::string(Stripped(line.substr(0, equals)))] = Stripped(line.substr(equals + 1));
  }
  return keys;
}

}  // namespace muster::coordinator::s3
