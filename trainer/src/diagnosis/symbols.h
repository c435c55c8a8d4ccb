// Names for addresses of this process: /proc/self/maps and the symbol tables of the files in it
// (.symtab, so that functions that are not exported have their names too, else .dynsym). Reads
// files only; takes none of the loader's locks, which a stuck thread may hold. 64-bit ELF.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster {

class Symbols {
 public:
  Symbols();  // reads the maps as they are now
  ~Symbols();

  struct Place {
    std::string function;  // demangled, with arguments; empty: not known
    std::string module;    // file name without folders; empty: not in a file
    uint64_t offset = 0;
  };
  Place place_of(uintptr_t address);

 private:
  struct Mapping {
    uintptr_t begin, end;
    uint64_t file_offset;
    std::string path;
  };
  class File;

  std::vector<Mapping> mappings_;
  std::map<std::string, std::unique_ptr<File>> files_;  // those that were asked for
};

}  // namespace muster
