// The process's own log: its standard error, which is the attempt's shim.log. A line is repeated at most so often.
#pragma once

#include <string>
#include <string_view>

namespace muster::rendezvous {

// Why a stream is closed that its peer has closed in order: not worth a line.
inline constexpr std::string_view kPeerClosed = "the peer has closed the connection";

// "muster-rendezvous: WHAT: WHY", with what is not printable escaped.
void Note(std::string_view what, std::string_view why);

}  // namespace muster::rendezvous
