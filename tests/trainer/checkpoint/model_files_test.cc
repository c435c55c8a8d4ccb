// Exchanging weights with Hugging Face's own packages, in both directions.
#include "muster/checkpoint/model_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "base/files.h"
#include "checkpoint/python_reader.h"
#include "muster/base/errors.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

struct HeadImpl : torch::nn::Module {
  explicit HeadImpl(const at::Tensor& weight) { register_parameter("weight", weight); }
};
TORCH_MODULE(Head);

// The Python programs below build the same modules. `tied`: the head is the embedding.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(bool tied) {
    auto embedding = register_module("embedding", torch::nn::Embedding(50, 16));
    body = register_module(
        "body", torch::nn::Sequential(torch::nn::Linear(16, 32), torch::nn::BatchNorm1d(32),
                                      torch::nn::Linear(32, 16)));
    register_module("head", Head(tied ? embedding->weight : torch::zeros({50, 16})));
    const torch::NoGradGuard no_grad;
    for (auto& item : named_parameters()) item.value().copy_(values(item.key(), item.value()));
    for (auto& item : named_buffers()) item.value().copy_(values(item.key(), item.value()));
  }
  static at::Tensor values(const std::string& name, const at::Tensor& like) {
    const auto start = static_cast<double>(name == "head.weight" ? 16 : name.size());
    return (torch::arange(like.numel(), at::kDouble) + start).view(like.sizes()).to(like.dtype());
  }
  torch::nn::Sequential body{nullptr};
};
TORCH_MODULE(Net);

constexpr char kPythonNet[] = R"(
import sys, os, json, filecmp, logging, torch
logging.disable(logging.WARNING)
from torch import nn
from safetensors.torch import load_file, load_model, save_file
import accelerate
from accelerate import Accelerator, load_checkpoint_in_model

class Net(nn.Module):
    def __init__(self, tied, filled):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.body = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 16))
        self.head = nn.Linear(16, 50, bias=False)
        if tied: self.head.weight = self.embedding.weight
        for name, tensor in self.state_dict().items():
            start = 16 if name == 'head.weight' else len(name)
            with torch.no_grad():
                tensor.copy_(torch.arange(tensor.numel()).double().add(start).view(tensor.shape) if filled else 0 * tensor)

def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)

top = sys.argv[1]
)";

bool same_weights(const Net& a, const Net& b) {
  const auto left = a->named_parameters(), right = b->named_parameters();
  for (const auto& item : left) {
    if (!item.value().equal(right[item.key()])) return false;
  }
  for (const auto& item : a->named_buffers()) {
    if (!item.value().equal(b->named_buffers()[item.key()])) return false;
  }
  return true;
}

Net zeroed(bool tied) {
  Net net(tied);
  const torch::NoGradGuard no_grad;
  for (auto& item : net->named_parameters()) item.value().zero_();
  for (auto& item : net->named_buffers()) item.value().zero_();
  return net;
}

TEST(ParseSize, ReadsBothKindsOfUnits) {
  EXPECT_EQ(parse_size("10GB"), 10'000'000'000u);
  EXPECT_EQ(parse_size(" 1.5 mb "), 1'500'000u);
  EXPECT_EQ(parse_size("5GiB"), 5'368'709'120u);
  EXPECT_EQ(parse_size("64KiB"), 65'536u);
  EXPECT_EQ(parse_size("2TB"), 2'000'000'000'000u);
  EXPECT_EQ(parse_size("123"), 123u);
  EXPECT_EQ(parse_size("123B"), 123u);
  for (const char* bad :
       {"", "GB", "-1GB", "0", "0.1", "10XB", "10 GB GB", "1e300TB", "nan", "0x10", "inf"}) {
    EXPECT_THROW(parse_size(bad), std::invalid_argument) << bad;
  }
}

const char* const kSizes[] = {"10GB", "5KB", "2.2KB", "1"};

// Importing Accelerate takes seconds, so one program does everything: compares the files in the
// directory with its own, loads them, and leaves its own to be loaded.
constexpr char kPythonProgram[] = R"(
net = Net(tied=False, filled=True)
for size in ['10GB', '5KB', '2.2KB', '1']:
    ours, theirs = os.path.join(top, 'free-' + size), os.path.join(top, 'python-' + size)
    Accelerator().save_model(net, theirs, max_shard_size=1 if size == '1' else size)
    names = sorted(os.listdir(theirs))
    assert names == sorted(os.listdir(ours)), (names, os.listdir(ours))
    match, different, errors = filecmp.cmpfiles(theirs, ours, names, shallow=False)
    assert not different and not errors, different + errors
    print('equal', size, len(names))

filled = Net(tied=True, filled=True)
for size in ['10GB', '2.2KB']:
    net = Net(tied=True, filled=False)
    load_checkpoint_in_model(net, os.path.join(top, 'tied-' + size))
    assert same(net, filled), size
    Accelerator().save_model(filled, os.path.join(top, 'python-tied-' + size), max_shard_size=size)
single = os.path.join(top, 'tied-10GB', 'model.safetensors')
read = load_file(single)
assert 'head.weight' not in read and len(read) == 10, read.keys()
net = Net(tied=True, filled=False)
load_model(net, single, strict=True)
assert same(net, filled)
index = json.load(open(os.path.join(top, 'tied-2.2KB', 'model.safetensors.index.json')))
assert index['metadata']['total_size'] == sum(t.nbytes for t in read.values())
print('loaded')

state = Net(False, True).state_dict().items()
save_file({'module.' + k: v.bfloat16() if v.is_floating_point() else v for k, v in state},
          os.path.join(top, 'wrapped.safetensors'))
)";

class ModelFiles : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!python_has("accelerate")) return;
    directory_ = std::make_unique<TemporaryDirectory>();
    for (const char* size : kSizes) {
      save_model(*Net(/*tied=*/false), in("free-") + size, {.max_shard_size = size});
      save_model(*Net(/*tied=*/true), in("tied-") + size, {.max_shard_size = size});
    }
    result_ = python(std::string(kPythonNet) + kPythonProgram, directory_->path());
  }
  static void TearDownTestSuite() { directory_.reset(); }
  void SetUp() override {
    if (!directory_) GTEST_SKIP() << "no Python with accelerate";
  }
  static std::string in(const std::string& name) { return *directory_ / name; }

  static inline std::unique_ptr<TemporaryDirectory> directory_;
  static inline ChildResult result_;
};

TEST_F(ModelFiles, AreByteForByteThoseOfAccelerate) {
  EXPECT_NE(result_.output.find("equal 10GB 1\nequal 5KB 4\nequal 2.2KB 6\nequal 1 12\n"),
            std::string::npos)
      << result_.output;
}

TEST_F(ModelFiles, AreLoadedByAccelerateAndSafetensorsTiedToo) {
  EXPECT_NE(result_.output.find("loaded\n"), std::string::npos) << result_.output;
}

TEST_F(ModelFiles, OfPythonAreLoaded) {
  ASSERT_EQ(result_.exit_code, 0) << result_.output;
  for (const char* name : {"10GB", "2.2KB", "1", "tied-10GB", "tied-2.2KB"}) {
    const bool tied = std::string(name).starts_with("tied");
    Net net = zeroed(tied);
    EXPECT_EQ(load_model(*net, in("python-") + name).loaded.size(), 11u);
    EXPECT_TRUE(same_weights(net, Net(tied))) << name;
  }
}

TEST_F(ModelFiles, AreLoadedUnderOtherNamesAndDtypesOnlyWhenAsked) {
  ASSERT_EQ(result_.exit_code, 0) << result_.output;
  Net net = zeroed(false);
  const std::string wrapped = in("wrapped.safetensors");
  EXPECT_THROW(load_model(*net, wrapped, {.convert_dtype = true}), CheckpointError);
  EXPECT_THROW(load_model(*net, wrapped, {.strip_prefix = "module."}), CheckpointError);
  EXPECT_TRUE(same_weights(net, zeroed(false)));
  load_model(*net, wrapped, {.convert_dtype = true, .strip_prefix = "module."});
  EXPECT_TRUE(net->named_parameters()["body.0.bias"].equal(
      Net(false)->named_parameters()["body.0.bias"].to(at::kBFloat16).to(at::kFloat)));
}

TEST(LoadModel, ReportsEverythingThatDoesNotFit) {
  const TemporaryDirectory directory;
  TensorMap tensors = {{"0.weight", torch::ones({3, 2})},
                       {"0.bias", torch::ones({4})},
                       {"1.weight", torch::ones({3, 3}, at::kHalf)},
                       {"2.weight", torch::ones({1})}};
  save_safetensors(directory / "f", tensors);
  torch::nn::Sequential net(torch::nn::Linear(2, 3), torch::nn::Linear(3, 3));
  const at::Tensor before = net[0]->as<torch::nn::Linear>()->weight.detach().clone();
  try {
    load_model(*net, directory / "f");
    ADD_FAILURE() << "expected a CheckpointError";
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.what(),
              directory / "f" +
                  " does not fit the model: 1 of the model's 4 tensors fit\n"
                  "  missing in the files (1): 1.bias\n"
                  "  unexpected in the files (1): 2.weight\n"
                  "  not fitting (2): 0.bias is F32 [4] in the files and F32 [3] in the model, "
                  "1.weight is F16 [3, 3] in the files and F32 [3, 3] in the model (convert_dtype "
                  "would convert it)");
  }
  EXPECT_TRUE(net[0]->as<torch::nn::Linear>()->weight.equal(before));
  const LoadReport report = load_model(*net, directory / "f", {.strict = false});
  EXPECT_EQ(report.loaded, std::vector<std::string>{"0.weight"});
  EXPECT_FALSE(report.complete());
  EXPECT_TRUE(net[0]->as<torch::nn::Linear>()->weight.equal(torch::ones({3, 2})));
}

TEST(LoadModel, RenamesAndLeavesOut) {
  const TemporaryDirectory directory;
  save_model(TensorMap{{"encoder.w", torch::ones({2, 2})}, {"decoder.w", torch::zeros({9})}},
             directory.path());
  torch::nn::Linear net(torch::nn::LinearOptions(2, 2).bias(false));
  const auto rename = [](const std::string& name) {
    return name == "encoder.w" ? std::string("weight") : std::string();
  };
  EXPECT_TRUE(load_model(*net, directory.path(), {.rename = rename}).complete());
  EXPECT_TRUE(net->weight.equal(torch::ones({2, 2})));
  const auto both = [](const std::string&) { return std::string("weight"); };
  EXPECT_THROW(load_model(*net, directory.path(), {.rename = both}), CheckpointError);
}

TEST(LoadModel, StaysInsideTheDirectoryOfTheIndex) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "d");
  save_safetensors(directory / "secret", {{"weight", torch::ones({1, 1})}});
  torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
  const auto index = [&](const std::string& file) {
    std::ofstream(directory / "d/model.safetensors.index.json")
        << R"({"weight_map": {"weight": ")" + file + R"("}})";
  };
  for (const std::string& file : {std::string("../secret"), directory / "secret"}) {
    index(file);
    EXPECT_THROW(load_model(*net, directory / "d"), FormatError) << file;
  }
  index("there");
  EXPECT_THROW(load_model(*net, directory / "d"), CheckpointError);
  save_safetensors(directory / "d/there", {{"other", torch::ones({1, 1})}});
  EXPECT_THROW(load_model(*net, directory / "d"),
               FormatError);  // the index names a missing file
  EXPECT_THROW(load_model(*net, directory / "missing"), CheckpointError);
  std::filesystem::create_directory(directory / "e");
  EXPECT_THROW(load_model(*net, directory / "e"), CheckpointError);
}

TEST(SaveModel, LeavesNoMixtureOfTwoSavesAndNothingOfAFailedOne) {
  const TemporaryDirectory directory;
  const auto names = [&] {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      found.push_back(entry.path().filename());
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  std::ofstream(directory / "config.json") << "{}";
  const TensorMap large = {
      {"a", torch::ones({10})}, {"b", torch::ones({10})}, {"c", torch::ones({10})}};
  const TensorMap small = {{"a", torch::zeros({10})}};
  save_model(large, directory.path(), {.max_shard_size = "40B"});
  EXPECT_EQ(names().size(), 5u);
  TensorMap broken = large;
  broken["d"] = torch::ones({2}).to_sparse();
  EXPECT_THROW(save_model(broken, directory.path()), FormatError);
  broken["d"] = torch::ones({2}, at::kComplexDouble);
  EXPECT_THROW(save_model(broken, directory.path(), {.max_shard_size = "40B"}), FormatError);
  EXPECT_EQ(names().size(), 5u);
  EXPECT_EQ(load_model_tensors(directory.path()).size(), 3u);
  save_model(small, directory.path());
  EXPECT_EQ(names(), (std::vector<std::string>{"config.json", "model.safetensors"}));
  save_model(large, directory.path(), {.max_shard_size = "80B"});
  EXPECT_EQ(names(), (std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                               "model-00002-of-00002.safetensors",
                                               "model.safetensors.index.json"}));
  EXPECT_TRUE(load_model_tensors(directory.path()).at("a").equal(torch::ones({10})));
}

TEST(SaveModel, KeepsDifferentPartsOfOneStorageAndTiedNames) {
  const TemporaryDirectory directory;
  const at::Tensor flat = torch::arange(10, at::kFloat);
  save_model(TensorMap{{"head", flat.narrow(0, 0, 4)},
                       {"tail", flat.narrow(0, 4, 6)},
                       {"z", flat.narrow(0, 0, 4)}},
             directory.path());
  const TensorMap read = load_model_tensors(directory.path());
  EXPECT_TRUE(read.at("tail").equal(flat.narrow(0, 4, 6)));
  EXPECT_TRUE(read.at("z").is_same(read.at("head")));
}

}  // namespace
}  // namespace muster
