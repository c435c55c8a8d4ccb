// The C++ side of the comparison with Python's DistributedDataParallel; see ddp_twin.py.
#include "parallel/rank_model.h"

namespace muster {
namespace {

// How a case differs from plain training.
struct Case {
  DataParallelOptions options;
  bool varying_spare = false;  // the ranks use the spare branch at different times
  bool spare_never = false;    // no rank uses it
  int window = 1;              // micro-batches per step
  bool evaluates = false;      // a forward without gradients after each step
  bool joins = false;          // ranks have 2, 4, 6... batches
  JoinOptions join = {};
};

Case case_of(const std::string& name) {
  Case test;
  DataParallelOptions& options = test.options;
  options.bucket_cap_mb = 1;
  if (name == "default_caps") options.bucket_cap_mb = 25;
  if (name == "no_view") options.gradient_as_bucket_view = false;
  if (name == "batched_copy") options.batched_grad_copy = true;
  if (name == "no_buffers") options.broadcast_buffers = false;
  if (name == "fp16") options.gradient_compression = GradientCompression::fp16;
  if (name == "bf16") options.gradient_compression = GradientCompression::bf16;
  if (name == "evaluation") test.evaluates = options.broadcast_buffers_in_evaluation = true;
  if (name == "accumulate") test.window = 3;
  if (name.starts_with("find_unused")) {
    options.find_unused_parameters = test.varying_spare = true;
  }
  if (name.starts_with("static")) options.static_graph = test.spare_never = true;
  if (name == "skip_unused") {
    options.find_unused_parameters = options.skip_all_reduce_unused_params = true;
    test.spare_never = true;
  }
  if (name.find("join") != std::string::npos) test.joins = true;
  if (name == "join_by_active") test.join.divide_by_initial_world_size = false;
  return test;
}

at::Tensor loss_of(Parallel<Net>& model, const Case& test, int rank, int step) {
  // Per rank and step: not computed, computed but not in the loss, in the loss.
  const int use = test.spare_never ? 0 : test.varying_spare ? (rank + step) % 3 : 2;
  auto [output, side] = model(input_of(rank, step), use > 0);
  at::Tensor loss = output.pow(2).mean();
  return use == 2 ? loss + side.pow(2).mean() : loss;
}

void train_step(const Rank& rank, Parallel<Net>& model, const Case& test, int step) {
  DataParallel& data_parallel = model.data_parallel();
  data_parallel.zero_grad();
  at::Tensor loss;
  for (int part = 0; part < test.window; ++part) {
    std::optional<NoSync> no_sync;
    if (part + 1 < test.window) no_sync.emplace(model.data_parallel());
    loss = loss_of(model, test, rank.rank(), step * test.window + part);
    loss.backward();
  }
  descend(data_parallel.module(), 0.002);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model.unwrap()->parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  std::printf("%d %zu %ld %ld %ld %ld\n", step, gradients.size(), fingerprint(gradients),
              fingerprint(model.unwrap()->parameters()),
              fingerprint({model.unwrap()->norm->running_mean, model.unwrap()->norm->running_var}),
              fingerprint({loss}));
  if (!test.evaluates) return;
  const torch::NoGradGuard no_grad;
  model.unwrap()->eval();
  std::printf("%ld\n", fingerprint({std::get<0>(model(input_of(rank.rank(), 50), false))}));
  model.unwrap()->train();
}

void run_twin(const Rank& rank, const std::string& name) {
  const Case test = case_of(name);
  Net net;
  fill(*net, rank.rank());
  auto model = rank.prepare(net, test.options);
  std::printf("case %s\n", name.c_str());
  if (test.joins) {
    const JoinUnevenInputs join({&model.data_parallel()}, test.join);
    for (int step = 0; step < 2 + 2 * rank.rank(); ++step) train_step(rank, model, test, step);
  } else {
    for (int step = 0; step < 5; ++step) train_step(rank, model, test, step);
  }
  std::printf("end %ld %ld\n", fingerprint(net->parameters()),
              fingerprint({net->norm->running_mean, net->norm->running_var}));
}

}  // namespace

void train_twins(const Arguments& cases) {
  const Rank rank;
  for (const std::string& name : cases) run_twin(rank, name);
}

}  // namespace muster
