#include "worker/base/addresses.h"

#include <algorithm>
#include <array>

#include "common/address_list.h"
#include "common/text/strings.h"
#include "common/text/url.h"

namespace muster::worker {
namespace {

constexpr std::string_view kLocal = "unix:";

// gRPC reads "unix:7700" as the socket 7700, not as a host named unix.
constexpr std::array<std::string_view, 10> kSchemes = {
    "unix",  "unix-abstract", "dns",         "ipv4",   "ipv6",
    "vsock", "xds",           "passthrough", "binder", "google-c2p"};

size_t EndOfFirst(std::string_view text) {
  if (!text.starts_with(kLocal)) return text.find(',');
  return text.find(common::StrCat(",", kLocal));
}

}  // namespace

std::vector<std::string> SplitAddresses(std::string_view text) {
  std::vector<std::string> addresses;
  while (true) {
    const size_t end = EndOfFirst(text);
    addresses.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return addresses;
    text.remove_prefix(end + 1);
  }
}

bool IsHostPort(std::string_view address) {
  if (address.size() > kHeadBytesMax || address.find_first_of("/?#") != std::string_view::npos)
    return false;
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || address.ends_with(']')) return false;
  if (std::find(kSchemes.begin(), kSchemes.end(), address.substr(0, colon)) != kSchemes.end())
    return false;
  return common::ParseHttpUrl(common::StrCat("https://", address)).ok();
}

std::vector<std::string> MergeHeads(const std::vector<std::string>& first,
                                    const std::vector<std::string>& more) {
  return common::MergeAddresses(first, more, kHeadsMax);
}

}  // namespace muster::worker
