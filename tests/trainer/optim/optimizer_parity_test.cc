// Every optimizer, implementation and option against Python's torch.optim, bit by bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/optim/optimizers.h"
#include "optim/twin.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using nlohmann::json;
using Parameters = std::vector<at::Tensor>;
using Make = std::function<std::unique_ptr<Optimizer>(Parameters)>;

constexpr int kSteps = 24;

struct OptimizerCase {
  json description;  // for Python
  Make make;
};

// Typical parameters: matrices, vectors, a scalar, an empty tensor, a transposed matrix, bfloat16,
// double; one whose first gradient comes late, one that misses some gradients, and one that never
// gets any.
const std::vector<std::string> kRegular = {"matrix", "vector", "scalar",  "empty",
                                           "turned", "half",   "precise", "never"};
const std::vector<std::string> kAll = {"matrix", "vector",  "scalar", "empty", "turned",
                                       "half",   "precise", "late",   "gaps",  "never"};

at::Tensor start_of(const std::string& name) {
  if (name == "matrix") return torch::randn({7, 5});
  if (name == "scalar") return torch::randn({});
  if (name == "empty") return torch::randn({0, 3});
  if (name == "turned") return torch::randn({6, 4}).t();
  if (name == "half") return torch::randn({9, 3}).to(at::kBFloat16);
  if (name == "precise") return torch::randn({4}, at::kDouble);
  return torch::randn({33});
}

bool has_gradient(const std::string& name, int step) {
  if (name == "never") return false;
  if (name == "late") return step >= 5;
  if (name == "gaps") return step % 3 != 1;
  return true;
}

Tensors make_input() {
  torch::manual_seed(3);
  Tensors input;
  for (const std::string& name : kAll) {
    input["start/" + name] = start_of(name);
    for (int step = 0; step < kSteps; ++step) {
      if (!has_gradient(name, step)) continue;
      const at::Tensor& like = input["start/" + name];
      input["gradient/" + std::to_string(step) + "/" + name] =
          torch::empty_like(like).copy_(torch::randn(like.sizes()) * 0.3);
    }
  }
  return input;
}

const Tensors& input() {
  static const Tensors tensors = make_input();
  return tensors;
}

template <typename Type, typename Options>
void add(std::vector<OptimizerCase>& cases, const std::string& optimizer, const std::string& name,
         Options options, json python) {
  const std::pair<const char*, Implementation> all[] = {{"fused", Implementation::fused},
                                                        {"foreach", Implementation::foreach},
                                                        {"plain", Implementation::plain}};
  for (const auto& [text, implementation] : all) {
    json described = python;
    described["fused"] = implementation == Implementation::fused;
    described["foreach"] = implementation == Implementation::foreach;
    options.implementation = implementation;
    // Python's fused SGD does not support a first gradient that comes later than others.
    const bool regular = optimizer == "SGD";
    cases.push_back({{{"name", optimizer + " " + name + " " + text},
                      {"optimizer", optimizer},
                      {"options", described},
                      {"parameters", regular ? kRegular : kAll}},
                     [options](Parameters parameters) {
                       return std::make_unique<Type>(std::move(parameters), options);
                     }});
  }
}

void add_groups(std::vector<OptimizerCase>& cases) {
  const std::vector<std::string> second(kAll.begin() + 1, kAll.end());
  cases.push_back({{{"name", "AdamW groups"},
                    {"optimizer", "AdamW"},
                    {"options", {{"fused", true}}},
                    {"parameters", kAll},
                    {"groups",
                     {{{"names", {"matrix"}}, {"options", {{"lr", 0.01}, {"weight_decay", 0.2}}}},
                      {{"names", second}, {"options", {{"lr", 0.003}, {"weight_decay", 0.0}}}}}}},
                   [](Parameters all) {
                     const Parameters second(all.begin() + 1, all.end());
                     return std::make_unique<AdamW>(std::vector<ParameterGroup<AdamWOptions>>{
                         {.parameters = {all[0]}, .options = {.lr = 0.01, .weight_decay = 0.2}},
                         {.parameters = second, .options = {.lr = 0.003, .weight_decay = 0}}});
                   }});
}

std::vector<OptimizerCase> make_cases() {
  std::vector<OptimizerCase> cases;
  add<AdamW>(cases, "AdamW", "default", AdamWOptions{}, json::object());
  add<AdamW>(cases, "AdamW", "amsgrad", AdamWOptions{.lr = 0.01, .amsgrad = true},
             {{"lr", 0.01}, {"amsgrad", true}});
  add<AdamW>(cases, "AdamW", "maximize", AdamWOptions{.weight_decay = 0.1, .maximize = true},
             {{"weight_decay", 0.1}, {"maximize", true}});
  add<AdamW>(cases, "AdamW", "betas",
             AdamWOptions{.lr = 0.02, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0},
             {{"lr", 0.02}, {"betas", {0.8, 0.95}}, {"eps", 1e-6}, {"weight_decay", 0}});
  add<Adam>(cases, "Adam", "default", AdamOptions{}, json::object());
  add<Adam>(cases, "Adam", "decay", AdamOptions{.lr = 0.01, .weight_decay = 0.1},
            {{"lr", 0.01}, {"weight_decay", 0.1}});
  add<Adam>(cases, "Adam", "all",
            AdamOptions{.lr = 0.01, .weight_decay = 0.1, .amsgrad = true, .maximize = true},
            {{"lr", 0.01}, {"weight_decay", 0.1}, {"amsgrad", true}, {"maximize", true}});
  add<SGD>(cases, "SGD", "default", SGDOptions{.lr = 0.1}, {{"lr", 0.1}});
  add<SGD>(cases, "SGD", "momentum", SGDOptions{.lr = 0.1, .momentum = 0.9},
           {{"lr", 0.1}, {"momentum", 0.9}});
  add<SGD>(cases, "SGD", "nesterov",
           SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true},
           {{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 0.01}, {"nesterov", true}});
  add<SGD>(cases, "SGD", "dampening",
           SGDOptions{.lr = 0.1, .momentum = 0.8, .dampening = 0.3, .maximize = true},
           {{"lr", 0.1}, {"momentum", 0.8}, {"dampening", 0.3}, {"maximize", true}});
  add<Adagrad>(cases, "Adagrad", "default", AdagradOptions{}, json::object());
  add<Adagrad>(cases, "Adagrad", "decay",
               AdagradOptions{.lr = 0.1, .lr_decay = 0.01, .weight_decay = 0.05},
               {{"lr", 0.1}, {"lr_decay", 0.01}, {"weight_decay", 0.05}});
  add<Adagrad>(cases, "Adagrad", "start",
               AdagradOptions{.initial_accumulator_value = 0.5, .eps = 1e-6, .maximize = true},
               {{"initial_accumulator_value", 0.5}, {"eps", 1e-6}, {"maximize", true}});
  add_groups(cases);
  return cases;
}

class OptimizersLikePython : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cases_ = make_cases();
    json descriptions = json::array();
    for (const OptimizerCase& each : cases_) descriptions.push_back(each.description);
    expected_ = ask_python(TestSource("tests/trainer/optim/optim_twin.py"), "optimizers", input(),
                           descriptions);
  }

  // The same steps here: name to parameter.
  static Tensors train(const OptimizerCase& each, std::unique_ptr<Optimizer>& optimizer) {
    Tensors trained;
    Parameters parameters;
    for (const std::string name : each.description.at("parameters")) {
      const at::Tensor& start = input().at("start/" + name);
      trained[name] = torch::empty_like(start).copy_(start).requires_grad_();
      parameters.push_back(trained[name]);
    }
    optimizer = each.make(parameters);
    for (int step = 0; step < kSteps; ++step) {
      for (auto& [name, parameter] : trained) {
        const auto gradient = input().find("gradient/" + std::to_string(step) + "/" + name);
        parameter.mutable_grad() =
            gradient == input().end() ? at::Tensor() : gradient->second.clone();
      }
      if (step == kSteps / 2) {
        for (auto& group : optimizer->param_groups()) {
          group.options().set_lr(group.options().get_lr() * 0.5);
        }
      }
      optimizer->step();
      optimizer->zero_grad();
    }
    return trained;
  }

  static std::vector<OptimizerCase> cases_;
  static Tensors expected_;
};

std::vector<OptimizerCase> OptimizersLikePython::cases_;
Tensors OptimizersLikePython::expected_;

TEST_F(OptimizersLikePython, EveryOptimizerOptionAndImplementationIsBitEqual) {
  ASSERT_EQ(cases_.size(), 43u);
  size_t compared = 0;
  for (const OptimizerCase& each : cases_) {
    std::unique_ptr<Optimizer> optimizer;
    const Tensors trained = train(each, optimizer);
    for (const auto& [name, parameter] : trained) {
      const std::string key = each.description.at("name").get<std::string>() + "/" + name;
      ASSERT_TRUE(expected_.contains(key)) << key;
      EXPECT_TRUE(same_bits(parameter, expected_.at(key))) << key << "\n"
                                                           << parameter << "\nPython:\n"
                                                           << expected_.at(key);
      ++compared;
    }
  }
  EXPECT_GT(compared, 350u);
}

TEST_F(OptimizersLikePython, StateHasPythonsNamesAndValues) {
  for (const OptimizerCase& each : cases_) {
    std::unique_ptr<Optimizer> optimizer;
    for (const auto& [name, parameter] : train(each, optimizer)) {
      const std::string key = each.description.at("name").get<std::string>() + "/" + name + "/";
      const TensorMap state = optimizer->parameter_state(parameter);
      for (const auto& [field, tensor] : state) {
        ASSERT_TRUE(expected_.contains(key + field)) << key << field;
        const at::Tensor& python = expected_.at(key + field);
        EXPECT_TRUE(field == "step" ? tensor.item<double>() == python.item<double>()
                                    : same_bits(tensor, python))
            << key << field;
      }
      // In Python, Adagrad's state exists before the first gradient.
      if (name == "never") continue;
      size_t python_fields = 0;
      for (const auto& [field, tensor] : expected_) python_fields += field.starts_with(key);
      EXPECT_EQ(state.size(), python_fields) << key;
    }
  }
}

}  // namespace
}  // namespace muster
