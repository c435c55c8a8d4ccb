// Explains why a running coordinator does not accept this node's connection: only one of the two uses
// encryption, or they belong to different clusters. Pure.
#pragma once

#include <string>
#include <string_view>

#include "worker/links/route.h"

namespace muster::worker {

// What to add to gRPC's `reason` for the end of a stream: ` meaning="…" fix="…"`. Empty if it is about
// something else.
std::string LinkAdvice(const Route& route, std::string_view reason);

}  // namespace muster::worker
