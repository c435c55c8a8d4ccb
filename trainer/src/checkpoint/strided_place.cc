#include "checkpoint/strided_place.h"

#include <algorithm>

namespace muster {

StridedPlace place_strided(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                           int64_t offset, uint64_t element_bytes, uint64_t storage_bytes) {
  using Wide = unsigned __int128;  // each sum is compared before it can grow past 128 bits
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return {};
  Wide elements = 1, last = static_cast<uint64_t>(offset);
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto size = static_cast<uint64_t>(shape[i]);
    elements *= size;
    if (elements > storage_bytes) return {.fault = "has more elements than its storage"};
    last += static_cast<Wide>(size - 1) * static_cast<uint64_t>(strides[i]);
    if (last > storage_bytes) return {.fault = "reaches past its storage"};
  }
  if ((last + 1) * element_bytes > storage_bytes) return {.fault = "reaches past its storage"};
  const auto first = static_cast<uint64_t>(offset) * element_bytes;
  const auto bytes = static_cast<uint64_t>((last + 1) * element_bytes) - first;
  if (elements * element_bytes > bytes)
    return {.fault = "has elements that share memory, as expand() makes them"};
  return {first, bytes};
}

}  // namespace muster
