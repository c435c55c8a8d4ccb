// A small reader of ELF symbol tables; see symbols.h.
#include "diagnosis/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/files.h"

namespace muster {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : name;
}

}  // namespace

// A memory-mapped ELF file. Its headers are checked against its size: a damaged file yields no
// names.
class Symbols::File {
 public:
  explicit File(const std::string& path) {
    const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd.valid() || ::fstat(fd.get(), &status) != 0 || status.st_size <= 0) return;
    const auto bytes = static_cast<size_t>(status.st_size);
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (memory == MAP_FAILED) return;
    content_ = {static_cast<const char*>(memory), bytes};
    const auto* header = array<Elf64_Ehdr>(0, 1);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64) {
      return;
    }
    segments_ = array<Elf64_Phdr>(header->e_phoff, header->e_phnum);
    segment_count_ = segments_ == nullptr ? 0 : header->e_phnum;
    read_symbols(*header, SHT_SYMTAB);
    if (symbols_.empty()) read_symbols(*header, SHT_DYNSYM);
    // Of several names for one address, the shortest sorts last and is used: "poll", not "__poll".
    std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
      return a.begin != b.begin ? a.begin < b.begin : std::strlen(a.name) > std::strlen(b.name);
    });
  }
  ~File() {
    if (!content_.empty()) ::munmap(const_cast<char*>(content_.data()), content_.size());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // In the file's own address numbering.
  std::optional<uint64_t> address_of(uint64_t file_offset) const {
    for (size_t i = 0; i < segment_count_; ++i) {
      const Elf64_Phdr& segment = segments_[i];
      if (segment.p_type != PT_LOAD || file_offset < segment.p_offset ||
          file_offset - segment.p_offset >= segment.p_filesz) {
        continue;
      }
      return file_offset - segment.p_offset + segment.p_vaddr;
    }
    return std::nullopt;
  }

  std::string name_at(uint64_t address) const {
    auto after =
        std::upper_bound(symbols_.begin(), symbols_.end(), address,
                         [](uint64_t value, const Symbol& symbol) { return value < symbol.begin; });
    if (after == symbols_.begin()) return "";
    const Symbol& symbol = *--after;
    return address < symbol.begin + symbol.size ? demangled(symbol.name) : "";
  }

 private:
  struct Symbol {
    uint64_t begin, size;
    const char* name;
  };

  template <typename T>
  const T* array(uint64_t offset, uint64_t count) const {
    if (offset > content_.size() || count > (content_.size() - offset) / sizeof(T)) return nullptr;
    if (offset % alignof(T) != 0) return nullptr;
    return reinterpret_cast<const T*>(content_.data() + offset);
  }

  void read_symbols(const Elf64_Ehdr& header, uint32_t type) {
    const auto* sections = array<Elf64_Shdr>(header.e_shoff, header.e_shnum);
    if (sections == nullptr) return;
    for (size_t i = 0; i < header.e_shnum; ++i) {
      const Elf64_Shdr& section = sections[i];
      if (section.sh_type != type || section.sh_link >= header.e_shnum) continue;
      const Elf64_Shdr& texts = sections[section.sh_link];
      const auto* text = array<char>(texts.sh_offset, texts.sh_size);
      const uint64_t count = section.sh_size / sizeof(Elf64_Sym);
      const auto* symbols = array<Elf64_Sym>(section.sh_offset, count);
      if (text == nullptr || symbols == nullptr || texts.sh_size == 0 ||
          text[texts.sh_size - 1] != '\0') {
        continue;
      }
      for (uint64_t j = 0; j < count; ++j) {
        const Elf64_Sym& symbol = symbols[j];
        const auto kind = ELF64_ST_TYPE(symbol.st_info);
        if ((kind != STT_FUNC && kind != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF ||
            symbol.st_size == 0 || symbol.st_name >= texts.sh_size) {
          continue;
        }
        symbols_.push_back({symbol.st_value, symbol.st_size, text + symbol.st_name});
      }
    }
  }

  std::string_view content_;
  const Elf64_Phdr* segments_ = nullptr;
  size_t segment_count_ = 0;
  std::vector<Symbol> symbols_;  // sorted by begin
};

Symbols::Symbols() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping mapping{};
    unsigned long begin = 0, end = 0, offset = 0;
    char permissions[8] = {};
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %7s %lx %*s %*s %n", &begin, &end, permissions, &offset,
                    &path_at) < 4 ||
        permissions[2] != 'x') {
      continue;
    }
    mapping = {begin, end, offset, line.substr(static_cast<size_t>(path_at))};
    mappings_.push_back(std::move(mapping));
  }
}

Symbols::~Symbols() = default;

Symbols::Place Symbols::place_of(uintptr_t address) {
  const auto mapping =
      std::find_if(mappings_.begin(), mappings_.end(), [&](const Mapping& candidate) {
        return address >= candidate.begin && address < candidate.end;
      });
  if (mapping == mappings_.end()) return {};
  Place place;
  place.module = mapping->path.substr(mapping->path.rfind('/') + 1);
  if (mapping->path.empty() || mapping->path[0] != '/') return place;  // such as [vdso]
  auto& file = files_[mapping->path];
  if (!file) file = std::make_unique<File>(mapping->path);
  const auto in_file = file->address_of(address - mapping->begin + mapping->file_offset);
  if (!in_file) return place;
  place.offset = *in_file;
  place.function = file->name_at(*in_file);
  return place;
}

}  // namespace muster
