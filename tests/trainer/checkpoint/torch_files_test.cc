// What Python's torch.save writes, C++ reads; what is not read is refused with the Python line that converts it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "checkpoint/python_reader.h"
#include "checkpoint/torch_weights.h"
#include "muster/base/errors.h"
#include "muster/checkpoint/model_files.h"
#include "support/temporary_directory.h"

namespace muster {
namespace {

constexpr char kWrite[] = R"(
import sys, json, types, zipfile, torch
from torch import nn
at = sys.argv[1] + '/'
torch.manual_seed(3)

state = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).state_dict()  # an OrderedDict with _metadata
base = torch.arange(24, dtype=torch.float32).view(4, 6)
state['transposed'], state['row'], state['column'] = base.t(), base[1], base[:, 2]
state['tied'] = state['0.weight']
state['parameter'] = nn.Parameter(torch.ones(2))
state['empty'], state['scalar'] = torch.zeros(0, 3), torch.tensor(7)
class Marked(torch.Tensor): pass
state['subclass'] = torch.ones(2).as_subclass(Marked)
for name in ('float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 uint16 uint32 uint64 '
             'float8_e4m3fn float8_e5m2').split():
    state[name] = torch.tensor([0, 1, 1]).to(getattr(torch, name))
torch.save(state, at + 'plain.pt')

class Options: pass
ignored = {'optimizer_states': [{'state': {0: {'step': torch.tensor(1.)}}, 'param_groups': [{'lr': 1e-3, 'params': [0]}]}],
           'seed': 2 ** 90, 'hyper_parameters': types.SimpleNamespace(width=3), 'names': {'a', 'b'}, 'epoch': 4}
torch.save({'state_dict': state, **ignored}, at + 'lightning.ckpt')
torch.save({'net': state, **ignored}, at + 'own.tar')

names = list(state)
import os
os.mkdir(at + 'hub')
half = len(names) // 2
files = ('pytorch_model-00001-of-00002.bin', 'pytorch_model-00002-of-00002.bin')
for file, part in zip(files, (names[:half], names[half:])):
    torch.save({name: state[name] for name in part}, at + 'hub/' + file)
with open(at + 'hub/pytorch_model.bin.index.json', 'w') as index:
    json.dump({'metadata': {}, 'weight_map': {n: files[i >= half] for i, n in enumerate(names)}}, index)

# The same with the 64-bit fields of a file of more than 4 GiB.
zipfile.ZIP64_LIMIT = 10
with zipfile.ZipFile(at + 'plain.pt') as old, zipfile.ZipFile(at + 'zip64.pt', 'w') as new:
    for info in old.infolist(): new.writestr(info.filename, old.read(info.filename))

for name, tensor in state.items():
    plain = tensor.detach().as_subclass(torch.Tensor).contiguous()
    bits = plain.reshape(-1).view(torch.uint8).tolist() if plain.numel() else []
    print(name, str(tensor.dtype)[6:], ','.join(map(str, tensor.shape)) or '-', bytes(bits).hex() or '-')
)";

struct Saved {
  std::string dtype, shape, bytes;
};

class TorchFilesTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    const ChildResult wrote = python(kWrite, *directory_ / "");
    ASSERT_EQ(wrote.exit_code, 0) << wrote.output;
    std::istringstream lines(wrote.output);
    for (std::string name, dtype, shape, bytes; lines >> name >> dtype >> shape >> bytes;)
      (*saved_)[name] = {dtype, shape == "-" ? "" : shape, bytes == "-" ? "" : bytes};
  }
  static void TearDownTestSuite() {
    delete directory_;
    delete saved_;
  }

  static std::string path(const std::string& name) { return *directory_ / name; }
  static std::string hex(const at::Tensor& tensor) {
    std::string text;
    const auto* bytes = static_cast<const unsigned char*>(tensor.contiguous().const_data_ptr());
    for (size_t i = 0; i < tensor.nbytes(); ++i) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += kDigits[bytes[i] >> 4];
      text += kDigits[bytes[i] & 15];
    }
    return text;
  }

  static TemporaryDirectory* directory_;
  static std::map<std::string, Saved>* saved_;
};
TemporaryDirectory* TorchFilesTest::directory_ = nullptr;
std::map<std::string, Saved>* TorchFilesTest::saved_ = new std::map<std::string, Saved>;

TEST_F(TorchFilesTest, EveryTensorOfAStateDictHasItsBytes) {
  ASSERT_EQ(saved_->size(), 30u);
  for (const char* name : {"plain.pt", "lightning.ckpt", "own.tar", "hub", "zip64.pt"}) {
    const TensorMap tensors = load_model_tensors(path(name));
    EXPECT_EQ(tensors.size(), saved_->size()) << name;
    for (const auto& [key, saved] : *saved_) {
      ASSERT_TRUE(tensors.contains(key)) << name << " " << key;
      const at::Tensor& tensor = tensors.at(key);
      std::string shape;
      for (const int64_t size : tensor.sizes())
        shape += (shape.empty() ? "" : ",") + std::to_string(size);
      EXPECT_EQ(shape, saved.shape) << name << " " << key;
      EXPECT_EQ(hex(tensor), saved.bytes) << name << " " << key;
    }
  }
  const TensorMap tensors = load_model_tensors(path("plain.pt"));
  EXPECT_TRUE(tensors.at("tied").is_alias_of(tensors.at("0.weight")));
  EXPECT_EQ(tensors.at("bfloat16").scalar_type(), at::kBFloat16);
  EXPECT_EQ(tensors.at("uint64").scalar_type(), at::kUInt64);
  EXPECT_EQ(tensors.at("float8_e5m2").scalar_type(), at::kFloat8_e5m2);
}

TEST_F(TorchFilesTest, AModuleIsFilledInPlaceAndTheRestReported) {
  torch::nn::Sequential net(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
  EXPECT_THROW(load_model(*net, path("plain.pt")), CheckpointError);
  const LoadReport report = load_model(*net, path("plain.pt"), {.strict = false});
  EXPECT_EQ(report.loaded.size(), 7u) << report.text();
  EXPECT_TRUE(report.missing.empty()) << report.text();
  EXPECT_EQ(hex(net->named_parameters()["0.weight"]), saved_->at("0.weight").bytes);
  EXPECT_EQ(hex(net->named_buffers()["1.num_batches_tracked"]),
            saved_->at("1.num_batches_tracked").bytes);
  // Converted, and into memory of another layout.
  torch::nn::Module module;
  module.register_parameter("transposed", torch::zeros({4, 6}, at::kDouble).t());
  load_model(module, path("plain.pt"), {.strict = false, .convert_dtype = true});
  EXPECT_TRUE(module.named_parameters()["transposed"].equal(
      torch::arange(24, at::kDouble).view({4, 6}).t()));
}

TEST_F(TorchFilesTest, WhatIsNotReadIsRefusedWithThePythonLineThatConvertsIt) {
  const ChildResult wrote = python(R"(
import sys, zipfile, torch
at = sys.argv[1] + '/'
net = torch.nn.Linear(2, 2)
torch.save(net.state_dict(), at + 'old.pt', _use_new_zipfile_serialization=False)
torch.save(net.state_dict(), at + 'protocol4.pt', pickle_protocol=4)
torch.save(net, at + 'module.pt')
torch.jit.script(net).save(at + 'script.pt')
torch.save({'a': net.state_dict(), 'b': net.state_dict()}, at + 'two.pt')
torch.save([1, 2], at + 'list.pt')
torch.save({'x': torch.zeros(1).expand(9)}, at + 'expanded.pt')
with zipfile.ZipFile(at + 'other.zip', 'w') as other: other.writestr('readme', 'hello')
with zipfile.ZipFile(at + 'plain.pt') as old, zipfile.ZipFile(at + 'packed.pt', 'w', zipfile.ZIP_DEFLATED) as new:
    for info in old.infolist(): new.writestr(info.filename, old.read(info.filename))
)",
                                   path(""));
  ASSERT_EQ(wrote.exit_code, 0) << wrote.output;
  const std::pair<const char*, const char*> refused[] = {
      {"old.pt",
       "is in the format of before torch 1.6, or a plain pickle; fix: in Python, "
       "torch.save(torch.load(OLD"},
      {"protocol4.pt", "was saved with pickle protocol 4, and only 2"},
      {"module.pt",
       "holds an object of class torch.nn.modules.linear.Linear, not a state_dict; fix: in Python"},
      {"script.pt",
       "is a TorchScript archive; fix: in Python, torch.save(torch.jit.load(OLD).state_dict(), "
       "NEW)"},
      {"two.pt", "holds more than one dict of tensors; its keys are 'a', 'b'; fix: in Python"},
      {"list.pt", "holds no dict of tensors; its keys are none"},
      {"expanded.pt", "tensor 'x' has more elements than its storage"},
      {"other.zip", "is a zip file, but not of torch.save: it has no record data.pkl"},
      {"packed.pt", "is compressed, which torch.save never does; fix: unpack the file"}};
  for (const auto& [name, why] : refused) {
    try {
      load_model_tensors(path(name));
      ADD_FAILURE() << name << " was read";
    } catch (const FormatError& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos)
          << name << ": " << error.what();
    }
  }
}

// Of the zip's directory and the pickle; the bytes of tensors may be anything.
TEST_F(TorchFilesTest, DamagedFilesAreReadOrRefused) {
  std::ifstream file(path("lightning.ckpt"), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(file)), {});
  std::mt19937 random(5);
  int read = 0, refused = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string bytes = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    const ByteSource source{bytes.size(), [&](uint64_t offset, char* into, size_t count) {
                              ASSERT_LE(offset + count, bytes.size());
                              std::copy_n(bytes.data() + offset, count, into);
                            }};
    try {
      for (const auto& [name, tensor] : read_torch_weights(source, "damaged").tensors)
        ASSERT_LE(tensor.begin + tensor.bytes, bytes.size()) << name;
      ++read;
    } catch (const FormatError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace muster
