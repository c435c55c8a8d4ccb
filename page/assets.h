// The files of the page, as they are in the program. CMakeLists.txt lists them, embed.py makes
// the source of these functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace muster::page {

struct Asset {
  std::string_view name;                // "job/job.js"
  std::span<const unsigned char> gzip;  // compressed
  size_t size;                          // of the file itself, bytes
};

// "/assets/HASH/": where the page finds its files. Another build with other files has another one.
std::string_view AssetPrefix();
std::span<const Asset> Assets();
// The addresses of the views: "/", "/queue", …
std::span<const std::string_view> Pages();

}  // namespace muster::page
