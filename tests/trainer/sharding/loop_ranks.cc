// The program that loop_test runs as ranks: loop_ranks STAGE UNIT_NUMEL_MIN trains small models in
// the ways that users write their loops and modules. Rank 0 prints a line "NAME: loss loss …" for
// each way.
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include "odd_modules.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

constexpr int kSteps = 5;

at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& targets) {
  return torch::nn::functional::cross_entropy(logits.reshape({-1, OddNetImpl::kTokens}),
                                              targets.reshape({-1}));
}

using Optimizer = std::function<PreparedOptimizer(Accelerator&, const std::vector<at::Tensor>&)>;

PreparedOptimizer adam(Accelerator& accelerator, const std::vector<at::Tensor>& parameters) {
  return accelerator.prepare(AdamW(parameters, {.lr = 0.01}));
}

// A model in the course of one step.
struct Training {
  Accelerator& accelerator;
  OddNet& net;
  PreparedModel<OddNet>& model;
  at::Tensor x, y;

  at::Tensor loss() const { return loss_of(model(x), y); }
  at::Tensor other_loss() const { return loss_of(model(y), x); }
};

// Forward and backward of a step, written in one of many ways; returns the loss.
using Step = std::function<at::Tensor(Training&)>;

at::Tensor usual(Training& training) {
  const at::Tensor loss = training.loss();
  training.accelerator.backward(loss);
  return loss;
}

const std::map<std::string, Step>& steps() {
  static const std::map<std::string, Step> all = {
      {"usual", usual},
      {"loss.backward()",
       [](Training& t) {
         const at::Tensor loss = t.loss();
         loss.backward();
         return loss;
       }},
      {"two forwards, one loss",
       [](Training& t) {
         const at::Tensor a = t.model(t.x), b = t.model(t.y);
         const at::Tensor loss = loss_of(a, t.y) + 0.3 * (a - b).pow(2).mean();
         t.accelerator.backward(loss);
         return loss;
       }},
      {"two losses, one after the other",
       [](Training& t) {
         const at::Tensor first = usual(t);
         const at::Tensor second = t.other_loss();
         t.accelerator.backward(second);
         return first + second;
       }},
      {"two forwards, two backwards",
       [](Training& t) {
         const at::Tensor first = t.loss(), second = t.other_loss();
         t.accelerator.backward(first);
         t.accelerator.backward(second);
         return first + second;
       }},
      {"two losses of one forward",
       [](Training& t) {
         const at::Tensor logits = t.model(t.x);
         const at::Tensor first = loss_of(logits, t.y), second = logits.pow(2).mean();
         first.backward({}, /*retain_graph=*/true);
         t.accelerator.backward(second);
         return first + second;
       }},
      {"evaluation between forward and backward",
       [](Training& t) {
         const at::Tensor loss = t.loss();
         {
           const torch::NoGradGuard no_grad;
           t.other_loss();
         }
         t.accelerator.backward(loss);
         const torch::NoGradGuard no_grad;
         t.other_loss();
         return loss;
       }},
      {"penalty on the weights",
       [](Training& t) {
         at::Tensor loss = t.loss();
         for (const at::Tensor& parameter : t.net->parameters()) {
           loss = loss + 1e-3 * parameter.pow(2).sum();
         }
         t.accelerator.backward(loss);
         return loss;
       }},
      {"a gradient of the output",
       [](Training& t) {
         const at::Tensor logits = t.model(t.x), loss = loss_of(logits, t.y);
         const at::Tensor gradient = torch::autograd::grad({loss}, {logits}, {}, true)[0];
         t.accelerator.backward(loss + gradient.abs().sum());
         return loss;
       }},
      {"inside full_parameters",
       [](Training& t) {
         const auto full = t.accelerator.full_parameters(t.model);
         return usual(t);
       }},
      {"full_parameters before the step",
       [](Training& t) {
         const at::Tensor loss = usual(t);
         const auto full = t.accelerator.full_parameters(t.model);
         return loss + 1e-3 * t.net->weight.detach().sum();
       }},
      {"a forward that gives up",
       [](Training& t) {
         try {
           t.model(t.x);
           throw std::runtime_error("a bad batch");
         } catch (const std::runtime_error&) {
         }
         return usual(t);
       }},
      {"clip some by norm", [](Training& t) {
         const at::Tensor loss = usual(t);
         t.accelerator.clip_grad_norm_(t.net->blocks->parameters(), 0.05);
         return loss;
       }}};
  return all;
}

const std::map<std::string, Optimizer>& optimizers() {
  static const std::map<std::string, Optimizer> all = {
      {"SGD, Nesterov",
       [](Accelerator& accelerator, const std::vector<at::Tensor>& parameters) {
         return accelerator.prepare(torch::optim::SGD(
             parameters, torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true)));
       }},
      {"torch's AdamW",
       [](Accelerator& accelerator, const std::vector<at::Tensor>& parameters) {
         return accelerator.prepare(
             torch::optim::AdamW(parameters, torch::optim::AdamWOptions(0.01)));
       }},
      {"Adagrad",
       [](Accelerator& accelerator, const std::vector<at::Tensor>& parameters) {
         return accelerator.prepare(torch::optim::Adagrad(
             parameters, torch::optim::AdagradOptions(0.05).initial_accumulator_value(0.1)));
       }},
      {"RMSprop", [](Accelerator& accelerator, const std::vector<at::Tensor>& parameters) {
         return accelerator.prepare(
             torch::optim::RMSprop(parameters, torch::optim::RMSpropOptions(0.01).momentum(0.5)));
       }}};
  return all;
}

at::Tensor clipped(Training& training) {
  const at::Tensor loss = usual(training);
  training.accelerator.clip_grad_norm_(training.net->parameters(), 0.05);
  return loss;
}

// The sum of a weight as read by a program that accesses the memory directly; none if that throws,
// and where the CPU has no access.
std::optional<double> sum_behind_the_back(const at::Tensor& weight) {
  if (!weight.is_cpu()) return std::nullopt;
  try {
    return at::from_blob(weight.data_ptr(), weight.sizes()).sum().item<double>();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

void train(Accelerator& accelerator, const std::string& name, const std::string& form,
           const Step& step, const Optimizer& make_optimizer) {
  accelerator.set_seed(3);
  OddNet net(form);
  auto model = accelerator.prepare(net);
  auto optimizer = make_optimizer(accelerator, net->parameters());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(100 + accelerator.process_index());
  const auto draw = [&] {
    return torch::randint(0, OddNetImpl::kTokens, {4, 6}, generator).to(accelerator.device());
  };
  std::string line = name + ":";
  for (int i = 0; i < kSteps; ++i) {
    Training training{accelerator, net, model, draw(), draw()};
    const at::Tensor loss = step(training);
    optimizer.step();
    optimizer.zero_grad();
    line += " " + std::to_string(loss.item<double>());
  }
  const std::optional<double> read = sum_behind_the_back(net->weight);
  const TensorMap state = accelerator.get_state_dict(model);
  if (read.value_or(0) != (read ? state.at("weight").sum().item<double>() : 0)) {
    throw Error(name + ": the weights were read while they were not whole");
  }
  double sum = 0;
  for (const auto& [key, value] : state) sum += value.to(at::kDouble).abs().sum().item<double>();
  if (accelerator.is_main_process()) std::printf("%s %.6f\n", line.c_str(), sum);
  accelerator.free_memory();
}

// Two models and two optimizers, one after the other on the same batch.
void train_two(Accelerator& accelerator) {
  accelerator.set_seed(3);
  OddNet first("usual"), second("attention");
  auto a = accelerator.prepare(first);
  auto b = accelerator.prepare(second);
  auto steps_a = adam(accelerator, first->parameters());
  auto steps_b = adam(accelerator, second->parameters());
  auto generator = at::make_generator<at::CPUGeneratorImpl>(100 + accelerator.process_index());
  std::string line = "two models:";
  for (int i = 0; i < kSteps; ++i) {
    const at::Tensor x =
        torch::randint(0, OddNetImpl::kTokens, {4, 6}, generator).to(accelerator.device());
    const at::Tensor out = a(x);
    const at::Tensor told = loss_of(b(x), out.detach().argmax(-1));
    accelerator.backward(told);
    steps_b.step();
    steps_b.zero_grad();
    const at::Tensor learnt = loss_of(out, x) + 0.1 * (out - b(x)).pow(2).mean();
    accelerator.backward(learnt);
    steps_a.step();
    steps_a.zero_grad();
    steps_b.zero_grad();
    line += " " + std::to_string(told.item<double>()) + " " + std::to_string(learnt.item<double>());
  }
  if (accelerator.is_main_process()) std::printf("%s\n", line.c_str());
  accelerator.free_memory();
}

// Two vectors, one owned by each of two ranks; their gradients are forward's inputs.
struct VectorsImpl : torch::nn::Module {
  VectorsImpl() {
    first = register_parameter("first", torch::zeros({64}));
    second = register_parameter("second", torch::zeros({64}));
  }
  at::Tensor forward(const at::Tensor& a, const at::Tensor& b) {
    return (first * a).sum() + (second * b).sum();
  }
  at::Tensor first, second;
};
TORCH_MODULE(Vectors);

// Gradient norms as seen by both ranks; NaN is printed as -7.
void take_norms(Accelerator& accelerator) {
  Vectors net;
  auto model = accelerator.prepare(net);
  auto optimizer = adam(accelerator, net->parameters());
  const double inf = std::numeric_limits<double>::infinity();
  for (const double norm_type : {inf, 2.0, 1.0}) {
    for (const std::string broken : {"none", "first", "second"}) {
      at::Tensor a = torch::arange(64, at::kFloat) - 3, b = torch::arange(64, at::kFloat) - 70;
      if (broken != "none") (broken == "first" ? a : b)[5] = std::nan("");
      accelerator.backward(model(a.to(accelerator.device()), b.to(accelerator.device())));
      const double norm =
          accelerator.clip_grad_norm_(net->parameters(), 1.0, norm_type).item<double>();
      std::string line = "norm " + std::to_string(norm_type) + ", NaN in " + broken + ":";
      for (const double one : accelerator.gather(std::isnan(norm) ? -7.0 : norm)) {
        line += " " + std::to_string(one);
      }
      if (accelerator.is_main_process()) std::printf("%s\n", line.c_str());
      optimizer.zero_grad();
    }
  }
  accelerator.free_memory();
}

int train_all(int /*argc*/, char** argv) {
  Accelerator accelerator(
      {.sharding = {.stage = parse_zero_stage(argv[1]), .unit_numel_min = std::stoll(argv[2])}});
  for (const std::string& form : OddNetImpl::forms()) {
    train(accelerator, "module, " + form, form, usual, adam);
  }
  for (const auto& [name, step] : steps()) train(accelerator, "loop, " + name, "usual", step, adam);
  for (const auto& [name, optimizer] : optimizers()) {
    train(accelerator, "optimizer, " + name, "usual", usual, optimizer);
  }
  train(accelerator, "clip all", "tied, two names", clipped, adam);
  train(accelerator, "clip all, torch's SGD", "tied, two names", clipped,
        optimizers().at("SGD, Nesterov"));
  train_two(accelerator);
  take_norms(accelerator);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, train_all); }
