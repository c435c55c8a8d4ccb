// A directory for one test, with a few words to fill it, and a store of objects in memory.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/files.h"
#include "gtest/gtest.h"
#include "tree/object_source.h"
#include "tree/snapshot.h"
#include "tree/unpack.h"

namespace muster::tree {

class TreeCase : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/muster-tree-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    base_ = pattern;
    ASSERT_TRUE(common::MakeDirectories(Root()).ok());
    ASSERT_TRUE(common::MakeDirectories(base_ + "/cache").ok());
  }
  void TearDown() override { EXPECT_TRUE(common::RemoveTree(base_).ok()); }

  std::string Root() const { return base_ + "/root"; }
  std::string Path(const std::string& name) const { return Root() + "/" + name; }

  // Makes the directories above it too.
  void Write(const std::string& name, std::string_view content, int mode = 0644) const {
    const std::string path = Path(name);
    ASSERT_TRUE(common::MakeDirectories(path.substr(0, path.rfind('/')), 0755).ok());
    const common::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
    ASSERT_TRUE(fd.valid()) << path;
    ASSERT_TRUE(common::WriteAll(fd.get(), content).ok());
    ASSERT_EQ(fchmod(fd.get(), static_cast<mode_t>(mode)), 0);
  }
  void Link(const std::string& target, const std::string& name) const {
    ASSERT_EQ(symlink(target.c_str(), Path(name).c_str()), 0) << name;
  }
  void MakeDirectory(const std::string& name) const {
    ASSERT_TRUE(common::MakeDirectories(Path(name), 0755).ok());
  }

  static int64_t NowMs() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  }
  // As if the files had been written long ago: none is racy.
  absl::StatusOr<Snapshot> Take(SnapshotOptions options = {}) const {
    options.cache_directory = base_ + "/cache";
    if (options.now_ms == 0) options.now_ms = NowMs() + 60'000;
    return TakeSnapshot(Root(), options);
  }

  // What a client does: sends the objects that are missing, in pieces of an odd size.
  void Upload(const Snapshot& snapshot) {
    const common::UniqueFd root(open(Root().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ObjectSource source(root.get(), snapshot.manifest, snapshot.placement);
    for (uint32_t i = 0; i < snapshot.placement.objects.size(); ++i) {
      const std::string name = Hex(snapshot.placement.objects[i].name);
      if (store_.count(name) != 0) continue;
      ASSERT_TRUE(source.IsComplete(i));
      absl::StatusOr<std::string> bytes = ReadFrom(source, i, 0);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_EQ(common::Sha256Hex(*bytes), name);
      store_[name] = *std::move(bytes);
      ++uploads_;
    }
  }
  static absl::StatusOr<std::string> ReadFrom(ObjectSource& source, uint32_t object,
                                              uint64_t offset) {
    absl::StatusOr<ObjectStream> stream = source.Open(object, offset);
    if (!stream.ok()) return stream.status();
    std::string bytes, buffer(70'001, '\0');
    while (true) {
      const absl::StatusOr<size_t> count = stream->Read(buffer.data(), buffer.size());
      if (!count.ok()) return count.status();
      if (*count == 0) return bytes;
      bytes.append(buffer, 0, *count);
    }
  }

  ReadObject FromStore() const {
    return [this](const Object& object, uint64_t offset, char* buffer,
                  size_t size) -> absl::StatusOr<size_t> {
      const auto found = store_.find(Hex(object.name));
      if (found == store_.end()) return absl::NotFoundError("no such object");
      const std::string_view rest = std::string_view(found->second).substr(offset);
      const size_t count = std::min(size, rest.size());
      std::memcpy(buffer, rest.data(), count);
      return count;
    };
  }

  std::string base_;
  std::map<std::string, std::string> store_;  // objects by name
  int uploads_ = 0;
};

// "a d|a/b f|a/run x|a/l -> b"
inline std::string Described(const Manifest& manifest) {
  std::string text;
  for (const Entry& entry : manifest.entries) {
    text += (text.empty() ? "" : "|") + entry.path + " ";
    text += entry.kind == Kind::kLink ? "-> " + entry.target
                                      : std::string(1, "fx?d"[static_cast<int>(entry.kind)]);
  }
  return text;
}

inline Entry FileEntry(const std::string& path, std::string_view content) {
  return {path, Kind::kFile, content.size(), DigestOf(content), {}};
}
inline Entry LinkEntry(const std::string& path, const std::string& target) {
  return {path, Kind::kLink, 0, {}, target};
}
inline Entry DirectoryEntry(const std::string& path) { return {path, Kind::kDirectory, 0, {}, {}}; }

}  // namespace muster::tree
