// Names for addresses in this process, from /proc/self/maps and the files' symbol tables (.symtab,
// which also has non-exported functions, else .dynsym). Only reads files: takes none of the
// loader's locks, which a stuck thread may hold. 64-bit ELF.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace muster {

class Symbols {
 public:
  Symbols();  // reads the current maps
  ~Symbols();

  struct Place {
    std::string function;  // demangled, with arguments; empty: unknown
    std::string module;    // file name without directories; empty: not in a file
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
  std::map<std::string, std::unique_ptr<File>> files_;  // opened on demand
};

}  // namespace muster
