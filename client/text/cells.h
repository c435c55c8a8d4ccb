// Cells of listings that are a number for programs and a text for people (client/terminal/listing.h).
#pragma once

#include <cstdint>

#include "client/terminal/listing.h"

namespace muster::client {

Cell AgeCell(int64_t unix_ms);   // "3m 4s" since then
Cell TimeCell(int64_t unix_ms);  // "2026-11-21 03:04:05" in local time
Cell SizeCell(uint64_t bytes);   // "1.5 GiB"

}  // namespace muster::client
