// Reading ranges of tensors from maps, files and checkpoints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/files.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/named_state.h"
#include "checkpoint/safetensors_file.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

const Topology kAlone{.rank = 0, .world_size = 1};

// Bytes that this process has requested from the kernel with read and pread.
int64_t bytes_read() {
  std::istringstream text(read_file("/proc/self/io", 1 << 16));
  std::string word;
  int64_t value = 0;
  text >> word >> value;
  return word == "rchar:" ? value : -1;
}

// A checkpoint step-1 whose tensor "w" of shape [6, 4] consists of the given pieces.
std::string checkpoint_of(const TemporaryDirectory& directory, std::vector<TensorPiece> pieces,
                          const std::vector<at::Tensor>& parts) {
  const std::string step = directory / "step-1";
  make_directories(step);
  Manifest manifest;
  manifest.step = 1;
  manifest.world_size = 3;
  for (size_t i = 0; i < parts.size(); ++i) {
    pieces[i].file = shard_name(static_cast<int>(i), static_cast<int>(parts.size()));
    pieces[i].tensor = "part";
    const SavedFile saved =
        write_safetensors(step + "/" + pieces[i].file, {{"part", parts[i]}}, {});
    manifest.shards.push_back({pieces[i].file, saved.bytes, saved.sha256, static_cast<int>(i), 0});
  }
  manifest.tensors["model/w"] = {"F32", {6, 4}, std::move(pieces)};
  write_file_durably(step + "/" + kManifestName, format_manifest(manifest));
  return step;
}

const at::Tensor& whole() {
  static const at::Tensor tensor = torch::arange(24, at::kFloat).view({6, 4});
  return tensor;
}

void reads_everything(const CheckpointReader& reader) {
  const auto model = reader.under("model");
  EXPECT_TRUE(model->read("w").equal(whole()));
  for (int64_t begin = 0; begin <= 24; ++begin) {
    for (int64_t end = begin; end <= 24; ++end) {
      const at::Tensor target = torch::full({end - begin}, -1.0F);
      model->read_range("w", begin, target);
      ASSERT_TRUE(target.equal(whole().flatten().slice(0, begin, end))) << begin << " " << end;
    }
  }
  EXPECT_THROW(model->read_range("w", 20, torch::zeros({5})), std::invalid_argument);
  EXPECT_THROW(model->read_range("w", -1, torch::zeros({5})), std::invalid_argument);
  EXPECT_THROW(model->read_range("w", 0, torch::zeros({2, 2})), std::invalid_argument);
  EXPECT_THROW(model->read_range("v", 0, torch::zeros({2})), FormatError);
}

TEST(Ranges, ComeOutOfPiecesOfAnyForm) {
  const at::Tensor flat = whole().flatten();
  {
    const TemporaryDirectory directory;
    reads_everything(CheckpointReader(
        checkpoint_of(directory, {{"", "", {0}, {5}}, {"", "", {5}, {18}}, {"", "", {23}, {1}}},
                      {flat.slice(0, 0, 5), flat.slice(0, 5, 23), flat.slice(0, 23, 24)}),
        kAlone, true));
  }
  {
    const TemporaryDirectory directory;
    reads_everything(CheckpointReader(
        checkpoint_of(directory, {{"", "", {0, 0}, {6, 4}}}, {whole()}), kAlone, true));
  }
  const TemporaryDirectory directory;
  reads_everything(CheckpointReader(
      checkpoint_of(directory,
                    {{"", "", {0, 0}, {2, 4}}, {"", "", {2, 0}, {4, 1}}, {"", "", {2, 1}, {4, 3}}},
                    {whole().slice(0, 0, 2), whole().slice(0, 2).slice(1, 0, 1),
                     whole().slice(0, 2).slice(1, 1)}),
      kAlone, true));
}

TEST(Ranges, CostOnlyTheirBytes) {
  const TemporaryDirectory directory;
  const at::Tensor large = torch::arange(1 << 20, at::kFloat).view({1 << 10, 1 << 10});
  save_safetensors(directory / "f", {{"large", large}});
  const SafetensorsReader reader(directory / "f");
  const at::Tensor part = torch::zeros({100});
  const int64_t before = bytes_read();
  ASSERT_GE(before, 0);
  reader.read_range("large", 500'000, part);
  EXPECT_LT(bytes_read() - before, 100 * 4 + 4096) << "and what /proc/self/io itself has";
  EXPECT_TRUE(part.equal(large.flatten().slice(0, 500'000, 500'100)));
  EXPECT_THROW(reader.read_range("large", (1 << 20) - 99, part), std::invalid_argument);
  EXPECT_THROW(reader.read_range("small", 0, part), FormatError);
}

template <typename Expected>
std::string fault_of(const CheckpointReader& reader) {
  try {
    reader.under("model")->read_range("w", 4, torch::zeros({6}));
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

TEST(Ranges, OfDamagedCheckpointsNameFileTensorAndElements) {
  const at::Tensor flat = whole().flatten();
  const std::vector<TensorPiece> pieces = {{"", "", {0}, {5}}, {"", "", {5}, {19}}};
  const std::string asked = "(elements [4, 10) of 'model/w' were requested)";
  const auto has = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas not\n" << part;
    }
  };
  {
    const TemporaryDirectory directory;
    const std::string step =
        checkpoint_of(directory, pieces, {flat.slice(0, 0, 5), flat.slice(0, 5)});
    const CheckpointReader reader(step, kAlone, false);
    std::filesystem::remove(step + "/" + shard_name(1, 2));
    has(fault_of<CheckpointError>(reader), {step + "/" + shard_name(1, 2), asked});
  }
  {
    const TemporaryDirectory directory;
    const std::string step =
        checkpoint_of(directory, pieces, {flat.slice(0, 0, 5), flat.slice(0, 5, 23)});
    has(fault_of<FormatError>(CheckpointReader(step, kAlone, true)),
        {step + "/" + shard_name(1, 2), "is not the piece that the manifest describes", asked});
  }
  {
    const TemporaryDirectory directory;
    const std::string step =
        checkpoint_of(directory, pieces, {flat.slice(0, 0, 5), flat.slice(0, 5).to(at::kDouble)});
    has(fault_of<FormatError>(CheckpointReader(step, kAlone, true)), {shard_name(1, 2), asked});
  }
  const TemporaryDirectory directory;
  const std::string step = checkpoint_of(directory, {{"", "", {0}, {5}}, {"", "", {7}, {17}}},
                                         {flat.slice(0, 0, 5), flat.slice(0, 7)});
  has(fault_of<FormatError>(CheckpointReader(step, kAlone, true)),
      {step, "no piece has elements [5, 7) of the 24 of 'model/w'"});
}

TEST(RangeSources, ShowOnlyTheRangesAsTensors) {
  const MapSource base({{"w", whole()}, {"b", torch::ones({3})}});
  const RangeSource source(base, {{"w", {6, 9, {6, 4}}}, {"missing", {0, 2, {2}}}});
  EXPECT_EQ(source.names(), (std::vector<std::string>{"b", "w"}));
  EXPECT_EQ(source.find("w")->shape, std::vector<int64_t>{9});
  EXPECT_EQ(source.find("w")->dtype, "F32");
  EXPECT_FALSE(source.find("missing"));
  EXPECT_THROW(source.read("missing"), FormatError);
  EXPECT_TRUE(source.read("b").equal(torch::ones({3})));
  EXPECT_TRUE(source.read("w").equal(whole().flatten().slice(0, 6, 15)));
  const at::Tensor tail = torch::zeros({2}, at::kDouble);
  source.read_range("w", 7, tail);
  EXPECT_TRUE(tail.equal(torch::tensor({13.0, 14.0}, at::kDouble)));
  EXPECT_THROW(source.read_range("w", 8, tail), std::invalid_argument);
  EXPECT_THROW(source.read_into("w", torch::zeros({8})), FormatError);
}

TEST(RangeSources, RefuseTensorsOfAnotherShapeEvenOfTheSameSize) {
  const MapSource base({{"w", whole()}, {"b", torch::ones({6})}});
  try {
    const RangeSource source(base, {{"w", {0, 4, {4, 6}}}, {"b", {0, 6, {2, 6}}}}, "step-1");
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(std::string(error.what()),
              "step-1 does not fit the model: 'b' has shape [6] instead of [2, 6]; 'w' has shape "
              "[6, 4] instead of [4, 6];");
  }
  EXPECT_THROW(RangeSource(base, {{"w", {20, 5, {6, 4}}}}), std::invalid_argument);
  EXPECT_THROW(RangeSource(base, {{"w", {-1, 5, {6, 4}}}}), std::invalid_argument);
}

// Code that restores a full model also restores a rank's shard of it.
TEST(RangeSources, RestoreAModuleOfPieces) {
  struct PiecesImpl : torch::nn::Module {
    PiecesImpl() {
      register_parameter("w", torch::zeros({7}));
      register_parameter("none", torch::zeros({0}));
    }
  } pieces;
  const MapSource base({{"w", whole()}, {"none", torch::ones({3, 3})}});
  restore_module(pieces, RangeSource(base, {{"w", {3, 7, {6, 4}}}, {"none", {9, 0, {3, 3}}}}), "x");
  EXPECT_TRUE(pieces.named_parameters()["w"].equal(whole().flatten().slice(0, 3, 10)));
}

}  // namespace
}  // namespace muster
