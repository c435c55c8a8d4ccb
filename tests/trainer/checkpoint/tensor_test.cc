// Tensors in files, and optimizer state as tensors.
#include <gtest/gtest.h>
#include <muster/checkpoint/safetensors.h>
#include <muster/optim/optimizers.h>

#include <fstream>

#include "checkpoint/named_state.h"
#include "checkpoint/python_reader.h"
#include "muster/base/errors.h"
#include "optim/optimizer_tensors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

bool python_has_safetensors() {
  static const bool has = python_has("safetensors");
  return has;
}

const at::ScalarType kAllTypes[] = {
    at::kBool,   at::kByte,         at::kChar,        at::kShort,        at::kInt,    at::kLong,
    at::kHalf,   at::kBFloat16,     at::kFloat,       at::kDouble,       at::kUInt16, at::kUInt32,
    at::kUInt64, at::kComplexFloat, at::kFloat8_e5m2, at::kFloat8_e4m3fn};

TensorMap one_of_each_type() {
  TensorMap tensors;
  for (const at::ScalarType type : kAllTypes) {
    tensors[c10::toString(type)] = torch::arange(6).view({2, 3}).to(type);
  }
  return tensors;
}

TEST(Safetensors, ComeBackWithEveryDtypeAndShape) {
  const TemporaryDirectory directory;
  TensorMap tensors = one_of_each_type();
  tensors["scalar"] = torch::tensor(2.5);
  tensors["empty"] = torch::zeros({0, 4});
  tensors["transposed"] = torch::arange(6).view({2, 3}).t();
  const SavedFile saved = save_safetensors(directory / "f", tensors, {{"format", "pt"}});
  EXPECT_EQ(saved.bytes, std::filesystem::file_size(directory / "f"));
  EXPECT_EQ(saved.sha256.size(), 64u);
  const TensorMap read = load_safetensors(directory / "f");
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor& same = read.at(name);
    EXPECT_EQ(same.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(same.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(same.to(at::kComplexDouble).equal(tensor.to(at::kComplexDouble))) << name;
  }
}

TEST(Safetensors, AreReadByPythonWithTheSameValues) {
  if (!python_has_safetensors()) GTEST_SKIP() << "no Python with safetensors";
  const TemporaryDirectory directory;
  TensorMap tensors = one_of_each_type();
  tensors["tied"] = tensors["Float"];
  save_safetensors(directory / "f", tensors, {{"note", "x"}});
  const ChildResult result = python(
      "import sys, torch\n"
      "from safetensors import safe_open\n"
      "from safetensors.torch import load_file\n"
      "read = load_file(sys.argv[1])\n"
      "for name, tensor in read.items():\n"
      "    expected = torch.arange(6).view(2, 3).to(tensor.dtype)\n"
      "    assert tensor.to(torch.complex128).equal(expected.to(torch.complex128)), name\n"
      "meta = safe_open(sys.argv[1], 'pt').metadata()\n"
      "assert meta['note'] == 'x' and meta['tied'] == 'Float', meta\n"
      "print(len(read))\n",
      directory / "f");
  EXPECT_EQ(result.output, "16\n");
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Safetensors, OfPythonAreRead) {
  if (!python_has_safetensors()) GTEST_SKIP() << "no Python with safetensors";
  const TemporaryDirectory directory;
  const ChildResult result = python(
      "import sys, torch\n"
      "from safetensors.torch import save_file\n"
      "save_file({'w': torch.arange(12.).view(3, 4).bfloat16(), 's': torch.tensor(7)},\n"
      "          sys.argv[1], metadata={'format': 'pt'})\n",
      directory / "f");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const TensorMap read = load_safetensors(directory / "f");
  EXPECT_TRUE(read.at("w").equal(torch::arange(12).view({3, 4}).to(at::kBFloat16)));
  EXPECT_EQ(read.at("s").item<int64_t>(), 7);
}

TEST(Safetensors, WriteTiedWeightsOnceAndGiveThemBackTied) {
  const TemporaryDirectory directory;
  const at::Tensor shared = torch::randn({64, 64});
  const SavedFile once = save_safetensors(directory / "a", {{"embedding", shared}});
  const SavedFile twice =
      save_safetensors(directory / "b", {{"embedding", shared}, {"head", shared}});
  EXPECT_LT(twice.bytes, once.bytes + 200);
  const TensorMap read = load_safetensors(directory / "b");
  EXPECT_TRUE(read.at("head").is_same(read.at("embedding")));
  EXPECT_TRUE(SafetensorsReader(directory / "b").contains("head"));
}

// The names of tied weights are keys of the metadata, as is "format", by which readers know the file.
TEST(Safetensors, KeepATiedWeightAndMetadataOfOneName) {
  const TemporaryDirectory directory;
  const at::Tensor shared = torch::randn({4});
  const StringMap metadata = {{"format", "pt"}};
  save_safetensors(directory / "a", {{"embedding", shared}, {"format", shared}}, metadata);
  EXPECT_EQ(SafetensorsReader(directory / "a").metadata().at("format"), "pt");
  EXPECT_TRUE(load_safetensors(directory / "a").at("format").equal(shared));
  struct TiedImpl : torch::nn::Module {
    explicit TiedImpl(const at::Tensor& weight) {
      register_parameter("embedding", weight);
      register_parameter("format", weight);
    }
  } tied(shared);
  save_model(tied, directory / "model");
  const SafetensorsReader reader(directory / "model/model.safetensors");
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_TRUE(load_safetensors(directory / "model/model.safetensors").at("format").equal(shared));
}

TEST(Safetensors, RefuseWhatTheFormatCannotRepresent) {
  const TemporaryDirectory directory;
  EXPECT_THROW(save_safetensors(directory / "f", {{"x", torch::zeros({2}, at::kComplexDouble)}}),
               FormatError);
  EXPECT_THROW(save_safetensors(directory / "f", {{"x", torch::zeros({2}).to_sparse()}}),
               FormatError);
  EXPECT_THROW(save_safetensors("/nowhere/f", {{"x", torch::zeros({2})}}), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(directory / "f"));
}

TEST(Safetensors, RefuseDamagedFilesAtEveryLength) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "f", {{"w", torch::arange(10)}, {"b", torch::ones({3})}});
  std::ifstream file(directory / "f", std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  for (size_t length = 0; length < good.size(); ++length) {
    std::ofstream(directory / "g", std::ios::binary) << good.substr(0, length);
    EXPECT_THROW(load_safetensors(directory / "g"), FormatError) << "cut to " << length;
  }
  std::string huge = good;
  huge[7] = '\x7f';  // a header of 2^62 bytes
  std::ofstream(directory / "g", std::ios::binary) << huge;
  EXPECT_THROW(load_safetensors(directory / "g"), FormatError);
  std::ofstream(directory / "g", std::ios::binary) << good << "x";
  EXPECT_THROW(load_safetensors(directory / "g"), FormatError);
  EXPECT_THROW(load_safetensors(directory / "missing"), CheckpointError);
}

// Trains a little, saves, trains more; then restores into a new optimizer and repeats: same
// weights. The second optimizer may come from another library.
template <typename First, typename Second = First, typename Options, typename Others = Options>
void expect_restorable(const Options& options, const Others& others) {
  torch::manual_seed(3);
  const at::Tensor start = torch::randn({4, 3});
  const auto train = [](at::Tensor& weight, torch::optim::Optimizer& optimizer, int from, int to) {
    for (int step = from; step < to; ++step) {
      optimizer.zero_grad();
      (weight * (step + 1)).sin().sum().backward();
      optimizer.step();
    }
  };
  at::Tensor weight = start.clone().set_requires_grad(true);
  First first({weight}, options);
  train(weight, first, 0, 3);
  first.param_groups()[0].options().set_lr(0.005);
  const ParameterNames names = {{weight.unsafeGetTensorImpl(), "w"}};
  TensorMap saved;
  for (const auto& [name, tensor] : optimizer_tensors(first, names)) saved[name] = tensor.clone();
  at::Tensor copy = weight.detach().clone().set_requires_grad(true);
  train(weight, first, 3, 6);

  Second second({copy}, others);
  restore_optimizer(second, {{copy.unsafeGetTensorImpl(), "w"}}, MapSource(saved));
  train(copy, second, 3, 6);
  EXPECT_TRUE(copy.equal(weight));
}

template <typename Optimizer, typename Options>
void expect_restorable(const Options& options) {
  expect_restorable<Optimizer, Optimizer>(options, options);
}

TEST(OptimizerState, ContinuesEveryKindBitForBit) {
  namespace optim = torch::optim;
  expect_restorable<optim::Adam>(optim::AdamOptions(0.01).amsgrad(true));
  expect_restorable<optim::AdamW>(optim::AdamWOptions(0.01));
  expect_restorable<optim::SGD>(optim::SGDOptions(0.01).momentum(0.9));
  expect_restorable<optim::RMSprop>(optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  expect_restorable<optim::Adagrad>(optim::AdagradOptions(0.01));
  expect_restorable<Adam>(AdamOptions{.lr = 0.01, .amsgrad = true});
  expect_restorable<AdamW>(AdamWOptions{.lr = 0.01});
  expect_restorable<SGD>(SGDOptions{.lr = 0.01, .momentum = 0.9});
  expect_restorable<Adagrad>(AdagradOptions{.lr = 0.01});
}

// What torch's optimizer saved, muster's of the same kind restores, and vice versa.
template <typename First, typename Second, typename Options, typename Others>
void expect_state_moves(const Options& options, const Others& others) {
  at::Tensor weight = torch::ones({3}).set_requires_grad(true);
  at::Tensor other = torch::ones({3}).set_requires_grad(true);
  First first({weight}, options);
  for (int step = 0; step < 2; ++step) {
    first.zero_grad();
    weight.sin().sum().backward();
    first.step();
  }
  Second second({other}, others);
  const auto copy_of = [](const TensorMap& tensors) {
    TensorMap copies;
    for (const auto& [name, tensor] : tensors) copies[name] = tensor.clone();
    return copies;
  };
  const TensorMap saved = copy_of(optimizer_tensors(first, {}));
  restore_optimizer(second, {}, MapSource(saved));
  const TensorMap again = optimizer_tensors(second, {});
  ASSERT_EQ(again.size(), saved.size());
  for (const auto& [name, tensor] : saved) {
    EXPECT_TRUE(again.at(name).equal(tensor)) << name;
    EXPECT_EQ(again.at(name).scalar_type(), tensor.scalar_type()) << name;
  }
}

TEST(OptimizerState, MovesBetweenTorchsAndMustersOptimizers) {
  namespace optim = torch::optim;
  expect_state_moves<optim::AdamW, AdamW>(optim::AdamWOptions(0.1), AdamWOptions{});
  expect_state_moves<AdamW, optim::AdamW>(AdamWOptions{}, optim::AdamWOptions(0.1));
  expect_state_moves<optim::Adam, Adam>(optim::AdamOptions(0.1).amsgrad(true),
                                        AdamOptions{.amsgrad = true});
  expect_state_moves<optim::SGD, SGD>(optim::SGDOptions(0.1).momentum(0.9),
                                      SGDOptions{.momentum = 0.9});
  expect_state_moves<SGD, optim::SGD>(SGDOptions{.momentum = 0.9},
                                      optim::SGDOptions(0.1).momentum(0.9));
  expect_state_moves<Adagrad, optim::Adagrad>(AdagradOptions{}, optim::AdagradOptions(0.1));
}

TEST(Safetensors, AreReadIntoPlaceWhateverTheTarget) {
  const TemporaryDirectory directory;
  const at::Tensor saved = torch::arange(12, at::kFloat).view({3, 4});
  save_safetensors(directory / "f", {{"w", saved}});
  const SafetensorsReader reader(directory / "f");
  EXPECT_EQ(reader.dtype("w"), "F32");
  const at::Tensor parameter = torch::zeros({3, 4}).set_requires_grad(true);
  const void* const memory = parameter.const_data_ptr();
  const auto version = parameter._version();
  reader.read_into("w", parameter);
  EXPECT_TRUE(parameter.equal(saved));
  EXPECT_EQ(parameter.const_data_ptr(), memory);
  EXPECT_GT(parameter._version(), version);  // or a backward would use wrong values unnoticed
  const at::Tensor transposed = torch::zeros({4, 3}).t();
  reader.read_into("w", transposed);
  EXPECT_TRUE(transposed.equal(saved));
  const at::Tensor half = torch::zeros({3, 4}, at::kBFloat16);
  reader.read_into("w", half);
  EXPECT_TRUE(half.equal(saved.to(at::kBFloat16)));
  EXPECT_THROW(reader.read_into("w", torch::zeros({4, 3})), FormatError);
  EXPECT_THROW(reader.read_into("v", parameter), FormatError);
}

TEST(ModuleState, ReportsEverythingThatDoesNotFit) {
  torch::nn::Linear layer(2, 3);
  const at::Tensor before = layer->weight.detach().clone();
  try {
    restore_module(*layer, {{"weight", torch::zeros({5})}, {"extra", torch::zeros({1})}}, "step-1");
    ADD_FAILURE() << "expected a CheckpointError";
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(
        error.what(),
        "step-1 does not fit the model: 'bias' is missing; 'weight' has a different shape; "
        "'extra' is unknown to the model;");
  }
  EXPECT_TRUE(layer->weight.equal(before));
}

TEST(OptimizerState, IsRefusedForAnotherModelOrAnUnknownOptimizer) {
  at::Tensor weight = torch::ones({2}).set_requires_grad(true);
  torch::optim::Adam adam({weight}, torch::optim::AdamOptions(0.1));
  EXPECT_THROW(restore_optimizer(adam, {}, MapSource(TensorMap())), CheckpointError);
  const TensorMap other = {{"lr", torch::ones({1}, at::kDouble)},
                           {"exp_avg/group.0.parameter.0", torch::ones({5})}};
  EXPECT_THROW(restore_optimizer(adam, {}, MapSource(other)), CheckpointError);
  torch::optim::LBFGS lbfgs({weight}, torch::optim::LBFGSOptions(1));
  EXPECT_THROW(optimizer_tensors(lbfgs, {}), CheckpointError);
}

}  // namespace
}  // namespace muster
