// Names, manifests and retention in a checkpoint directory.
#include "checkpoint/checkpoint_directory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

Manifest example() {
  Manifest manifest;
  manifest.step = 12;
  manifest.job = 42;
  manifest.world_size = 2;
  manifest.shards = {{"shard-00000-of-00001.safetensors", 3, "", 0, 0}};
  manifest.tensors["model/w"] = {
      "F32", {2, 3}, {{"shard-00000-of-00001.safetensors", "model/w", {0, 0}, {2, 3}}}};
  manifest.data = {{~uint64_t{0}, 3, 99, 1437, {}}, {7, 0, 12, -1, {{"global_batch", 24}}}};
  manifest.metrics = {{"loss", 0.1}, {"lost", std::nan("")}, {"far", -HUGE_VAL}};
  manifest.bucket_order = {{{1, 0}, {2}}};
  return manifest;
}

// A complete checkpoint of one shard with the bytes "abc".
std::string make_whole_checkpoint(const TemporaryDirectory& directory, int64_t step) {
  const std::string path = directory / step_name(step);
  std::filesystem::create_directory(path);
  Manifest manifest = example();
  manifest.step = step;
  write(path + "/" + manifest.shards[0].file, "abc");
  manifest.shards[0].sha256 = sha256_of_file(path + "/" + manifest.shards[0].file);
  write(path + "/" + kManifestName, format_manifest(manifest));
  return path;
}

TEST(Manifest, ComesBackAsItWasWritten) {
  const Manifest read = parse_manifest(format_manifest(example()), "m");
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.job, 42);
  EXPECT_EQ(read.shards[0].bytes, 3u);
  EXPECT_EQ(read.tensors.at("model/w").pieces[0].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read.data[0].seed, ~uint64_t{0});
  EXPECT_EQ(read.data[0].consumed, 99);
  EXPECT_EQ(read.data[1].dataset_size, -1);
  EXPECT_EQ(read.data[1].fields.at("global_batch"), 24);
  EXPECT_EQ(read.bucket_order, example().bucket_order);
  EXPECT_EQ(read.metrics.at("loss"), 0.1);
  EXPECT_TRUE(std::isnan(read.metrics.at("lost")));
  EXPECT_EQ(read.metrics.at("far"), -HUGE_VAL);
}

TEST(Manifest, OfOlderAndNewerLibrariesOfTheSameVersionIsRead) {
  const std::string good = format_manifest(example());
  std::string newer = good;
  newer.replace(newer.find("\"epoch\""), 7, "\"unheard\": {\"of\": [1]}, \"epoch\"");
  newer.replace(newer.find('{'), 1, "{\"also\": null, ");
  EXPECT_EQ(parse_manifest(newer, "m").data[0].epoch, 3);
  std::string older = good;
  older.replace(older.find("\"metrics\""), 9, "\"omitted\"");
  EXPECT_TRUE(parse_manifest(older, "m").metrics.empty());
}

TEST(Manifest, IsRefusedWhenItIsDamagedForeignOrNewer) {
  const std::string good = format_manifest(example());
  EXPECT_THROW(parse_manifest(good.substr(0, good.size() / 2), "m"), FormatError);
  EXPECT_THROW(parse_manifest("{\"format\":\"other\"}", "m"), FormatError);
  std::string newer = good;
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 3");
  EXPECT_THROW(parse_manifest(newer, "m"), FormatError);
  std::string escaping = good;
  escaping.replace(escaping.find("shard-00000"), 11, "../../etc/x");
  EXPECT_THROW(parse_manifest(escaping, "m"), FormatError);
}

TEST(Manifest, IsDamagedByNumbersThatNoSaveWrites) {
  const std::string good = format_manifest(example());
  const std::pair<const char*, std::vector<const char*>> wrong[] = {
      {"\"version\": 1", {"-1", "0", "1.5", "4294967297", "\"1\"", "true", "null"}},
      {"\"step\": 12", {"-1", "12.5", "18446744073709551615", "1e3"}},
      {"\"world_size\": 2", {"0", "-1", "2.0", "4294967298", "2147483648"}},
      {"\"node_count\": 1", {"0", "-1", "3", "4294967297"}},
      {"\"epoch\": 3", {"-1", "0.5"}},
      {"\"consumed\": 99", {"-1"}},
      {"\"dataset_size\": 1437", {"-2"}},
      {"\"bytes\": 3", {"-3", "3.5"}}};
  for (const auto& [field, values] : wrong) {
    const std::string written = field;
    for (const char* value : values) {
      std::string damaged = good;
      ASSERT_NE(damaged.find(written), std::string::npos) << written;
      damaged.replace(damaged.find(written), written.size(),
                      written.substr(0, written.find(' ') + 1) + value);
      EXPECT_THROW(parse_manifest(damaged, "m"), FormatError) << field << " as " << value;
    }
  }
}

TEST(CheckpointDirectory, OfOneStepIsNotBelievedToBeOfAnother) {
  const TemporaryDirectory directory;
  const std::string path = make_whole_checkpoint(directory, 5);
  EXPECT_EQ(read_checkpoint(path + "/", true).step, 5);
  std::filesystem::rename(path, directory / "step-6");
  EXPECT_THROW(read_checkpoint(directory / "step-6", true), FormatError);
  EXPECT_THROW(read_checkpoint(directory / "step-6/", true), FormatError);
  std::filesystem::rename(directory / "step-6", directory / "the-best");
  EXPECT_EQ(read_checkpoint(directory / "the-best", true).step, 5);
}

TEST(CheckpointDirectory, ListsOnlyFinalNamesInOrder) {
  const TemporaryDirectory directory;
  for (const char* name :
       {"step-10", "step-9", "step-010", "step-", "step-3.tmp", "step-x", "other"}) {
    std::filesystem::create_directory(directory / name);
  }
  write(directory / "step-11", "a file");
  EXPECT_EQ(list_steps(directory.path()), (std::vector<int64_t>{9, 10}));
  EXPECT_TRUE(list_steps(directory / "missing").empty());
}

TEST(CheckpointDirectory, ReadsAWholeCheckpointAndRefusesADamagedOne) {
  const TemporaryDirectory directory;
  const std::string path = make_whole_checkpoint(directory, 5);
  const std::string shard = path + "/" + example().shards[0].file;
  EXPECT_EQ(read_checkpoint(path, true).step, 5);
  write(shard, "abd");
  EXPECT_THROW(read_checkpoint(path, true), FormatError);
  EXPECT_EQ(read_checkpoint(path, false).step, 5);
  write(shard, "ab");
  EXPECT_THROW(read_checkpoint(path, false), FormatError);
  std::filesystem::remove(shard);
  EXPECT_THROW(read_checkpoint(path, false), CheckpointError);
  EXPECT_THROW(read_checkpoint(directory / "step-6", false), CheckpointError);
}

TEST(CheckpointDirectory, RemovesUnfinishedSavesOnly) {
  const TemporaryDirectory directory;
  make_whole_checkpoint(directory, 1);
  std::filesystem::create_directories(directory / "step-2.tmp/x");
  std::filesystem::create_directory(directory / "mine.tmp");
  remove_unfinished(directory.path());
  EXPECT_TRUE(path_exists(directory / "step-1"));
  EXPECT_FALSE(path_exists(directory / "step-2.tmp"));
  EXPECT_TRUE(path_exists(directory / "mine.tmp"));
}

TEST(CheckpointDirectory, ReplacesAPublishedDirectoryInOneStep) {
  const TemporaryDirectory directory;
  for (const char* name : {"step-1", "step-1.tmp"})
    std::filesystem::create_directory(directory / name);
  write(directory / "step-1/f", "old");
  write(directory / "step-1.tmp/f", "new");
  publish_directory(directory / "step-1.tmp", directory / "step-1");
  EXPECT_EQ(read_file(directory / "step-1/f", 100), "new");
  EXPECT_FALSE(path_exists(directory / "step-1.tmp"));
}

TEST(Files, NameThePathAndTheReason) {
  const auto error_of = [](const std::function<void()>& action) -> std::string {
    try {
      action();
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of([] { HashingFile file("/nowhere/x"); }),
            "cannot create /nowhere/x: No such file or directory");
  HashingFile full("/dev/full");
  full.write("abc", 3);  // with what follows
  EXPECT_EQ(error_of([&] { full.finish(); }), "cannot write /dev/full: No space left on device");
}

}  // namespace
}  // namespace muster
