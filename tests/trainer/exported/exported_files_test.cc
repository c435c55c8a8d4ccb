// Files of torch.export with one peculiarity each: what runs has Python's bits, what does not is refused by name.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include <fstream>
#include <iterator>
#include <random>

#include "muster/trainer.h"
#include "support/child_process.h"
#include "support/error_text.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

class ExportedFiles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    at::set_num_threads(1);
    ChildProcess child(
        {TestPython(), TestSource("tests/trainer/exported/exported_files.py"), directory_->path()},
        {{"OMP_NUM_THREADS", "1"}, {"PYTHONPATH", TestSource("python/src")}});
    const ChildResult wrote =
        child.wait(std::chrono::steady_clock::now() + std::chrono::seconds(120));
    ASSERT_EQ(wrote.exit_code, 0) << wrote.output;
  }
  static void TearDownTestSuite() { delete directory_; }

  static std::string path(const std::string& name) { return *directory_ / (name + ".pt2"); }
  static TensorMap values(const std::string& name) {
    return load_model_tensors(*directory_ / (name + ".values.pt"));
  }
  static std::vector<at::Tensor> inputs(const TensorMap& values) {
    std::vector<at::Tensor> inputs;
    for (int i = 0; values.contains("in." + std::to_string(i)); ++i)
      inputs.push_back(values.at("in." + std::to_string(i)));
    return inputs;
  }
  // Whether all outputs have Python's bits, and the mode has some.
  static void expect_pythons(const TensorMap& values, const ExportedOutput& output,
                             const char* mode) {
    size_t compared = 0;
    for (const auto& [name, value] : values) compared += name.starts_with(mode) ? 1 : 0;
    EXPECT_GT(compared, 0u);
    for (size_t i = 0; i < output.tensors.size(); ++i) {
      const auto wanted = values.find(mode + std::string(".") + std::to_string(i));
      if (!output.tensors[i].defined()) {
        EXPECT_EQ(wanted, values.end());
        continue;
      }
      ASSERT_NE(wanted, values.end()) << i;
      EXPECT_TRUE(output.tensors[i].equal(wanted->second)) << mode << " " << output.names[i];
    }
  }
  static void expect_both_modes(const std::string& name) {
    const TensorMap wanted = values(name);
    const torch::NoGradGuard no_grad;
    for (const char* mode : {"training", "evaluation"}) {
      ExportedModel net(path(name));  // batch normalization has changed its buffers in Python, too
      if (mode == std::string("evaluation")) {
        torch::manual_seed(3);
        net->forward(inputs(wanted));
        net->eval();
      }
      torch::manual_seed(3);
      expect_pythons(wanted, net->forward(inputs(wanted)), mode);
    }
  }

  static TemporaryDirectory* directory_;
};
TemporaryDirectory* ExportedFiles::directory_ = nullptr;

TEST_F(ExportedFiles, WithGraphsThatCallGraphsRun) { expect_both_modes("regions"); }

TEST_F(ExportedFiles, OfBothModesFollowTheModule) { expect_both_modes("both"); }

TEST_F(ExportedFiles, OfBothModesShareBuffersThatAreNotSaved) {
  expect_both_modes("counted");
  EXPECT_TRUE(ExportedModel(path("counted"))->named_buffers().is_empty());
}

TEST_F(ExportedFiles, ExportedInTrainingAreSwitchedToEvaluation) {
  expect_both_modes("trained");
  ExportedModel net(path("trained"));
  net->eval();
  net->forward(inputs(values("trained")));
  EXPECT_EQ(net->named_buffers()["blocks.0.1.num_batches_tracked"].item<int64_t>(), 0);
}

TEST_F(ExportedFiles, FollowTheModeOfThePartThatANodeBelongsTo) {
  const torch::NoGradGuard no_grad;
  ExportedModel net(path("trained"));
  net->named_modules()["blocks.0.1"]->eval();
  net->forward(inputs(values("trained")));
  EXPECT_EQ(net->named_buffers()["blocks.0.1.num_batches_tracked"].item<int64_t>(), 0);
  ExportedModel frozen(path("frozen"));
  const TensorMap wanted = values("frozen");
  expect_pythons(wanted, frozen->forward(inputs(wanted)), "training");
}

TEST_F(ExportedFiles, OfOneModeAreRefusedInTheOtherByTheOperatorsName) {
  ExportedModel evaluated(path("evaluated"));
  const std::vector<at::Tensor> x = inputs(values("evaluated"));
  EXPECT_NE(
      error_of([&] {
        evaluated->forward(x);
      }).find("was exported in evaluation mode: its aten::batch_norm of blocks.0.1 does not train"),
      std::string::npos);
  evaluated->eval();
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(evaluated->forward(x).tensors.size(), 1u);

  ExportedModel noisy(path("noisy"));
  const TensorMap wanted = values("noisy");
  torch::manual_seed(3);
  expect_pythons(wanted, noisy->forward(inputs(wanted)), "training");
  noisy->eval();
  EXPECT_NE(error_of([&] { noisy->forward(inputs(wanted)); })
                .find("whether its aten::rand_like of the net itself is the same in evaluation "
                      "mode is not known"),
            std::string::npos);
}

TEST_F(ExportedFiles, AfterDecompositionsChangeTheirBuffersAsPythonDoes) {
  const torch::NoGradGuard no_grad;
  ExportedModel net(path("decomposed"));
  const TensorMap wanted = values("decomposed");
  expect_pythons(wanted, net->forward(inputs(wanted)), "training");
  EXPECT_EQ(net->named_buffers()["1.num_batches_tracked"].item<int64_t>(), 1);
  EXPECT_FALSE(net->named_buffers()["1.running_mean"].equal(torch::zeros({4})));
  net->eval();
  EXPECT_NE(error_of([&] {
              net->forward(inputs(wanted));
            }).find("aten::_native_batch_norm_legit_functional of 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              ExportedModel(path("decomposed_evaluated"))->forward(inputs(wanted));
            }).find("_native_batch_norm_legit_no_training of 1 does not train"),
            std::string::npos);
}

TEST_F(ExportedFiles, ThatChangeBuffersInRegionsOrByViewsAreSeen) {
  for (const char* name : {"averaged", "averaged_by_view"}) {
    ExportedModel net(path(name));
    net->eval();
    EXPECT_NE(error_of([&] {
                net->forward(inputs(values(name)));
              }).find("is the same in evaluation mode is not known"),
              std::string::npos)
        << name;
  }
  expect_both_modes("quiet");
  ExportedModel quiet(path("quiet"));
  quiet->eval();
  quiet->forward(inputs(values("quiet")));
  EXPECT_EQ(quiet->named_buffers()["norm.num_batches_tracked"].item<int64_t>(), 0);
}

TEST_F(ExportedFiles, WithBlocksThatChangeTheirInputHaveTheSameGradients) {
  const std::vector<at::Tensor> x = inputs(values("touching"));
  ExportedModel plain(path("touching")), blocks(path("touching"), {.checkpoint_blocks = true});
  plain->forward(x).tensor().sum().backward();
  blocks->forward(x).tensor().sum().backward();
  for (const auto& item : plain->named_parameters())
    EXPECT_TRUE(item.value().grad().equal(blocks->named_parameters()[item.key()].grad()))
        << item.key();
}

TEST_F(ExportedFiles, MayEndBeforeTheBackwardOfTheirOutputs) {
  std::vector<at::Tensor> parameters;
  at::Tensor loss;
  {
    ExportedModel net(path("both"), {.checkpoint_blocks = true});
    parameters = net->parameters();
    loss = net->forward(inputs(values("both"))).tensor().sum();
  }
  loss.backward();
  for (const at::Tensor& each : parameters) EXPECT_TRUE(each.grad().defined());
}

TEST_F(ExportedFiles, KeepBuffersThatAreAParametersMemoryApartFromItsGradient) {
  ExportedModel net(path("aliased"));
  const std::vector<at::Tensor> x = inputs(values("aliased"));
  net->forward(x).tensor().sum().backward();
  EXPECT_TRUE(net->named_parameters()["line.weight"].grad().equal(x[0].sum(0).expand({4, 4})));
  EXPECT_TRUE(net->named_parameters()["wave"].grad().defined());
  EXPECT_FALSE(net->named_buffers()["same"].requires_grad());
}

TEST_F(ExportedFiles, ChangeInputsThatArePartsOfOthers) {
  const at::Tensor x = torch::ones({2});
  const at::Tensor y = ExportedModel(path("changes_input"))->forward(x).tensor();
  EXPECT_TRUE(x.equal(torch::full({2}, 2.0)));
  EXPECT_TRUE(y.equal(torch::full({2}, 3.0)));
}

TEST_F(ExportedFiles, CheckTheSizesOfTheirInputs) {
  expect_both_modes("sizes");
  ExportedModel net(path("sizes"));
  const auto error = [&](const std::vector<at::Tensor>& x) {
    return error_of([&] { net->forward(x); });
  };
  EXPECT_EQ(error({torch::zeros({6, 3}), torch::zeros({12})}), "");
  EXPECT_EQ(error({torch::zeros({9, 3}), torch::zeros({18})}),
            "dimension 0 of input 'x' is 9, but the net was exported for 2 to 8");
  EXPECT_EQ(
      error({torch::zeros({4, 3}), torch::zeros({6})}),
      "dimension 0 of input 'pairs' is 6, which does not fit dimension 0 of input 'x': 4 stands "
      "for the same size");
  EXPECT_EQ(error({torch::zeros({4, 3}), torch::zeros({7})}),
            "dimension 0 of input 'pairs' is 7, but must be a multiple of 2");
  EXPECT_EQ(
      error({torch::zeros({4, 5}), torch::zeros({8})}),
      "dimension 1 of input 'x' is 5, but the net was exported for 3 alone; fix: export it with "
      "that dimension dynamic (python -m muster.export --dynamic x:1)");
  EXPECT_EQ(error({torch::zeros({4, 3}, at::kDouble), torch::zeros({8})}),
            "input 'x' is Double, but the net was exported with Float; fix: convert it with to()");
  EXPECT_EQ(error({torch::zeros({4}), torch::zeros({8})}),
            "input 'x' has the shape [4], but the net was exported for 2 dimensions");
  EXPECT_EQ(error({torch::zeros({4, 3})}),
            "the net takes 2 inputs (x, pairs), but is called with 1");
  EXPECT_EQ(error({torch::zeros({4, 3}), at::Tensor()}), "input 'pairs' is an undefined tensor");
}

TEST_F(ExportedFiles, TakeInputsAndGiveOutputsByPythonsNames) {
  expect_both_modes("nested");
  ExportedModel net(path("nested"));
  EXPECT_EQ(net->input_names(), (std::vector<std::string>{"first", "parts.b.0", "parts.a"}));
  const TensorMap wanted = values("nested");
  const std::map<std::string, at::Tensor> named = {{"first", wanted.at("in.0")},
                                                   {"parts.b.0", wanted.at("in.1")},
                                                   {"parts.a", wanted.at("in.2")}};
  const ExportedOutput output = net->forward(named);
  EXPECT_EQ(output.names, (std::vector<std::string>{"sum", "rest.0", "rest.1", "rest.2.0"}));
  EXPECT_TRUE(output["sum"].equal(wanted.at("training.0")));
  EXPECT_FALSE(output["rest.1"].defined());
  EXPECT_EQ(error_of([&] { output["loss"]; }),
            "the net returns no 'loss', but 'sum', 'rest.0', 'rest.1', 'rest.2.0'");
  EXPECT_EQ(error_of([&] {
              net->forward(std::map<std::string, at::Tensor>{{"first", wanted.at("in.0")}});
            }),
            "input 'parts.b.0' is missing; the net takes 'first', 'parts.b.0', 'parts.a'");
  // The state_dict's names: without constants and buffers that are not persistent. Tied weights are one tensor.
  std::vector<std::string> names;
  for (const auto& item : net->named_parameters()) names.push_back(item.key());
  EXPECT_EQ(names,
            (std::vector<std::string>{"line.weight", "line.bias", "again.weight", "again.bias"}));
  EXPECT_TRUE(net->named_buffers().is_empty());
  EXPECT_TRUE(
      net->named_parameters()["line.weight"].is_same(net->named_parameters()["again.weight"]));
}

TEST_F(ExportedFiles, OfTorchScriptAreModulesToo) {
  const TensorMap wanted = values("script");
  ScriptModel net(path("script"));
  EXPECT_NE(net->named_modules()["blocks"]->as<torch::nn::ModuleList>(), nullptr);
  {
    const torch::NoGradGuard no_grad;
    torch::manual_seed(3);
    const ExportedOutput output = net->forward(inputs(wanted));
    EXPECT_EQ(output.names, (std::vector<std::string>{"out.0", "out.1"}));
    expect_pythons(wanted, output, "training");
    net->eval();
    torch::manual_seed(3);
    expect_pythons(wanted, net->forward(inputs(wanted)), "evaluation");
  }
  net->train();
  net->forward(inputs(wanted))["out.0"].sum().backward();
  EXPECT_TRUE(net->named_parameters()["blocks.0.weight"].grad().defined());
  EXPECT_NE(error_of([] {
              ScriptModel missing("/nowhere/net.pt");
            }).find("cannot load the TorchScript file /nowhere/net.pt"),
            std::string::npos);
}

TEST_F(ExportedFiles, MayOnlyCallWhatComputesTensors) {
  const std::map<std::string, std::string> refused = {
      {"file_writer",
       "calls an operator that a file may not: it reads and writes files; fix: if the file is "
       "yours, name \"aten::from_file\" in ExportedModelOptions::allowed_operators"},
      {"inner", "it is one of ATen's own, which check little"},
      {"unknown",
       "calls an operator that this LibTorch does not have; fix: export the net with the "
       "LibTorch's own release of torch"},
      {"foreign",
       "(torch.ops.transformers.grouped_mm_fallback.default) calls an operator that is not one of "
       "ATen; "
       "fix: if it is registered in C++"},
      {"function", "node 'relu' (os.system) calls a function that is unknown here"},
      {"region", "is a region that is unknown here; known are wrap_with_set_grad_enabled"},
      {"argument",
       "has an argument 'from_the_future' that the operator of this LibTorch does not take"},
      {"object", "argument kind 'as_custom_obj' cannot be used here"},
      {"major", "its schema is version 9, but version 8 is read (written by torch 2."},
      {"saved",
       "is a file of torch.save, not of torch.export; fix: muster::load_model reads weights"},
      {"script", "is a TorchScript archive, not one of torch.export"},
  };
  for (const auto& [name, message] : refused) {
    const std::string error = error_of([&, &name = name] { ExportedModel net(path(name)); });
    EXPECT_NE(error.find(message), std::string::npos) << name << ": " << error;
    EXPECT_NE(error.find(path(name)), std::string::npos) << error;
  }
  // Newer minor versions are read, as in Python.
  const TensorMap wanted = values("plain");
  expect_pythons(wanted, ExportedModel(path("minor"))->forward(inputs(wanted)), "training");
  // A pipe that nothing writes to does not block.
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of([] { ExportedModel net(path("pipe")); }).find("it is not a regular file"),
            std::string::npos);
  EXPECT_NE(error_of([] { load_model_tensors(path("pipe")); }).find("it is not a regular file"),
            std::string::npos);
  EXPECT_NE(error_of([] { ExportedModel net("/nowhere/net.pt2"); }).find("/nowhere/net.pt2"),
            std::string::npos);
}

// Foreign graphs: whatever a file says ends as a module or as an exception.
TEST_F(ExportedFiles, ThatAreDamagedEndInExceptions) {
  std::ifstream file(path("regions"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const TensorMap wanted = values("regions");
  std::mt19937 random(40);
  int parsed = 0, refused = 0;
  const std::string damaged_path = path("damaged");
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = whole;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    std::ofstream(damaged_path, std::ios::binary) << damaged;
    try {
      ExportedModel net(damaged_path);
      net->forward(inputs(wanted));
      ++parsed;
    } catch (const std::exception&) {
      ++refused;
    }
  }
  EXPECT_GT(parsed, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace muster
