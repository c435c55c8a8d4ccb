// Samples in files: damage, age, a node's share, shortages of room and descriptors.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/local/sample_files.h"
#include "coordinator/local/sample_store.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/sample_batches.h"

namespace muster::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kDayMs = 24 * kHourMs;
constexpr int64_t kNowMs = 1'700'000'000'000;

// Set by the test while the store's thread reads it.
class TestClock final : public common::Clock {
 public:
  common::Now Read() const override { return {.mono_ms = wall_ms - kNowMs, .wall_ms = wall_ms}; }
  std::atomic<int64_t> wall_ms = kNowMs;
};

std::vector<std::string> FilesIn(const Paths& paths) {
  std::vector<std::string> files;
  if (!fs::exists(paths.Root() + "/samples")) return files;
  for (const auto& entry : fs::recursive_directory_iterator(paths.Root() + "/samples")) {
    if (entry.is_regular_file()) files.push_back(paths.BelowRoot(entry.path().string()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(SampleFilesTest, NodesGetFoldersThatAreSafeAndDiffer) {
  EXPECT_EQ(SampleNodeFolder("node-1"), "node-1");
  EXPECT_EQ(SampleNodeFolder("../x"), "_2e_2e_2fx");
  EXPECT_NE(SampleNodeFolder("a_b"), SampleNodeFolder("a.b"));
  EXPECT_LE(SampleNodeFolder(std::string(100, '.')).size(), 200u);
  EXPECT_NE(SampleNodeFolder(std::string(100, '.')), SampleNodeFolder(std::string(99, '.') + "/"));
}

TEST(SampleFilesTest, PathsReadBack) {
  const SampleFile file{.job = 7, .attempt = 2, .node_folder = "node1", .tier = 2, .begun_ms = 5};
  EXPECT_EQ(file.Path(), "samples/7/2/node1/1min-000000000000005");
  EXPECT_EQ(ParseSamplePath(file.Path()), file);
  for (const char* path : {"samples/7/2/node1/2min-000000000000005", "samples/7/2/node1/1s-5",
                           "samples/x/2/node1/1s-000000000000005", "logs/7/2/node1/x", ""}) {
    EXPECT_FALSE(ParseSamplePath(path).has_value()) << path;
  }
}

// Every single byte in turn: at most the record that was hit is lost.
TEST(SampleFilesTest, AnyFlippedByteCostsOneRecord) {
  std::string bytes;
  for (int i = 0; i < 3; ++i) {
    v1::SampleBucket bucket;
    *bucket.mutable_last() = Samples(1, kNowMs + i, static_cast<float>(i));
    bytes += SampleRecord(bucket);
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::vector<int64_t> found;
    ScanSamples(damaged, [&found](const v1::SampleBucket& bucket) {
      found.push_back(bucket.last().time_ms() - kNowMs);
      return true;
    });
    ASSERT_EQ(found.size(), 2u) << "byte " << at;
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
  }
}

TEST(SampleFilesTest, ATornEndIsNotDamage) {
  v1::SampleBucket bucket;
  *bucket.mutable_last() = Samples(1, kNowMs, 1);
  const std::string record = SampleRecord(bucket);
  const SampleScan scan =
      ScanSamples(record + record.substr(0, record.size() - 3), [](const auto&) { return true; });
  EXPECT_EQ(scan.records, 1u);
  EXPECT_EQ(scan.damaged_bytes, 0u);
  EXPECT_EQ(scan.rest_bytes, record.size() - 3);
}

TEST(LocalSampleStoreTest, EachTierIsKeptForItsTime) {
  TempDir dir;
  const Paths paths(dir.path());
  TestClock clock;
  LocalSampleStore store(paths, kSampleBytesOfNodeMax, &clock);
  const auto tiers_after = [&](int64_t ms) {
    clock.wall_ms = kNowMs + ms;
    store.Expire();
    // The second one is written after the turn that the expiry was part of.
    for (size_t turn = 1; turn <= 2; ++turn) {
      store.Append(Samples(2, kNowMs + ms, 1));
      WaitForSamples(store, {.job = 2, .since_ms = kNowMs + ms}, turn);
    }
    std::string tiers;
    for (const std::string& file : FilesIn(paths)) {
      if (file.starts_with("samples/1/")) tiers += fs::path(file).filename().string().substr(0, 3);
    }
    return tiers;
  };
  store.Append(Samples(1, kNowMs, 1));
  store.Append(Samples(1, kNowMs + 60'000, 1));
  WaitForSamples(store, {.job = 1}, 2);
  EXPECT_EQ(tiers_after(kHourMs / 2), "10s1mi1s-");
  EXPECT_EQ(tiers_after(2 * kHourMs), "10s1mi");
  EXPECT_EQ(tiers_after(2 * kDayMs), "1mi");
  EXPECT_EQ(tiers_after(40 * kDayMs), "");
  EXPECT_FALSE(common::Exists(paths.SampleDirectory(1))) << "empty folders go, too";
}

TEST(LocalSampleStoreTest, ANodeKeepsItsShareAndTheOldestGoFirst) {
  constexpr uint64_t kShare = 8'000;
  TempDir dir;
  const Paths paths(dir.path());
  TestClock clock;
  {
    LocalSampleStore store(paths, kShare, &clock);
    store.Append(Samples(9, kNowMs, 1, "other"));
    for (int i = 0; i < 500; ++i) {
      clock.wall_ms += 10'000;
      store.Append(Samples(1, clock.wall_ms, 1));
      WaitForSamples(store, {.job = 1, .since_ms = clock.wall_ms}, 1);
    }
    const auto left = ReadSamples(store, {.job = 1});
    ASSERT_FALSE(left.empty());
    EXPECT_EQ(left.back().last().time_ms(), clock.wall_ms);
    EXPECT_GT(left.front().last().time_ms(), kNowMs + 60'000);
    EXPECT_EQ(ReadSamples(store, {.job = 9}).size(), 1u) << "another node's are its own";
  }
  uint64_t bytes = 0;
  for (const std::string& file : FilesIn(paths)) {
    if (file.starts_with("samples/1/")) bytes += fs::file_size(paths.Root() + "/" + file);
  }
  EXPECT_LE(bytes, kShare + 1'000);
  EXPECT_GT(bytes, kShare / 4);
  // What an earlier run left counts, too.
  LocalSampleStore smaller(paths, 2'000, &clock);
  smaller.Append(Samples(1, clock.wall_ms + 1, 1));
  WaitForSamples(smaller, {.job = 1, .since_ms = clock.wall_ms + 1}, 1);
  smaller.Stop();
  EXPECT_LE(ReadSamples(smaller, {.job = 1}).size(), 20u);
}

TEST(LocalSampleStoreTest, AFileThatCannotBeWrittenCostsItsSamplesOnly) {
  TempDir dir;
  const Paths paths(dir.path());
  ASSERT_TRUE(common::MakeDirectories(paths.Root() + "/samples").ok());
  // A file in place of the job's folder.
  ASSERT_TRUE(common::WriteFileDurably(paths.SampleDirectory(1), "not a folder").ok());
  LocalSampleStore store(paths);
  store.Append(Samples(1, kNowMs, 1));
  store.Append(Samples(2, kNowMs, 1));
  EXPECT_EQ(WaitForSamples(store, {.job = 2}, 1).size(), 1u);
  EXPECT_EQ(store.Newest(1).size(), 1u) << "from memory it can still be seen";
}

TEST(LocalSampleStoreTest, CheckCountsFilesAndDamage) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    LocalSampleStore store(paths);
    for (int i = 0; i < 3; ++i) store.Append(Samples(1, kNowMs + i, 1));
  }
  SampleTotals totals;
  ASSERT_TRUE(CheckSamples(paths, &totals).ok());
  EXPECT_EQ(totals.files, 3u);  // one of each tier
  EXPECT_EQ(totals.damaged_bytes, 0u);
  const std::string path = common::StrCat(paths.Root(), "/", FilesIn(paths).back());
  std::string bytes = *common::ReadFile(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(common::WriteFileDurably(path, bytes).ok());
  SampleTotals damaged;
  ASSERT_TRUE(CheckSamples(paths, &damaged).ok());
  EXPECT_GT(damaged.damaged_bytes, 0u);
}

}  // namespace
}  // namespace muster::coordinator
