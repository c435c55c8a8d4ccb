// See case_options.h.
#include "parity/case_options.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace parity {
namespace {

using nlohmann::json;

// The value, if the JSON has one.
template <typename T>
void read(const json& from, const char* name, T& into) {
  if (from.contains(name)) into = from.at(name).get<T>();
}

muster::Implementation implementation_of(const json& options) {
  const std::map<std::string, muster::Implementation> names = {
      {"fused", muster::Implementation::fused},
      {"foreach", muster::Implementation::foreach},
      {"plain", muster::Implementation::plain}};
  return names.at(options.value("implementation", "fused"));
}

template <typename Options>
Options adam_options(const json& from) {
  Options options{.lr = from.at("lr"), .implementation = implementation_of(from)};
  read(from, "weight_decay", options.weight_decay);
  read(from, "amsgrad", options.amsgrad);
  return options;
}

muster::SGDOptions sgd_options(const json& from) {
  muster::SGDOptions options{.lr = from.at("lr"), .implementation = implementation_of(from)};
  read(from, "momentum", options.momentum);
  read(from, "nesterov", options.nesterov);
  read(from, "weight_decay", options.weight_decay);
  return options;
}

muster::AdagradOptions adagrad_options(const json& from) {
  muster::AdagradOptions options{.lr = from.at("lr"), .implementation = implementation_of(from)};
  read(from, "lr_decay", options.lr_decay);
  return options;
}

muster::Schedule plateau_of(const json& from) {
  muster::ReduceOnPlateauOptions options;
  read(from, "factor", options.factor);
  read(from, "patience", options.patience);
  read(from, "cooldown", options.cooldown);
  read(from, "min_lr", options.min_lr);
  return muster::reduce_on_plateau_schedule(options);
}

muster::DataParallelOptions data_parallel_options(const json& from) {
  muster::DataParallelOptions options;
  read(from, "find_unused_parameters", options.find_unused_parameters);
  read(from, "static_graph", options.static_graph);
  read(from, "bucket_cap_mb", options.bucket_cap_mb);
  if (from.value("comm_hook", "") == "fp16") {
    options.gradient_compression = muster::GradientCompression::fp16;
  }
  return options;
}

muster::ShardingOptions sharding_options(const json& from) {
  const std::map<std::string, at::ScalarType> dtypes = {{"fp32", at::kFloat},
                                                        {"bf16", at::kBFloat16}};
  muster::ShardingOptions options;
  options.stage = muster::parse_zero_stage(from.value("stage", "none"));
  read(from, "shard_group_size", options.shard_group_size);
  read(from, "units", options.units);
  read(from, "unit_numel", options.unit_numel);
  read(from, "unit_numel_min", options.unit_numel_min);
  read(from, "reshard_after_forward", options.reshard_after_forward);
  read(from, "prefetch", options.prefetch);
  read(from, "reduce_every_micro_batch", options.reduce_every_micro_batch);
  if (from.contains("param_dtype")) options.param_dtype = dtypes.at(from.at("param_dtype"));
  if (from.contains("reduce_dtype")) options.reduce_dtype = dtypes.at(from.at("reduce_dtype"));
  return options;
}

}  // namespace

muster::AcceleratorOptions accelerator_options(const json& one) {
  muster::AcceleratorOptions options;
  const std::string precision = one.value("precision", "fp32");
  if (precision == "bf16") options.mixed_precision = muster::Precision::bf16;
  if (one.contains("scaler")) {
    // The scaler comes with fp16; a case in fp32 leaves autocast off.
    options.mixed_precision = muster::Precision::fp16;
    options.autocast.enabled = precision == "fp16";
    read(one.at("scaler"), "init_scale", options.grad_scaler.init_scale);
    read(one.at("scaler"), "growth_interval", options.grad_scaler.growth_interval);
  }
  options.gradient_accumulation.num_steps = one.value("accumulation", 1);
  read(one, "sync_each_batch", options.gradient_accumulation.sync_each_batch);
  read(one, "even_batches", options.dataloader_config.even_batches);
  read(one, "split_batches", options.dataloader_config.split_batches);
  read(one, "checkpoint_dir", options.checkpoint_dir);
  read(one, "resume_from", options.resume_from);
  read(one, "asynchronous", options.checkpoint.asynchronous);
  options.data_parallel = data_parallel_options(one.value("ddp", json::object()));
  options.sharding = sharding_options(one.value("sharding", json::object()));
  return one.value("compat", true) ? muster::accelerate_compat(options) : options;
}

muster::PreparedOptimizer prepare_optimizer(muster::Accelerator& accelerator,
                                            const std::vector<at::Tensor>& parameters,
                                            const json& one) {
  const json& from = one.at("optimizer");
  const std::string name = from.at("name");
  if (name == "adam") {
    return accelerator.prepare(muster::Adam(parameters, adam_options<muster::AdamOptions>(from)));
  }
  if (name == "sgd") return accelerator.prepare(muster::SGD(parameters, sgd_options(from)));
  if (name == "adagrad") {
    return accelerator.prepare(muster::Adagrad(parameters, adagrad_options(from)));
  }
  if (name != "adamw") throw muster::DoNotRetryError("no optimizer " + name);
  return accelerator.prepare(muster::AdamW(parameters, adam_options<muster::AdamWOptions>(from)));
}

muster::Schedule schedule_of(const json& from) {
  const std::string name = from.at("name");
  const int64_t total = from.value("total_steps", int64_t{0});
  const int64_t warmup = from.value("warmup_steps", int64_t{0});
  if (name == "constant") return muster::constant_schedule({.warmup_steps = warmup});
  if (name == "linear") {
    return muster::linear_schedule({.total_steps = total, .warmup_steps = warmup});
  }
  if (name == "cosine") {
    return muster::cosine_schedule({.total_steps = total, .warmup_steps = warmup});
  }
  if (name == "cosine_restarts") {
    return muster::cosine_with_restarts_schedule(
        {.total_steps = total, .warmup_steps = warmup, .num_cycles = from.at("cycles")});
  }
  if (name == "one_cycle") {
    return muster::one_cycle_schedule({.total_steps = total, .max_lr = from.at("max_lr")});
  }
  if (name == "step") {
    return muster::step_schedule({.step_size = from.at("step_size"), .gamma = from.at("gamma")});
  }
  if (name == "plateau") return plateau_of(from);
  throw muster::DoNotRetryError("no schedule " + name);
}

}  // namespace parity
