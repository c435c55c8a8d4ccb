// What the C library's allocator does with memory that was freed.
#pragma once

namespace muster::common {

// From here on, buffers of up to a few megabytes come from memory that the process used before. By default each buffer of a
// log or a checkpoint is mapped, faulted in page by page and unmapped, which costs more than the copy into it. What a burst
// leaves free is given back by malloc_trim(). First in main.
void KeepFreedMemory();

}  // namespace muster::common
