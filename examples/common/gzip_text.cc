// Reads gzip files with zlib; see gzip_text.h.
#include "examples/common/gzip_text.h"

#include <zlib.h>

#include <filesystem>
#include <memory>
#include <stdexcept>

namespace examples {

std::string read_gzip(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw std::runtime_error("cannot open '" + path + "': pass the file with --data FILE");
  std::string text;
  char piece[64 << 10];
  int bytes = 0;
  while ((bytes = gzread(file.get(), piece, sizeof(piece))) > 0) text.append(piece, bytes);
  if (bytes < 0) throw std::runtime_error(path + " is damaged: it cannot be decompressed");
  return text;
}

std::string find_data(const std::string& file) {
  std::error_code error;
  const auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = binary.parent_path() / "../../share/muster/examples/data" / file;
  for (const auto& path : {std::filesystem::path(EXAMPLES_SOURCE_DATA) / file, installed}) {
    if (std::filesystem::exists(path, error)) return path.lexically_normal().string();
  }
  return "";
}

}  // namespace examples
