// Why a coordinator that is there does not take this node's connection, where one of the two encrypts and
// the other does not, or they are of two clusters. Pure.
#pragma once

#include <string>
#include <string_view>

#include "worker/links/route.h"

namespace muster::worker {

// What to add to gRPC's `reason` for the end of a stream: ` meaning="…" fix="…"`. Empty if it is about
// something else.
std::string LinkAdvice(const Route& route, std::string_view reason);

}  // namespace muster::worker
