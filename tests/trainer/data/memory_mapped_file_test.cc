// Mapped files that are missing, empty, truncated or rewritten.
#include "muster/data/memory_mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MemoryMappedFile, HoldsTheFilesBytesAlsoForItsCopies) {
  const TemporaryDirectory directory;
  write(directory / "data", "abcdef");
  std::optional<MemoryMappedFile> file(directory / "data");
  const MemoryMappedFile copy = *file;
  file.reset();
  EXPECT_EQ(copy.size(), 6);
  EXPECT_EQ(std::memcmp(copy.read(1, 5), "bcdef", 5), 0);
  copy.check_unchanged();
}

TEST(MemoryMappedFile, RefusesBytesOutsideTheFile) {
  const TemporaryDirectory directory;
  write(directory / "data", "abcdef");
  const MemoryMappedFile file(directory / "data", AccessPattern::random);
  EXPECT_NE(error_of([&] { file.read(4, 3); }).find("has no bytes 4 to 6: it has 6"),
            std::string::npos);
  EXPECT_THROW(file.read(-1, 1), DataError);
  EXPECT_THROW(file.read(0, INT64_MAX), DataError);
  EXPECT_THROW(file.read(INT64_MAX, 1), DataError);
}

TEST(MemoryMappedFile, FindsAFileThatWasCutShort) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data";
  write(path, std::string(10'000, 'x'));
  const MemoryMappedFile file(path);
  ASSERT_EQ(::truncate(path.c_str(), 100), 0);
  EXPECT_NE(error_of([&] { file.read(9'000, 1); }).find(path + " had 10000 bytes"),
            std::string::npos);
}

TEST(MemoryMappedFile, FindsAFileThatWasRewrittenInPlace) {
  const TemporaryDirectory directory;
  const std::string path = directory / "data";
  write(path, "abc");
  const MemoryMappedFile file(path);
  const timespec past[2] = {{1'000, 0}, {1'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), past, 0), 0);
  EXPECT_NE(error_of([&] { file.check_unchanged(); }).find("was modified after"),
            std::string::npos);
}

TEST(MemoryMappedFile, KeepsAFileThatWasReplaced) {
  const TemporaryDirectory directory;
  write(directory / "data", "abc");
  const MemoryMappedFile file(directory / "data");
  write(directory / "new", "xyz1");
  ASSERT_EQ(::rename((directory / "new").c_str(), (directory / "data").c_str()), 0);
  EXPECT_EQ(std::memcmp(file.read(0, 3), "abc", 3), 0);
}

TEST(MemoryMappedFile, NamesAFileThatCannotBeMapped) {
  const TemporaryDirectory directory;
  EXPECT_NE(error_of([&] {
              MemoryMappedFile(directory / "none");
            }).find("cannot open the data file " + (directory / "none")),
            std::string::npos);
  EXPECT_THROW(MemoryMappedFile(directory.path()), DataError);
  write(directory / "empty", "");
  EXPECT_EQ(MemoryMappedFile(directory / "empty").size(), 0);
}

}  // namespace
}  // namespace muster
