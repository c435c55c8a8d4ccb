// What the harnesses in this folder share. A harness is one function that takes any bytes, feeds
// them to one decoder and aborts when the decoder breaks its promise; sanitizers see to the rest.
// clang makes a libFuzzer program of it, any other compiler one that replays a corpus (replay.cc).
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The promise that is tested. Aborts with the place and the condition.
#define FUZZ_EXPECT(condition) \
  ((condition) ? (void)0 : muster::testing::PromiseBroken(__FILE__, __LINE__, #condition))

// Every harness defines it; called once for each input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace muster::testing {

[[noreturn]] void PromiseBroken(const char* file, int line, const char* condition);

inline std::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Cuts an input into pieces, for decoders that take several: each is a length of two bytes
// (little-endian) and that many bytes, or as many as are left.
class Pieces {
 public:
  explicit Pieces(std::string_view bytes) : rest_(bytes) {}
  bool Next(std::string_view* piece);
  std::string_view Rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// A directory of this process for decoders that read files; removed when it ends.
class Directory {
 public:
  Directory();
  ~Directory();
  Directory(const Directory&) = delete;

  std::string Path(std::string_view name) const;
  void Write(std::string_view name, std::string_view bytes) const;

 private:
  std::string path_;
};

}  // namespace muster::testing
