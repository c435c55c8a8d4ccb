#include "interchange/optimizer_options.h"

#include <torch/optim.h>

#include "muster/base/errors.h"

namespace muster {
namespace {

template <typename Options>
GroupOptions adam_options(Options& options, bool decoupled) {
  return {.options = {{"lr", &options.lr},
                      {"betas", &options.betas},
                      {"eps", &options.eps},
                      {"weight_decay", &options.weight_decay},
                      {"amsgrad", &options.amsgrad},
                      {"maximize", &options.maximize}},
          .implementation = &options.implementation,
          .has_capturable = true,
          .decoupled = decoupled};
}

GroupOptions sgd_options(SGDOptions& options) {
  return {.options = {{"lr", &options.lr},
                      {"momentum", &options.momentum},
                      {"dampening", &options.dampening},
                      {"weight_decay", &options.weight_decay},
                      {"nesterov", &options.nesterov},
                      {"maximize", &options.maximize}},
          .implementation = &options.implementation};
}

GroupOptions adagrad_options(AdagradOptions& options) {
  return {.options = {{"lr", &options.lr},
                      {"lr_decay", &options.lr_decay},
                      {"eps", &options.eps},
                      {"weight_decay", &options.weight_decay},
                      {"initial_accumulator_value", &options.initial_accumulator_value},
                      {"maximize", &options.maximize}},
          .implementation = &options.implementation,
          .initial_sum = options.initial_accumulator_value};
}

template <typename Options>
GroupOptions torch_adam_options(Options& options, bool decoupled) {
  return {.options = {{"lr", &options.lr()},
                      {"betas", &options.betas()},
                      {"eps", &options.eps()},
                      {"weight_decay", &options.weight_decay()},
                      {"amsgrad", &options.amsgrad()}},
          .has_capturable = true,
          .decoupled = decoupled};
}

GroupOptions torch_options(torch::optim::OptimizerOptions& options) {
  if (auto* adamw = dynamic_cast<torch::optim::AdamWOptions*>(&options))
    return torch_adam_options(*adamw, true);
  if (auto* adam = dynamic_cast<torch::optim::AdamOptions*>(&options))
    return torch_adam_options(*adam, false);
  if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&options)) {
    return {.options = {{"lr", &sgd->lr()},
                        {"momentum", &sgd->momentum()},
                        {"dampening", &sgd->dampening()},
                        {"weight_decay", &sgd->weight_decay()},
                        {"nesterov", &sgd->nesterov()}}};
  }
  if (auto* adagrad = dynamic_cast<torch::optim::AdagradOptions*>(&options)) {
    return {.options = {{"lr", &adagrad->lr()},
                        {"lr_decay", &adagrad->lr_decay()},
                        {"eps", &adagrad->eps()},
                        {"weight_decay", &adagrad->weight_decay()},
                        {"initial_accumulator_value", &adagrad->initial_accumulator_value()}},
            .initial_sum = adagrad->initial_accumulator_value()};
  }
  if (auto* rmsprop = dynamic_cast<torch::optim::RMSpropOptions*>(&options)) {
    return {.options = {{"lr", &rmsprop->lr()},
                        {"momentum", &rmsprop->momentum()},
                        {"alpha", &rmsprop->alpha()},
                        {"eps", &rmsprop->eps()},
                        {"centered", &rmsprop->centered()},
                        {"weight_decay", &rmsprop->weight_decay()}},
            .has_capturable = true};
  }
  throw CheckpointError(
      "the state of this optimizer cannot be in a file of torch.save: it must be one of muster's, "
      "or torch::optim's Adam, AdamW, SGD, RMSprop or Adagrad");
}

}  // namespace

GroupOptions group_options(torch::optim::Optimizer& optimizer, size_t group) {
  if (auto* adamw = dynamic_cast<AdamW*>(&optimizer))
    return adam_options(adamw->options(group), true);
  if (auto* adam = dynamic_cast<Adam*>(&optimizer))
    return adam_options(adam->options(group), false);
  if (auto* sgd = dynamic_cast<SGD*>(&optimizer)) return sgd_options(sgd->options(group));
  if (auto* adagrad = dynamic_cast<Adagrad*>(&optimizer))
    return adagrad_options(adagrad->options(group));
  return torch_options(optimizer.param_groups()[group].options());
}

}  // namespace muster
