// Asynchronous saves on one rank; for several ranks see checkpoint_process_test.
#include "checkpoint/async_checkpointer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <mutex>

#include "checkpoint/checkpoint_reader.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

constexpr int64_t kNoWorker = std::numeric_limits<int64_t>::max();
constexpr std::chrono::seconds kLong(60);

CheckpointContent content_of(int64_t step, const TensorMap& tensors) {
  CheckpointContent content;
  content.manifest.step = step;
  content.global = tensors;
  content.own["rng_cpu"] = torch::full({8}, step, at::kByte);
  return content;
}

TensorMap read_model(const std::string& path) {
  return CheckpointReader(path, Topology{}, /*verify_hashes=*/true).read("model");
}

// Blocks the background thread until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(SnapshotBuffer, CopiesAsTheyAreNowAndKeepsTiesAndMemory) {
  SnapshotBuffer buffer;
  const at::Tensor weight = torch::arange(300'000, at::kFloat).view({300, 1000});
  const TensorMap tensors = {{"a", weight},
                             {"tied", weight},
                             {"part", weight.narrow(0, 0, 2)},
                             {"transposed", weight.t()},
                             {"step", torch::tensor(int64_t{5})},
                             {"half", torch::ones({3}, at::kHalf)},
                             {"empty", torch::zeros({0, 3})}};
  TensorMap expected;
  for (const auto& [name, tensor] : tensors) expected[name] = tensor.clone();
  TensorMap copies = buffer.take(tensors);
  weight.zero_();
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(copies.at(name).equal(tensor)) << name;
    EXPECT_TRUE(copies.at(name).is_contiguous()) << name;
    EXPECT_EQ(copies.at(name).scalar_type(), tensor.scalar_type()) << name;
  }
  EXPECT_EQ(copies.at("tied").const_data_ptr(), copies.at("a").const_data_ptr());
  EXPECT_NE(copies.at("part").const_data_ptr(), copies.at("a").const_data_ptr());
  const void* const memory = copies.at("a").const_data_ptr();
  const size_t capacity = buffer.capacity();
  copies = buffer.take(tensors);
  EXPECT_EQ(copies.at("a").const_data_ptr(), memory);
  EXPECT_EQ(buffer.capacity(), capacity);
  EXPECT_TRUE(copies.at("a").equal(weight));
  EXPECT_THROW(buffer.take({{"sparse", torch::ones({2}).to_sparse()}}), FormatError);
}

TEST(AsyncCheckpointer, SavesTheStateOfTheCallWhileItChanges) {
  const TemporaryDirectory directory;
  Gate gate;
  std::atomic<int> published{0};
  AsyncCheckpointer saver(
      {.directory = directory.path(),
       .on_stage =
           [&](const char* stage) {
             if (std::string(stage) == "prepared") gate.pass();
           },
       .on_published = [&](int64_t step,
                           const std::string&) { published = static_cast<int>(step); }},
      {}, kLong);
  const at::Tensor weight = torch::arange(1000, at::kFloat);
  const at::Tensor before = weight.clone();
  const std::string path = saver.save(content_of(1, {{"model/w", weight}}), kNoWorker);
  EXPECT_EQ(path, directory / "step-1");
  weight.mul_(2);
  EXPECT_TRUE(saver.saving());
  EXPECT_TRUE(list_checkpoints(directory.path()).empty());
  gate.open();
  saver.wait();
  EXPECT_FALSE(saver.saving());
  EXPECT_EQ(published, 1);
  EXPECT_TRUE(read_model(path).at("w").equal(before));
  // The next save reuses the memory only after this one has finished.
  const std::string second = saver.save(content_of(2, {{"model/w", weight}}), kNoWorker);
  const std::string third = saver.save(content_of(3, {{"model/w", before}}), kNoWorker);
  saver.wait();
  EXPECT_TRUE(read_model(second).at("w").equal(weight));
  EXPECT_TRUE(read_model(third).at("w").equal(before));
}

TEST(AsyncCheckpointer, UsesTheMemoryThatWasMadeReady) {
  SnapshotBuffer buffer;
  buffer.reserve(1 << 20, /*pinned=*/false);
  const size_t capacity = buffer.capacity();
  EXPECT_GE(capacity, size_t{1} << 20);
  buffer.take({{"w", torch::ones({100'000})}});
  EXPECT_EQ(buffer.capacity(), capacity);
  const TemporaryDirectory directory;
  AsyncCheckpointer saver({.directory = directory.path()}, {}, kLong);
  saver.reserve(1 << 20, /*pinned=*/false);
  saver.save(content_of(1, {{"model/w", torch::ones({100})}}), kNoWorker);
  saver.wait();
  EXPECT_EQ(latest_checkpoint(directory.path())->step, 1);
}

// Small tensors need more than their bytes, because each starts at an aligned offset.
TEST(SnapshotBuffer, ReportsWhatPiecesNeed) {
  const at::Tensor flat = torch::arange(40'000, at::kFloat);
  TensorMap pieces;
  for (int64_t i = 0; i < flat.numel(); ++i) pieces[std::to_string(i)] = flat.narrow(0, i, 1);
  SnapshotBuffer buffer;
  buffer.reserve(SnapshotBuffer::bytes_for(pieces), /*pinned=*/false);
  const size_t capacity = buffer.capacity();
  EXPECT_TRUE(buffer.take(pieces).at("39999").equal(flat.narrow(0, 39'999, 1)));
  EXPECT_EQ(buffer.capacity(), capacity);
}

TEST(AsyncCheckpointer, CopiesShardsLikeWholeTensors) {
  const TemporaryDirectory directory;
  AsyncCheckpointer saver({.directory = directory.path()}, {}, kLong);
  CheckpointContent content = content_of(1, {{"model/w", torch::ones({100})}});
  const at::Tensor piece = torch::arange(6, at::kFloat);
  content.shards["model/s"] = {piece, {2, 3}, 0};
  content.shards["model/scalar"] = {torch::full({1}, 5.0F), {}, 0};
  content.shards["model/none"] = {torch::zeros({0}), {0, 3}, 0};
  saver.reserve(content);
  saver.save(content, kNoWorker);
  piece.zero_();
  saver.wait();
  const CheckpointReader reader(directory / "step-1", {.rank = 0, .world_size = 1}, true);
  EXPECT_TRUE(reader.read("model").at("s").equal(torch::arange(6, at::kFloat).view({2, 3})));
  EXPECT_EQ(reader.read("model").at("scalar").item<float>(), 5);
  EXPECT_EQ(reader.read("model").at("scalar").dim(), 0);
  EXPECT_EQ(reader.read("model").at("none").sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(reader.manifest().tensors.at("model/s").pieces.at(0).sizes.size(), 2u) << "it is whole";
}

TEST(AsyncCheckpointer, FinishesItsSaveBeforeItGoes) {
  const TemporaryDirectory directory;
  {
    AsyncCheckpointer saver({.directory = directory.path()}, {}, kLong);
    saver.save(content_of(4, {{"model/w", torch::ones({50'000})}}), kNoWorker);
  }
  EXPECT_EQ(latest_checkpoint(directory.path())->step, 4);
}

std::string error_of_call(const std::function<void()>& call) {
  try {
    call();
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(AsyncCheckpointer, ThrowsAnErrorAtTheNextCallOnceAndThenContinues) {
  const TemporaryDirectory directory;
  const std::string blocked = directory / "c";
  AsyncCheckpointer saver({.directory = blocked}, {}, kLong);
  const CheckpointContent content = content_of(1, {{"model/w", torch::ones({5})}});
  std::ofstream(directory / "c") << "a file where the directory should be";
  saver.save(content, kNoWorker);
  const std::string error = error_of_call([&] { saver.save(content_of(2, {}), kNoWorker); });
  EXPECT_NE(error.find("an asynchronous save failed"), std::string::npos) << error;
  EXPECT_NE(error.find("cannot create the directory"), std::string::npos) << error;
  EXPECT_FALSE(saver.saving());
  std::filesystem::remove(blocked);
  saver.wait();  // the error was already thrown
  saver.save(content, kNoWorker);
  saver.wait();
  EXPECT_EQ(latest_checkpoint(blocked)->step, 1);
  // A failed copy is reported the same way, so that no other rank is left waiting.
  saver.save(content_of(2, {{"model/w", torch::ones({2}).to_sparse()}}), kNoWorker);
  EXPECT_NE(error_of_call([&] { saver.wait(); }).find("'model/w' is undefined, sparse"),
            std::string::npos);
  EXPECT_EQ(latest_checkpoint(blocked)->step, 1);
}

TEST(AsyncCheckpointer, WaitsForTheSaveBeforeButNotForever) {
  const TemporaryDirectory directory;
  Gate gate;
  AsyncCheckpointer saver({.directory = directory.path(),
                           .on_stage =
                               [&](const char* stage) {
                                 if (std::string(stage) == "prepared") gate.pass();
                               }},
                          {}, std::chrono::milliseconds(1));
  saver.save(content_of(1, {}), kNoWorker);
  const std::string error = error_of_call([&] { saver.wait(); });
  EXPECT_NE(error.find("the save of step 1 did not finish within 1 ms"), std::string::npos)
      << error;
  gate.open();
}

TEST(AsyncCheckpointer, SavesAtOnceWhenAskedAndKeepsByPolicy) {
  const TemporaryDirectory directory;
  AsyncCheckpointer saver(
      {.directory = directory.path(), .policy = {.keep_last = 1, .best_metric = "loss"}}, {},
      kLong);
  const double losses[] = {3, 1, 2, 5};
  for (int64_t step = 1; step <= 4; ++step) {
    CheckpointContent content = content_of(step, {{"model/w", torch::full({10}, step)}});
    content.manifest.metrics["loss"] = losses[step - 1];
    if (step % 2 == 0) {
      saver.save_now(content, kNoWorker);
    } else {
      saver.save(content, kNoWorker);
    }
  }
  saver.wait();
  const auto kept = list_checkpoints(directory.path());
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].step, 2);
  EXPECT_EQ(kept[0].metrics.at("loss"), 1);
  EXPECT_EQ(kept[1].step, 4);
}

TEST(CheckpointReader, ReadsByObjectAndPutsPiecesTogether) {
  const TemporaryDirectory directory;
  const std::string path = directory / "step-1";
  std::filesystem::create_directory(path);
  const at::Tensor whole = torch::arange(20, at::kFloat).view({5, 4});
  Manifest manifest;
  manifest.step = 1;
  ManifestTensor description{"F32", {5, 4}, {}};
  for (int rank = 0; rank < 2; ++rank) {
    const std::string file = shard_name(rank, 2);
    const at::Tensor part = rank == 0 ? whole.narrow(0, 0, 3) : whole.narrow(0, 3, 2);
    const SavedFile saved = save_safetensors(path + "/" + file, {{"p", part.clone()}});
    manifest.shards.push_back({file, saved.bytes, saved.sha256, rank, 0});
    description.pieces.push_back({file, "p", {rank * 3, 0}, {rank == 0 ? 3 : 2, 4}});
  }
  manifest.tensors["model/w"] = description;
  manifest.tensors["model.1/w"] = description;
  const auto write = [&] {
    std::ofstream(path + "/" + kManifestName) << format_manifest(manifest);
  };
  write();
  const CheckpointReader reader(path, Topology{}, true);
  EXPECT_EQ(reader.under("model")->names(), std::vector<std::string>{"w"});
  EXPECT_TRUE(reader.under("optim")->names().empty());
  EXPECT_TRUE(reader.read("model").at("w").equal(whole));
  const at::Tensor target = torch::zeros({5, 4}, at::kDouble);
  reader.under("model.1")->read_into("w", target);
  EXPECT_TRUE(target.equal(whole.to(at::kDouble)));
  EXPECT_THROW(reader.under("model")->read("v"), FormatError);
  manifest.tensors["model/w"].pieces.pop_back();
  write();
  EXPECT_THROW(CheckpointReader(path, Topology{}, true).read("model"), FormatError);
  EXPECT_THROW(together({}, [] { throw FormatError("x"); }), CheckpointError);
}

}  // namespace
}  // namespace muster
