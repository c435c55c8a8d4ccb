// What `./dev bench tree` measures of the trees that are sent with jobs, in one process each time:
//   bench_tree snapshot ROOT CACHE          {"seconds":…,"files":…,"read":…}
//   bench_tree pack ROOT CACHE STORE        writes the objects as files into STORE, as an upload would
//   bench_tree unpack ROOT CACHE STORE OUT  … and the tree from them into OUT
//   bench_tree copy ROOT CACHE FROM OUT     OUT becomes a copy of the unpacked FROM
#include <fcntl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/files/files.h"
#include "tree/materialize.h"
#include "tree/object_source.h"
#include "tree/snapshot.h"
#include "tree/unpack.h"

namespace {

using namespace muster;

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

common::UniqueFd OpenDirectory(const std::string& path) {
  common::UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) Fail(common::ErrnoStatus(path));
  return fd;
}

void Pack(const std::string& root, const tree::Snapshot& snapshot, const std::string& store) {
  const common::UniqueFd from = OpenDirectory(root);
  tree::ObjectSource source(from.get(), snapshot.manifest, snapshot.placement);
  std::vector<char> buffer(1 << 20);
  for (uint32_t i = 0; i < snapshot.placement.objects.size(); ++i) {
    const std::string path = store + "/" + tree::Hex(snapshot.placement.objects[i].name);
    if (common::Exists(path)) continue;
    const common::UniqueFd to(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    auto stream = source.Open(i);
    if (!stream.ok()) Fail(stream.status());
    while (true) {
      const auto count = stream->Read(buffer.data(), buffer.size());
      if (!count.ok()) Fail(count.status());
      if (*count == 0) break;
      if (const auto written = common::WriteAll(to.get(), {buffer.data(), *count}); !written.ok()) {
        Fail(written);
      }
    }
  }
}

tree::ReadObject FromFiles(const std::string& store) {
  auto open_files = std::make_shared<std::map<tree::Digest, common::UniqueFd>>();
  return [store, open_files](const tree::Object& object, uint64_t offset, char* buffer,
                             size_t size) -> absl::StatusOr<size_t> {
    common::UniqueFd& fd = (*open_files)[object.name];
    if (!fd.valid()) {
      const std::string path = store + "/" + tree::Hex(object.name);
      fd = common::UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    const ssize_t count = pread(fd.get(), buffer, size, static_cast<off_t>(offset));
    if (count < 0) return common::ErrnoStatus("object");
    return static_cast<size_t>(count);
  };
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) Fail(absl::InvalidArgumentError("usage: see tree_steps.cc"));
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  tree::SnapshotOptions options;
  options.cache_directory = words[2];
  options.now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(wall).count();
  auto begun = std::chrono::steady_clock::now();
  const auto snapshot = tree::TakeSnapshot(words[1], options);
  if (!snapshot.ok()) Fail(snapshot.status());
  if (words[0] != "snapshot") begun = std::chrono::steady_clock::now();
  if (words[0] == "pack") Pack(words[1], *snapshot, words[3]);
  absl::Status done;
  if (words[0] == "unpack" || words[0] == "copy") {
    const common::UniqueFd out = OpenDirectory(words[4]);
    const tree::TreeTarget target{out.get(), words[4]};
    tree::Materialized copied;
    done =
        words[0] == "unpack"
            ? tree::Unpack(snapshot->manifest, snapshot->placement, FromFiles(words[3]), target)
            : tree::Materialize(snapshot->manifest, OpenDirectory(words[3]).get(), target, &copied);
  }
  if (!done.ok()) Fail(done);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  std::printf(
      "{\"seconds\": %.6f, \"files\": %llu, \"read\": %llu, \"objects\": %zu, \"identity\": "
      "\"%s\"}\n",
      seconds.count(), static_cast<unsigned long long>(snapshot->counts.files),
      static_cast<unsigned long long>(snapshot->counts.files_read),
      snapshot->placement.objects.size(), tree::Hex(snapshot->identity).c_str());
  return 0;
}
