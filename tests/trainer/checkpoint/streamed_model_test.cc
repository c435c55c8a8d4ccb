// Weights written one tensor at a time, checked against save_model and Hugging Face's own readers.
#include "checkpoint/streamed_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "checkpoint/python_reader.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

struct BodyImpl : torch::nn::Module {
  BodyImpl() {
    register_module("embedding", torch::nn::Embedding(50, 16));
    register_module("norm", torch::nn::BatchNorm1d(32));
    register_module("linear", torch::nn::Linear(16, 32));
    register_parameter("z_half", torch::ones({5, 3}, at::kBFloat16));
    register_parameter("a_scalar", torch::tensor(2.5));
    register_buffer("no_rows", torch::zeros({0, 4}));
  }
};
TORCH_MODULE(Body);

// The tensors in the order of Python's state_dict, as the owner of a sharded model knows it.
struct Outlines {
  explicit Outlines(const torch::nn::Module& module, const std::string& prefix = "") {
    append(module, prefix);
  }
  void append(const torch::nn::Module& module, const std::string& prefix) {
    for (const auto& item : module.named_parameters(false)) add(prefix + item.key(), item.value());
    for (const auto& item : module.named_buffers(false)) add(prefix + item.key(), item.value());
    for (const auto& child : module.named_children()) {
      append(*child.value(), prefix + child.key() + ".");
    }
  }
  void add(const std::string& name, const at::Tensor& tensor) {
    list.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    values[name] = tensor;
  }
  std::vector<TensorOutline> list;
  TensorMap values;
};

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// Returns copies, counts them, and checks that the previous one was released.
struct Fetcher {
  const TensorMap& values;
  std::vector<std::string> fetched = {};
  WeakTensor previous = WeakTensor(at::Tensor().getIntrusivePtr());
  bool one_at_a_time = true;

  at::Tensor operator()(const std::string& name) {
    one_at_a_time = one_at_a_time && (fetched.empty() || previous.expired());
    fetched.push_back(name);
    at::Tensor copy = values.at(name).detach().clone();
    previous = WeakTensor(copy.getIntrusivePtr());
    return copy;
  }
};

std::map<std::string, std::string> contents(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files[entry.path().filename()] = read_file(entry.path(), 1 << 20);
  }
  return files;
}

TEST(StreamedModels, AreTheFilesOfSaveModelByteForByte) {
  const Body body;
  const Outlines outlines(*body);
  for (const char* size : {"10GB", "2KB", "1KB", "100B"}) {
    const TemporaryDirectory streamed, direct;
    Fetcher fetcher{outlines.values};
    const SaveModelOptions options{.max_shard_size = size};
    const SavedModel saved =
        save_model_streamed(outlines.list, {}, streamed.path(), options, std::ref(fetcher));
    const SavedModel expected = save_model(*body, direct.path(), options);
    EXPECT_EQ(saved.files, expected.files);
    EXPECT_EQ(saved.total_size, expected.total_size);
    EXPECT_EQ(contents(streamed.path()), contents(direct.path())) << size;
    EXPECT_EQ(fetcher.fetched, streaming_order(outlines.list, options));
    EXPECT_EQ(fetcher.fetched.size(), outlines.list.size());
    EXPECT_TRUE(fetcher.one_at_a_time);
  }
}

TEST(StreamedModels, WriteTiedWeightsOnceAsSaveModelDoes) {
  const TemporaryDirectory streamed, direct;
  const at::Tensor weight = torch::randn({50, 16});
  struct TiedImpl : torch::nn::Module {
    explicit TiedImpl(const at::Tensor& weight) {
      register_parameter("embedding", weight);
      register_parameter("other", torch::ones({3}));
      register_parameter("head", weight);
    }
  } const module(weight);
  const std::vector<TensorOutline> list = {{"embedding", at::kFloat, {50, 16}},
                                           {"other", at::kFloat, {3}}};
  const TensorMap values = {{"embedding", weight}, {"other", torch::ones({3})}};
  const SaveModelOptions options{.max_shard_size = "1KB"};
  save_model_streamed(list, {{"head", "embedding"}}, streamed.path(), options, Fetcher{values});
  save_model(module, direct.path(), options);
  EXPECT_EQ(contents(streamed.path()), contents(direct.path()));
  EXPECT_TRUE(load_model_tensors(streamed.path()).at("head").equal(weight));
  for (const StringMap& wrong :
       {StringMap{{"head", "nothing"}}, StringMap{{"other", "embedding"}}}) {
    EXPECT_THROW(save_model_streamed(list, wrong, streamed.path(), options, Fetcher{values}),
                 std::invalid_argument);
  }
}

TEST(StreamedModels, AreReadByHuggingFace) {
  if (!python_has("accelerate") || !python_has("safetensors")) GTEST_SKIP() << "no Python packages";
  const TemporaryDirectory directory;
  const std::vector<TensorOutline> list = {{"0.weight", at::kFloat, {32, 16}},
                                           {"0.bias", at::kFloat, {32}},
                                           {"1.weight", at::kFloat, {4, 32}},
                                           {"1.bias", at::kFloat, {4}}};
  const auto fetch = [&](const std::string& name) {
    for (const TensorOutline& outline : list) {
      if (outline.name != name) continue;
      return torch::arange(c10::multiply_integers(outline.shape), at::kFloat).view(outline.shape);
    }
    return at::Tensor();
  };
  for (const char* size : {"10GB", "1KB"}) {
    save_model_streamed(list, {}, directory / size, {.max_shard_size = size}, fetch);
  }
  const ChildResult result = python(
      "import sys, os, glob, torch, logging\n"
      "logging.disable(logging.WARNING)\n"
      "from accelerate import load_checkpoint_in_model\n"
      "from safetensors.torch import load_file\n"
      "for size in ('10GB', '1KB'):\n"
      "    top = os.path.join(sys.argv[1], size)\n"
      "    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 4))\n"
      "    load_checkpoint_in_model(net, top)\n"
      "    files = {}\n"
      "    for file in glob.glob(top + '/*.safetensors'): files.update(load_file(file))\n"
      "    for name, tensor in net.state_dict().items():\n"
      "        expected = torch.arange(tensor.numel()).float().view(tensor.shape)\n"
      "        assert torch.equal(tensor, expected) and torch.equal(files[name], expected), name\n"
      "print('same', len(glob.glob(sys.argv[1] + '/1KB/*.safetensors')))\n",
      directory.path());
  EXPECT_EQ(result.output, "same 2\n");
}

TEST(StreamedModels, AreInTheOrderOfTheStateDict) {
  const Body body;
  std::vector<std::string> expected;
  for (const TensorOutline& outline : Outlines(*body).list) expected.push_back(outline.name);
  EXPECT_EQ(state_names(*body), expected);
  EXPECT_EQ(expected.front(), "z_half") << "the module's own come before its children's";
  EXPECT_EQ(expected[2], "no_rows") << "and its buffers too";
}

// Ranks that only help gathering go through all tensors, so the writing rank must do so too.
TEST(StreamedModels, AreFetchedToTheEndWhenTheDiskRefuses) {
  const TemporaryDirectory directory;
  const Body body;
  const Outlines outlines(*body);
  write_file_durably(directory / "file", "");
  Fetcher fetcher{outlines.values};
  EXPECT_THROW(save_model_streamed(outlines.list, {}, directory / "file", {}, std::ref(fetcher)),
               CheckpointError);
  EXPECT_EQ(fetcher.fetched, streaming_order(outlines.list, {}));
  EXPECT_TRUE(fetcher.one_at_a_time);
}

TEST(StreamedModels, ThatDoNotMatchTheirOutlinesLeaveTheEarlierFilesAlone) {
  const TemporaryDirectory directory;
  const Body body;
  const Outlines outlines(*body);
  save_model(*body, directory.path());
  const auto before = contents(directory.path());
  TensorMap others = outlines.values;
  others["linear.bias"] = torch::zeros({31});
  Fetcher wrong{others};
  try {
    save_model_streamed(outlines.list, {}, directory.path(), {}, std::ref(wrong));
    ADD_FAILURE();
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("tensor 'linear.bias' is Float [31]"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(wrong.fetched.size(), outlines.list.size());
  // The caller's own exception propagates at once.
  int calls = 0;
  const auto broken = [&](const std::string&) -> at::Tensor {
    ++calls;
    throw CommunicationError("a rank is gone");
  };
  EXPECT_THROW(save_model_streamed(outlines.list, {}, directory.path(), {}, broken),
               CommunicationError);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(contents(directory.path()), before);
  std::vector<TensorOutline> twice = outlines.list;
  twice.push_back(twice.front());
  EXPECT_THROW(save_model_streamed(twice, {}, directory.path(), {}, broken), std::invalid_argument);
}

}  // namespace
}  // namespace muster
