// A listing as people read it on a terminal: columns aligned by display width, shortened or dropped
// until they fit. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace muster::client {

struct Column;
struct Listing;
struct ListingOptions;
struct Terminal;

// "checkpoint_step" -> "CHECKPOINT STEP".
std::string ColumnTitle(const Column& column);
// `chosen`: the columns, as indexes, in order.
std::string HumanTable(const Listing& listing, std::vector<size_t> chosen,
                       const ListingOptions& options, const Terminal& terminal);

}  // namespace muster::client
