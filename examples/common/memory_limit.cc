// See memory_limit.h.
#include "examples/common/memory_limit.h"

#include <sys/resource.h>

#include <fstream>
#include <new>
#include <stdexcept>
#include <string>

namespace examples {
namespace {

// Private writable memory in bytes, as RLIMIT_DATA counts it.
rlim_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) << 10;
  }
  throw std::runtime_error("/proc/self/status has no VmData: memory cannot be limited");
}

bool set_limit(rlim_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  return ::setrlimit(RLIMIT_DATA, &limit) == 0;
}

}  // namespace

MemoryLimit::MemoryLimit(int64_t mebibytes) {
  if (!set_limit(data_bytes() + (static_cast<rlim_t>(mebibytes) << 20))) {
    throw std::runtime_error("the system does not allow limiting this process's memory");
  }
}

MemoryLimit::~MemoryLimit() { set_limit(RLIM_INFINITY); }

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const std::string text = error.what();
  // The second message is all that oneDNN reports.
  return text.find("can't allocate memory") != std::string::npos ||
         text.find("could not create a primitive") != std::string::npos;
}

}  // namespace examples
