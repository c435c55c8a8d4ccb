// Addresses of the coordinators ("heads") that serve a cluster in turn: "HOST:PORT", or "unix:/path" on this
// machine. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::worker {

// limit: nodes: addresses of coordinators that a worker dials in turn; more are ignored
inline constexpr size_t kHeadsMax = 16;
// limit: nodes: bytes of such an address that a coordinator names; a longer one is ignored
inline constexpr size_t kHeadBytesMax = 255;

// "a:7700,b:7700" as its parts, also empty ones. As a path may have a comma, "unix:/path" ends at ",unix:" or at
// the end of the text.
std::vector<std::string> SplitAddresses(std::string_view text);
// Whether an address that came over the network may be dialed: HOST:PORT, which gRPC must not take for anything
// else, such as a socket of this machine.
bool IsHostPort(std::string_view address);
// `first`, then what `more` has besides, without duplicates; at most kHeadsMax.
std::vector<std::string> MergeHeads(const std::vector<std::string>& first,
                                    const std::vector<std::string>& more);

}  // namespace muster::worker
