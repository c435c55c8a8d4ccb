// Runs that begin in Python, continue in C++ and end in Python: every loss has the bits of a run that stayed in Python.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

#include "muster/trainer.h"
#include "support/child_process.h"
#include "support/error_text.h"
#include "support/rank_launcher.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

constexpr int64_t kSpan = 4;  // of torch_runs.py

using Net = torch::nn::Sequential;

Net make_net() {
  return Net(torch::nn::Linear(8, 16), torch::nn::ReLU(), torch::nn::Dropout(0.2),
             torch::nn::BatchNorm1d(16), torch::nn::Linear(16, 4));
}

// The optimizers as a program makes them; what they were in Python comes from the file.
std::shared_ptr<Optimizer> make_optimizer(const std::string& run, Net& net) {
  if (run == "adam") return std::make_shared<Adam>(net->parameters());
  if (run == "adagrad") return std::make_shared<Adagrad>(net->parameters());
  if (run.starts_with("sgd"))
    return std::make_shared<SGD>(net->parameters(), SGDOptions{.momentum = run == "sgd" ? 0 : 0.5});
  if (run != "adamw_groups") return std::make_shared<AdamW>(net->parameters());
  std::vector<ParameterGroup<AdamWOptions>> groups(2);
  for (const at::Tensor& each : net->parameters())
    groups[each.dim() > 1 ? 0 : 1].parameters.push_back(each);
  for (auto& group : groups) group.options.amsgrad = true;
  return std::make_shared<AdamW>(groups);
}

std::optional<Schedule> make_schedule(const std::string& run) {
  if (run == "adamw_groups") return step_schedule({.step_size = 3, .gamma = 0.1});
  if (run == "adam")
    return lambda_schedule(
        [](int64_t step) { return 0.5 * (1 + std::cos(M_PI * static_cast<double>(step) / 20)); });
  if (run == "sgd_momentum") return one_cycle_schedule({.total_steps = 20, .max_lr = 0.2});
  if (run == "adagrad") return cosine_warm_restarts_schedule({.t_0 = 3, .t_mult = 2});
  if (run == "plateau") return reduce_on_plateau_schedule({.factor = 0.5, .patience = 1});
  return std::nullopt;
}

ChildResult run_python(const char* part, const std::string& directory) {
  ChildProcess child(
      {TestPython(), TestSource("tests/trainer/interchange/torch_runs.py"), part, directory},
      {{"OMP_NUM_THREADS", "1"}});
  return child.wait(std::chrono::steady_clock::now() + std::chrono::seconds(120));
}

class TorchRuns : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new TemporaryDirectory;
    at::set_num_threads(1);
    const ChildResult began = run_python("begin", directory_->path());
    ASSERT_EQ(began.exit_code, 0) << began.output;
  }
  static void TearDownTestSuite() { delete directory_; }
  static std::string path(const std::string& name) { return *directory_ / name; }

  // The second span of a run in C++; returns how many losses differ from Python's.
  static int64_t go_on(const std::string& run) {
    Net net = make_net();
    const std::shared_ptr<Optimizer> optimizer = make_optimizer(run, net);
    const std::optional<Schedule> schedule = make_schedule(run);
    std::optional<LrScheduler> scheduler;
    if (schedule.has_value()) scheduler.emplace(optimizer, *schedule);
    TorchParts parts{.model = &*net, .optimizer = optimizer.get(), .generator = true};
    if (scheduler.has_value()) parts.scheduler = &*scheduler;
    const LoadedTorch loaded = load_torch(path(run + ".begun.pt"), parts);
    EXPECT_EQ(loaded.numbers.at("epoch"), kSpan);
    const at::Tensor wanted = load_model_tensors(path(run + ".losses.pt")).at("losses");
    int64_t wrong = 0;
    for (int64_t step = kSpan; step < 2 * kSpan; ++step) {
      const at::Tensor x = torch::sin(torch::arange(48.0).view({6, 8}) + step);
      optimizer->zero_grad();
      const at::Tensor loss = net->forward(x).pow(2).mean();
      loss.backward();
      optimizer->step();
      if (scheduler.has_value()) run == "plateau" ? scheduler->step(1.0) : scheduler->step();
      wrong += loss.equal(wanted[step]) ? 0 : 1;
    }
    parts.numbers["epoch"] = 2 * kSpan;
    save_torch(path(run + ".ended.pt"), parts);
    return wrong;
  }

  static TemporaryDirectory* directory_;
};
TemporaryDirectory* TorchRuns::directory_ = nullptr;

constexpr const char* kRuns[] = {"adamw_fused",  "adamw_foreach", "adamw_plain",
                                 "adamw_groups", "adam",          "sgd",
                                 "sgd_momentum", "adagrad",       "plateau"};

TensorMap layouts() {
  const at::Tensor base = torch::arange(6, at::kFloat).view({2, 3});
  TensorMap tensors = {{"base", base},
                       {"transposed", base.t()},
                       {"row", base[1]},
                       {"small", torch::arange(1000, at::kFloat).slice(0, 5, 7)},
                       {"empty", torch::zeros({0, 3})},
                       {"number", torch::tensor(7)}};
  for (const at::ScalarType type :
       {at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kShort, at::kChar, at::kByte,
        at::kBool, at::kComplexFloat, at::ScalarType::UInt16, at::ScalarType::UInt32,
        at::ScalarType::UInt64, at::kFloat8_e4m3fn, at::kFloat8_e5m2})
    tensors[c10::toString(type)] = torch::tensor({0, 1, 1}).to(type);
  return tensors;
}

struct Holder : torch::nn::Module {};

TEST_F(TorchRuns, GoFromPythonToCppToPythonLossForLoss) {
  for (const char* run : kRuns) EXPECT_EQ(go_on(run), 0) << run;
  Holder holder;
  for (const auto& [name, tensor] : layouts()) holder.register_buffer(name, tensor);
  save_torch(path("layouts.pt"), {.model = &holder});
  const ChildResult ended = run_python("end", directory_->path());
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  for (const char* run : kRuns)
    EXPECT_NE(ended.output.find(run + std::string(" 0\n")), std::string::npos) << run << "\n"
                                                                               << ended.output;
  // A state_dict of every dtype and layout, without a dict around it.
  for (const char* line :
       {"layout base float32 [2, 3] [3, 1] [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]\n",
        "layout transposed float32 [3, 2] [1, 3] [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]\n",
        "layout row float32 [3] [1] [3.0, 4.0, 5.0]\n", "layout small float32 [2] [1] [5.0, 6.0]\n",
        "layout empty float32 [0, 3] [3, 1] []\n", "layout number int64 [] [] [7]\n",
        "layout ComplexFloat complex64 [3] [1] [0j, (1+0j), (1+0j)]\n",
        "layout UInt16 uint16 [3] [1] [0, 1, 1]\n", "layout UInt64 uint64 [3] [1] [0, 1, 1]\n",
        "layout Float8_e4m3fn float8_e4m3fn [3] [1] [0.0, 1.0, 1.0]\n",
        "layout Bool bool [3] [1] [False, True, True]\n", "shared True\n", "apart 8\n"})
    EXPECT_NE(ended.output.find(line), std::string::npos) << line << ended.output;
  EXPECT_EQ(std::count(ended.output.begin(), ended.output.end(), '\n'),
            static_cast<ptrdiff_t>(std::size(kRuns) + layouts().size() + 2));
  // And what C++ wrote, C++ reads.
  for (const auto& [name, tensor] : load_model_tensors(path("layouts.pt")))
    EXPECT_TRUE(tensor.view({-1})
                    .to(at::kComplexDouble)
                    .equal(layouts().at(name).reshape({-1}).to(at::kComplexDouble)))
        << name;
}

// Exits with 0 if a disk that is full after some bytes ends in an exception and leaves nothing.
[[noreturn]] void save_to_full_disk(torch::nn::Module& module, const std::string& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{1000, 1000};
  ::setrlimit(RLIMIT_FSIZE, &little);
  try {
    save_torch(path, {.model = &module});
  } catch (const CheckpointError&) {
    std::_Exit(std::filesystem::exists(path + ".tmp") ? 2 : 0);
  }
  std::_Exit(1);
}

TEST_F(TorchRuns, ThatDoNotFitAreRefusedAndChangeNothing) {
  Net net = make_net();
  AdamW adamw(net->parameters(), {.lr = 0.5});
  const at::Tensor before = net->parameters()[0].detach().clone();
  const auto error = [&](const std::string& file, const TorchParts& parts,
                         const LoadTorchOptions& options = {}) {
    const std::string text = error_of([&] { load_torch(path(file), parts, options); });
    EXPECT_TRUE(net->parameters()[0].equal(before)) << file;
    EXPECT_EQ(adamw.options().lr, 0.5);
    return text;
  };
  const TorchParts both{.model = &*net, .optimizer = &adamw};
  EXPECT_NE(error("unnamed.pt", both)
                .find("has 2 groups without the names of their parameters; fix: in Python, "
                      "before optimizer.state_dict(): names = {id(p): n"),
            std::string::npos);
  EXPECT_NE(error("unnamed.pt", both, {.parameter_names = {"0.bias"}})
                .find("has 6 parameters, but there are 1 names"),
            std::string::npos);
  EXPECT_NE(error("rmsprop.pt", both)
                .find("its optimizer has no 'betas': it is of another kind than this one"),
            std::string::npos);
  EXPECT_NE(
      error("adam.begun.pt", both).find("its optimizer is Adam, and this one the other of the two"),
      std::string::npos);
  EXPECT_NE(error("adamw_groups.begun.pt", both).find("has 2 groups of parameters, and this one 1"),
            std::string::npos);
  EXPECT_NE(error("by_names.pt", both).find("are not listed by distinct numbers"),
            std::string::npos);
  EXPECT_NE(error("sgd.begun.pt", both).find("its optimizer has no 'betas'"), std::string::npos);
  auto of_steps = std::make_shared<Adam>(net->parameters());
  LrScheduler other(of_steps, step_schedule({.step_size = 1, .gamma = 0.5}));
  EXPECT_NE(error("adam.begun.pt", {.scheduler = &other})
                .find("its scheduler gives the rate 0.045225 at step 4, and this one 0.003125: has "
                      "it other options?"),
            std::string::npos)
      << error("adam.begun.pt", {.scheduler = &other});
  EXPECT_THROW(save_torch(path("taken.pt"), {.model = &*net, .numbers = {{"model", 1}}}),
               std::invalid_argument);
  EXPECT_EXIT(save_to_full_disk(*net, path("full.pt")), testing::ExitedWithCode(0), "");
  LrScheduler scheduler(std::make_shared<AdamW>(net->parameters()),
                        step_schedule({.step_size = 3}));
  EXPECT_NE(error("sgd.begun.pt", {.scheduler = &scheduler})
                .find("has nothing under 'scheduler', 'lr_scheduler'"),
            std::string::npos);
  Net larger(torch::nn::Linear(8, 17));
  AdamW of_larger(larger->parameters());
  EXPECT_NE(error("adamw_fused.begun.pt", {.model = &*larger, .optimizer = &of_larger})
                .find("parameters without names, but its model has 2"),
            std::string::npos);
}

TEST_F(TorchRuns, GoOnShardedWithTheOptimizersState) {
  for (const char* stage : {"zero1", "zero3"}) {
    for (const ChildResult& rank :
         run_ranks({.argv = {TestBuild("bin/tests/trainer_torch_run_ranks"), stage,
                             path("adamw_fused.begun.pt"), path("adamw_fused.losses.pt")},
         .world_size = 2})) {
      ASSERT_EQ(rank.exit_code, 0) << rank.output;
      EXPECT_LE(std::stod(said(rank).at("difference")), 1.1e-6) << stage;
    }
  }
}

// Parameters that have stepped differently often, some never.
TEST_F(TorchRuns, KeepTheStepsOfEachParameter) {
  torch::nn::Sequential net;
  for (int i = 0; i < 20; ++i) net->push_back(torch::nn::Linear(3, 3));
  AdamW adamw(net->parameters());
  for (int64_t step = 1; step < 20; ++step) {
    adamw.zero_grad();
    for (int64_t i = 0; i < step; ++i)
      net->parameters()[static_cast<size_t>(2 * i)].mutable_grad() = torch::ones({3, 3});
    adamw.step();
  }
  save_torch(path("steps.pt"), {.model = &*net, .optimizer = &adamw});
  AdamW other(net->parameters());
  load_torch(path("steps.pt"), {.model = &*net, .optimizer = &other});
  for (const at::Tensor& parameter : net->parameters()) {
    const TensorMap before = adamw.parameter_state(parameter),
                    after = other.parameter_state(parameter);
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [field, value] : before) EXPECT_TRUE(after.at(field).equal(value)) << field;
  }
}

// With names, two groups in any order.
TEST_F(TorchRuns, OfUnnamedGroupsAreLoadedByNamesThatTheProgramGives) {
  Net net = make_net();
  const auto named = net->named_parameters();
  std::vector<ParameterGroup<AdamWOptions>> groups(2);
  for (const auto& item : named)
    groups[item.key() == "0.bias" ? 0 : 1].parameters.push_back(item.value());
  AdamW adamw(groups);
  load_torch(
      path("unnamed.pt"), {.model = &*net, .optimizer = &adamw},
      {.parameter_names = {"0.bias", "0.weight", "3.weight", "3.bias", "4.weight", "4.bias"}});
  EXPECT_EQ(adamw.options(0).weight_decay, 0.01);
}

}  // namespace
}  // namespace muster
