#include "client/text/cells.h"

#include "client/text/record_text.h"
#include "common/text/units.h"

namespace muster::client {

Cell AgeCell(int64_t unix_ms) { return {Value(unix_ms), Age(unix_ms)}; }

Cell TimeCell(int64_t unix_ms) { return {Value(unix_ms), LocalTime(unix_ms)}; }

Cell SizeCell(uint64_t bytes) {
  return {Value(static_cast<int64_t>(bytes)), common::HumanBytes(bytes)};
}

}  // namespace muster::client
