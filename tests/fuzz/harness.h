// Shared by the harnesses in this folder. A harness is one function that takes any bytes, feeds
// them to one decoder and aborts if the decoder breaks its promise; sanitizers detect the rest.
// clang builds a libFuzzer program from it, any other compiler one that replays a corpus
// (replay.cc). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// The promise under test. Aborts with location and condition.
#define FUZZ_EXPECT(condition) \
  ((condition) ? (void)0 : muster::testing::PromiseBroken(__FILE__, __LINE__, #condition))

// Defined by every harness; called once per input.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace muster::testing {

[[noreturn]] void PromiseBroken(const char* file, int line, const char* condition);

inline std::string_view Text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Splits an input into pieces, for decoders that take several: each has a two-byte length
// (little-endian) and that many bytes, or as many as are left.
class Pieces {
 public:
  explicit Pieces(std::string_view bytes) : rest_(bytes) {}
  bool Next(std::string_view* piece);
  std::string_view Rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// This process's directory for decoders that read files; removed at exit.
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
