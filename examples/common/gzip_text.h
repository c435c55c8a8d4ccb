// Reads the compressed tables and texts of examples/data. Any thread; no LibTorch.
#pragma once

#include <string>

namespace examples {

// The whole text of a gzip file. Throws std::runtime_error naming the path if it cannot be opened
// or is damaged.
std::string read_gzip(const std::string& path);

// The path of a file of examples/data, in the source tree or the installation. Empty if it is in
// neither.
std::string find_data(const std::string& file);

}  // namespace examples
