// Where a strided tensor lies in its storage, for files that say it in numbers of their own. No torch.
#pragma once

#include <cstdint>
#include <vector>

namespace muster {

struct StridedPlace {
  uint64_t first = 0;  // byte of the storage
  uint64_t bytes = 0;  // from there to the end of the last element; 0: it has no elements
  // The rule that the tensor breaks, to follow its name; null: it lies within its storage.
  const char* fault = nullptr;
};

// offset and strides are in elements, and none of the numbers may be negative; strides are as many as sizes.
StridedPlace place_strided(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                           int64_t offset, uint64_t element_bytes, uint64_t storage_bytes);

}  // namespace muster
