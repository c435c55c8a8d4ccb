#include "fuzz/harness.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace muster::testing {

void PromiseBroken(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: broken promise: %s\n", file, line, condition);
  std::abort();
}

bool Pieces::Next(std::string_view* piece) {
  if (rest_.size() < 2) return false;
  const auto byte = [this](size_t at) -> size_t { return static_cast<unsigned char>(rest_[at]); };
  const size_t wanted = byte(0) | byte(1) << 8;
  rest_.remove_prefix(2);
  *piece = rest_.substr(0, wanted);
  rest_.remove_prefix(std::min(wanted, rest_.size()));
  return true;
}

Directory::Directory() {
  // In memory if possible: on a disk a run is a hundred times slower.
  std::error_code none;
  const bool in_memory = std::filesystem::is_directory("/dev/shm", none);
  std::string name =
      in_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
  name += "/muster-fuzz-XXXXXX";
  FUZZ_EXPECT(mkdtemp(name.data()) != nullptr);
  path_ = std::move(name);
}

Directory::~Directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Directory::Path(std::string_view name) const { return path_ + "/" + std::string(name); }

void Directory::Write(std::string_view name, std::string_view bytes) const {
  const int fd = open(Path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FUZZ_EXPECT(fd >= 0);
  FUZZ_EXPECT(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(fd);
}

}  // namespace muster::testing
