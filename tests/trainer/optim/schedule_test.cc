// Learning rates over whole runs against torch.optim.lr_scheduler and transformers' formulas.
#include "muster/optim/schedulers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/errors.h"
#include "muster/optim/optimizers.h"
#include "optim/twin.h"
#include "tests/support/paths.h"

namespace muster {
namespace {

using nlohmann::json;

struct ScheduleCase {
  std::string name;
  std::string python;
  Schedule schedule;
  int64_t steps = 60;
  bool bit_equal = true;
  std::string optimizer = "SGD";
  std::vector<double> metrics = {};
};

std::vector<double> some_metrics() {
  std::vector<double> metrics;
  for (int i = 0; i < 60; ++i) metrics.push_back(1.0 / (1 + i % 17) + 0.3 * std::sin(i));
  return metrics;
}

std::vector<ScheduleCase> hugging_face_cases() {
  return {{"constant", "LambdaLR(o, lambda s: 1.0)", constant_schedule()},
          {"constant warm-up", "LambdaLR(o, warmup_then(7, lambda s: 1.0))",
           constant_schedule({.warmup_steps = 7})},
          {"linear", "LambdaLR(o, linear(7, 50))",
           linear_schedule({.total_steps = 50, .warmup_steps = 7})},
          {"cosine", "LambdaLR(o, cosine(7, 50))",
           cosine_schedule({.total_steps = 50, .warmup_steps = 7})},
          {"cosine waves", "LambdaLR(o, cosine(0, 60, 1.5, 0.1))",
           cosine_schedule({.total_steps = 60, .num_cycles = 1.5, .min_lr_ratio = 0.1})},
          {"cosine restarts", "LambdaLR(o, restarts(5, 50, 3))",
           cosine_with_restarts_schedule({.total_steps = 50, .warmup_steps = 5, .num_cycles = 3})},
          {"polynomial", "LambdaLR(o, polynomial(4, 50, 0.1, 1e-7, 2.0))",
           polynomial_schedule({.total_steps = 50, .warmup_steps = 4, .power = 2, .end_lr = 1e-7})},
          {"lambda", "LambdaLR(o, lambda s: 0.95 ** s)",
           lambda_schedule([](int64_t step) { return std::pow(0.95, double(step)); })}};
}

std::vector<ScheduleCase> torch_cases() {
  return {
      {"linear factor", "LinearLR(o, 0.25, 0.9, 20)",
       linear_factor_schedule({.start_factor = 0.25, .end_factor = 0.9, .total_iters = 20}), 60,
       false},
      {"step", "StepLR(o, 7, 0.3)", step_schedule({.step_size = 7, .gamma = 0.3}), 60, false},
      {"multi step", "MultiStepLR(o, [30, 5, 5, 44], 0.5)",
       multi_step_schedule({.milestones = {30, 5, 5, 44}, .gamma = 0.5}), 60, false},
      {"exponential", "ExponentialLR(o, 0.93)", exponential_schedule({.gamma = 0.93}), 60, false},
      {"torch polynomial", "PolynomialLR(o, 40, 1.7)",
       polynomial_schedule({.total_steps = 40, .power = 1.7}), 60, false},
      {"cosine annealing", "CosineAnnealingLR(o, 25, 1e-3)",
       cosine_annealing_schedule({.t_max = 25, .eta_min = 1e-3}), 60, false},
      {"warm restarts", "CosineAnnealingWarmRestarts(o, 6, 2, 1e-3)",
       cosine_warm_restarts_schedule({.t_0 = 6, .t_mult = 2, .eta_min = 1e-3})},
      {"warm restarts even", "CosineAnnealingWarmRestarts(o, 9)",
       cosine_warm_restarts_schedule({.t_0 = 9})},
      {"warm-up in front",
       "SequentialLR(o, [LinearLR(o, 0.1, 1.0, 8), StepLR(o, 10, 0.5)], milestones=[8])",
       with_warmup(8, step_schedule({.step_size = 10, .gamma = 0.5}), 0.1), 60, false}};
}

std::vector<ScheduleCase> cycle_cases() {
  return {
      {"one cycle", "OneCycleLR(o, 0.5, total_steps=60)",
       one_cycle_schedule({.total_steps = 60, .max_lr = 0.5})},
      {"one cycle of Adam", "OneCycleLR(o, 0.5, total_steps=61, anneal_strategy='linear')",
       one_cycle_schedule({.total_steps = 61, .max_lr = 0.5, .anneal = Anneal::linear}), 60, true,
       "AdamW"},
      {"one cycle in three",
       "OneCycleLR(o, [0.1, 0.02], total_steps=60, pct_start=0.4, "
       "three_phase=True, cycle_momentum=False, div_factor=10, final_div_factor=100)",
       one_cycle_schedule({.total_steps = 60,
                           .pct_start = 0.4,
                           .cycle_momentum = false,
                           .div_factor = 10,
                           .final_div_factor = 100,
                           .three_phase = true})},
      {"plateau", "ReduceLROnPlateau(o, patience=3, factor=0.5)",
       reduce_on_plateau_schedule({.factor = 0.5, .patience = 3}), 60, true, "SGD", some_metrics()},
      {"plateau of a maximum",
       "ReduceLROnPlateau(o, 'max', patience=2, factor=0.3, threshold=0.05, "
       "threshold_mode='abs', cooldown=4, min_lr=1e-3, eps=1e-5)",
       reduce_on_plateau_schedule({.mode = PlateauMode::max,
                                   .factor = 0.3,
                                   .patience = 2,
                                   .threshold = 0.05,
                                   .threshold_mode = ThresholdMode::absolute,
                                   .cooldown = 4,
                                   .min_lr = 1e-3,
                                   .eps = 1e-5}),
       60, true, "SGD", some_metrics()}};
}

std::vector<ScheduleCase> all_cases() {
  std::vector<ScheduleCase> cases = hugging_face_cases();
  for (auto& more : {torch_cases(), cycle_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

std::shared_ptr<torch::optim::Optimizer> make_optimizer(const std::string& kind) {
  const at::Tensor first = torch::zeros({1}).requires_grad_();
  const at::Tensor second = torch::zeros({1}).requires_grad_();
  if (kind == "AdamW") {
    return std::make_shared<AdamW>(std::vector<ParameterGroup<AdamWOptions>>{
        {{first}, {.lr = 0.1}}, {{second}, {.lr = 0.02}}});
  }
  return std::make_shared<SGD>(
      std::vector<ParameterGroup<SGDOptions>>{{{first}, {.lr = 0.1}}, {{second}, {.lr = 0.02}}});
}

void step(LrScheduler& scheduler, const ScheduleCase& each, int64_t step) {
  if (each.metrics.empty()) {
    scheduler.step();
  } else {
    scheduler.step(each.metrics[step]);
  }
}

TEST(Schedules, WholeRunsEqualPythons) {
  json descriptions = json::array();
  for (const ScheduleCase& each : all_cases()) {
    json description = {{"name", each.name},
                        {"python", each.python},
                        {"steps", each.steps},
                        {"optimizer", each.optimizer}};
    if (!each.metrics.empty()) description["metrics"] = each.metrics;
    descriptions.push_back(description);
  }
  const Tensors python =
      ask_python(TestSource("tests/trainer/optim/optim_twin.py"), "schedules", {}, descriptions);
  ASSERT_FALSE(python.empty());
  for (const ScheduleCase& each : all_cases()) {
    const auto optimizer = make_optimizer(each.optimizer);
    LrScheduler scheduler(optimizer, each.schedule);
    double worst = 0;
    for (int64_t n = 0; n <= each.steps; ++n) {
      for (int64_t group = 0; group < 2; ++group) {
        const double expected = python.at(each.name + "/lr")[n][group].item<double>();
        const double met = optimizer->param_groups()[group].options().get_lr();
        ASSERT_EQ(met, scheduler.get_last_lr()[group]);
        // Where torch multiplies the previous rate repeatedly, 0 may remain 1e-17.
        const double difference = std::abs(met - expected) / std::max(std::abs(expected), 1e-9);
        worst = std::max(worst, difference);
        if (each.bit_equal) {
          EXPECT_EQ(met, expected) << each.name << " step " << n;
        }
        const double momentum = dynamic_cast<Optimizer&>(*optimizer).momentum(group);
        EXPECT_EQ(momentum, python.at(each.name + "/momentum")[n][group].item<double>())
            << each.name << " step " << n;
      }
      if (n < each.steps) step(scheduler, each, n);
    }
    EXPECT_LE(worst, 1e-12) << each.name;
    RecordProperty(each.name, std::to_string(worst));
  }
}

TEST(Schedules, LoadedStateContinuesAsIfNeverInterrupted) {
  for (const ScheduleCase& each : all_cases()) {
    const auto optimizer = make_optimizer(each.optimizer), other = make_optimizer(each.optimizer);
    LrScheduler scheduler(optimizer, each.schedule), resumed(other, each.schedule);
    for (int64_t n = 0; n < 23; ++n) step(scheduler, each, n);
    resumed.load_state(scheduler.state());
    EXPECT_EQ(resumed.last_step(), 23);
    for (int64_t n = 23; n < 50; ++n) {
      EXPECT_EQ(resumed.get_last_lr(), scheduler.get_last_lr()) << each.name << " step " << n;
      EXPECT_EQ(other->param_groups()[1].options().get_lr(), scheduler.get_last_lr()[1]);
      step(scheduler, each, n);
      step(resumed, each, n);
    }
  }
  LrScheduler one(make_optimizer("SGD"), constant_schedule());
  EXPECT_THROW(one.load_state({}), CheckpointError);
}

TEST(Schedules, WorkOnTorchsOptimizers) {
  const std::vector<at::Tensor> weights = {torch::zeros({1}).requires_grad_()};
  const Schedule cycle = one_cycle_schedule({.total_steps = 10, .max_lr = 0.5});
  auto adam = std::make_shared<torch::optim::Adam>(weights, 0.1);
  LrScheduler scheduler(adam, cycle);
  const auto& options = static_cast<torch::optim::AdamOptions&>(adam->param_groups()[0].options());
  EXPECT_NEAR(options.lr(), 0.5 / 25, 1e-12);
  EXPECT_NEAR(std::get<0>(options.betas()), 0.95, 1e-12);
  scheduler.step();
  EXPECT_GT(options.lr(), 0.5 / 25);
  EXPECT_LT(std::get<0>(options.betas()), 0.95);
  auto adagrad = std::make_shared<torch::optim::Adagrad>(weights, 0.1);
  EXPECT_THROW(LrScheduler(adagrad, cycle), std::invalid_argument);
  EXPECT_THROW(LrScheduler(std::make_shared<Adagrad>(weights), cycle), std::invalid_argument);
}

TEST(Schedules, WarmupGoesInFrontOfAPlateau) {
  const auto optimizer = make_optimizer("SGD");
  LrScheduler scheduler(optimizer,
                        with_warmup(4, reduce_on_plateau_schedule({.factor = 0.5, .patience = 0})));
  EXPECT_EQ(scheduler.get_last_lr()[0], 0);
  scheduler.step();
  scheduler.step(1.0);
  scheduler.step(2.0);  // worse, but warming up
  EXPECT_EQ(scheduler.get_last_lr()[0], 0.1 * 0.25);
  for (int i = 0; i < 5; ++i) scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr()[0], 0.1);
  scheduler.step(3.0);
  EXPECT_EQ(scheduler.get_last_lr()[0], 0.05);
  scheduler.step();
  EXPECT_EQ(scheduler.get_last_lr()[0], 0.05);
}

TEST(Schedules, WarmupGoesInFrontOfAnySchedule) {
  for (const ScheduleCase& each : all_cases()) {
    if (!each.metrics.empty()) continue;
    const Schedule warmed = with_warmup(10, each.schedule);
    const ScheduleInput start = {.step = 0, .base_lr = 0.1, .default_lr = 0.1};
    const double first = each.schedule.at(start).lr;
    for (const int64_t n : {0, 4, 10, 31}) {
      ScheduleInput in = start;
      in.step = n;
      const double met = warmed.at(in).lr;
      in.step = n - 10;
      EXPECT_EQ(met, n < 10 ? first * (double(n) / 10) : each.schedule.at(in).lr) << each.name;
    }
  }
}

TEST(Schedules, MisuseNamesTheFix) {
  LrScheduler cosine(make_optimizer("SGD"), cosine_schedule({.total_steps = 5}));
  EXPECT_THROW(cosine.step(0.5), std::invalid_argument);
  LrScheduler plateau(make_optimizer("SGD"), reduce_on_plateau_schedule());
  EXPECT_THROW(plateau.step(), std::invalid_argument);
  LrScheduler cycle(make_optimizer("SGD"), one_cycle_schedule({.total_steps = 2}));
  cycle.step();
  EXPECT_FALSE(cycle.at_end());
  cycle.step();
  EXPECT_TRUE(cycle.at_end());
  EXPECT_THROW(cycle.step(), Error);
  EXPECT_FALSE(cosine.at_end());
  EXPECT_EQ(with_warmup(3, one_cycle_schedule({.total_steps = 2}), 0.1).last_step(), 5);
  EXPECT_THROW(cosine_schedule({}), std::invalid_argument);
  EXPECT_THROW(linear_schedule({.total_steps = 5, .warmup_steps = 6}), std::invalid_argument);
  EXPECT_THROW(step_schedule({}), std::invalid_argument);
  EXPECT_THROW(reduce_on_plateau_schedule({.factor = 1}), std::invalid_argument);
  EXPECT_THROW(one_cycle_schedule({.total_steps = 5, .pct_start = 2}), std::invalid_argument);
  EXPECT_THROW(LrScheduler(nullptr, constant_schedule()), std::invalid_argument);
  const auto optimizer = make_optimizer("SGD");
  LrScheduler grown(optimizer, constant_schedule());
  optimizer->add_param_group(torch::optim::OptimizerParamGroup({torch::zeros({1})}));
  EXPECT_THROW(grown.step(), Error);
}

}  // namespace
}  // namespace muster
