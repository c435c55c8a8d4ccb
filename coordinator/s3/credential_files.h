// The files in which AWS's tools keep credentials: ~/.aws/credentials and ~/.aws/config. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::coordinator::s3 {

// limit: object stores: a file with credentials; an error
inline constexpr size_t kCredentialFileBytesMax = 1 << 20;

// The keys of one section; those that are nested below another key are left out.
using ProfileKeys = std::map<std::string, std::string>;

// The profile's section: "[name]", or "[profile name]" as ~/.aws/config has it. Empty: there is none.
ProfileKeys ReadProfile(std::string_view file, std::string_view profile);

}  // namespace muster::coordinator::s3
