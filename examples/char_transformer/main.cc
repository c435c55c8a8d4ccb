// A character transformer on the Muster trainer SDK: bf16 or fp16, gradient accumulation to a fixed
// global batch, cosine with warm-up, checkpoints, and text sampled at the end. train.py does the
// same steps on Accelerate; README.md shows both loops.
#include <muster/trainer.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

#include "examples/char_transformer/model.h"
#include "examples/char_transformer/text_data.h"
#include "examples/common/command_line.h"
#include "examples/common/gzip_text.h"
#include "examples/common/memory_limit.h"

namespace {

using char_transformer::Transformer;
using char_transformer::Windows;
using Clock = std::chrono::steady_clock;

constexpr double kHeldOut = 0.05;     // the last part of the text
constexpr int64_t kHeldOutBatch = 8;  // small: evaluation needs no more memory than training
constexpr int64_t kNoticeSteps = 8;   // between checks for a stop notice, which cost an all-reduce

struct Options {
  char_transformer::ModelOptions model;
  char_transformer::SampleOptions sample;
  int64_t steps = 1500, global_batch = 32, micro_batch = 16, accumulation = 0;
  double lr = 6e-3, clip = 1.0, ema = 0;
  int64_t warmup = 50, seed = 1, log_every = 100, checkpoint_every = 500;
  std::string sharding = "none";
  int64_t memory_limit = 0;
  std::string precision = "no", data = examples::find_data("kjv-genesis-psalms.txt.gz");
  std::string checkpoint_dir, log_dir, profile;
  bool untied = false, in_order = false;
};

Options parse_options(int argc, char** argv) {
  Options options;
  examples::CommandLine line("char_transformer");
  line.add("--steps", &options.steps, 1, "optimizer steps");
  line.add("--global-batch", &options.global_batch, 1,
           "windows per optimizer step, over all ranks");
  line.add("--micro-batch", &options.micro_batch, 1, "maximum windows per forward pass of a rank");
  line.add("--accumulation", &options.accumulation, 0, "forward passes per step; 0: as needed");
  line.add("--lr", &options.lr, 0.0, "peak learning rate");
  line.add("--warmup", &options.warmup, 0, "warm-up steps; then a cosine down to a tenth");
  line.add("--precision", &options.precision, {"no", "fp16", "bf16"}, "autocast");
  line.add("--sharding", &options.sharding, {"none", "zero1", "zero2", "zero3"},
           "what is sharded across the ranks");
  line.add("--memory-limit", &options.memory_limit, 0,
           "MiB that a rank may use for training; 0: no limit");
  line.add("--layers", &options.model.layers, 1, "blocks");
  line.add("--width", &options.model.width, 1, "features per token");
  line.add("--heads", &options.model.heads, 1, "attention heads");
  line.add("--context", &options.model.context, 1, "characters that the model sees");
  line.add("--dropout", &options.model.dropout, 0.0, "probability");
  line.add("--untied", &options.untied, "use a separate output layer");
  line.add("--clip", &options.clip, 0.0, "largest gradient norm");
  line.add("--ema", &options.ema, 0.0, "decay of a moving average of the weights; 0: none");
  line.add("--seed", &options.seed, 0, "for weights, order, dropout and sampling");
  line.add("--in-order", &options.in_order, "read windows in text order, for comparisons");
  line.add("--data", &options.data, "gzipped text");
  line.add("--log-every", &options.log_every, 1, "steps");
  line.add("--log-dir", &options.log_dir, "directory for TensorBoard events and JSON lines");
  line.add("--profile", &options.profile, "directory for a trace of three steps per rank");
  line.add("--checkpoint-dir", &options.checkpoint_dir, "where checkpoints go without a worker");
  line.add("--checkpoint-every", &options.checkpoint_every, 1, "steps");
  line.add("--sample", &options.sample.length, 0, "characters to generate at the end");
  line.add("--temperature", &options.sample.temperature, 1e-3, "below 1: safer, above: wilder");
  line.parse(argc, argv);
  options.warmup = std::min(options.warmup, options.steps);
  options.model.tied = !options.untied;
  options.sample.seed = static_cast<uint64_t>(options.seed);
  return options;
}

muster::AcceleratorOptions accelerator_options(const Options& options) {
  muster::AcceleratorOptions result;
  if (options.precision == "bf16") result.mixed_precision = muster::Precision::bf16;
  if (options.precision == "fp16") result.mixed_precision = muster::Precision::fp16;
  result.sharding.stage = muster::parse_zero_stage(options.sharding);
  result.checkpoint_dir = options.checkpoint_dir;
  if (!options.log_dir.empty()) {
    result.project.logging_dir = options.log_dir;
    result.log_with = {"tensorboard", "jsonl"};
  }
  return result;
}

// Three steps, after the slower first ones.
muster::ProfileOptions profile_options(muster::Accelerator& accelerator,
                                       const std::string& directory) {
  muster::ProfileOptions options{.warmup = 1, .active = 3, .repeat = 1, .skip_first = 5};
  options.directory = directory;
  options.on_trace_ready = [&accelerator](const muster::ProfileSummary& summary) {
    if (accelerator.is_main_process()) accelerator.print(summary.text());
  };
  return options;
}

// Mean loss over the held-out windows, each counted once.
template <typename Model, typename Loader>
double evaluate(muster::Accelerator& accelerator, Model& model, Loader& loader) {
  const torch::NoGradGuard no_grad;
  model.eval();
  std::vector<at::Tensor> losses;
  for (auto& [inputs, targets] : loader) {
    const at::Tensor of_tokens = torch::cross_entropy_loss(model(inputs).transpose(1, 2), targets,
                                                           /*weight=*/{}, at::Reduction::None);
    losses.push_back(accelerator.gather_for_metrics(of_tokens.mean(1)));
  }
  model.train();
  return torch::cat(losses).mean().item<double>();
}

// Reports the mean loss since the last report, and the speed, to stdout and trackers. Collective.
class Report {
 public:
  Report(muster::Accelerator& accelerator, const Options& options, int64_t global_batch)
      : accelerator_(accelerator),
        options_(options),
        characters_per_step_(static_cast<double>(global_batch * options.model.context)) {}

  // No host sync: the loss stays on its device.
  void add(const at::Tensor& loss) { losses_.push_back(loss.detach()); }

  void step(int64_t step, double lr) {
    ++steps_;
    if (step % options_.log_every != 0 && step != options_.steps) return;
    const double loss = accelerator_.reduce(torch::stack(losses_).mean()).item<double>();
    const std::chrono::duration<double> seconds = Clock::now() - start_;
    const double speed = characters_per_step_ * static_cast<double>(steps_) / seconds.count();
    char line[120];
    std::snprintf(line, sizeof(line), "step %4ld/%ld  loss %.4f  lr %.2e  %.0f characters/s", step,
                  options_.steps, loss, lr, speed);
    if (accelerator_.is_main_process()) accelerator_.print(line);
    accelerator_.log({{"loss", loss}, {"lr", lr}, {"characters_per_s", speed}}, step);
    accelerator_.progress(step, options_.steps);
    losses_.clear();
    steps_ = 0;
    start_ = Clock::now();
  }

 private:
  muster::Accelerator& accelerator_;
  const Options& options_;
  const double characters_per_step_;
  std::vector<at::Tensor> losses_;
  int64_t steps_ = 0;
  Clock::time_point start_ = Clock::now();
};

void say_held_out(muster::Accelerator& accelerator, double loss) {
  char line[80];
  std::snprintf(line, sizeof(line), "held-out loss %.4f nats per character", loss);
  if (accelerator.is_main_process()) accelerator.print(line);
}

int stopped(muster::Accelerator& accelerator, int64_t step) {
  accelerator.print("stopped at step " + std::to_string(step) + " as requested");
  return 143;  // 128 + SIGTERM, as if the signal had killed it
}

int train(const Options& given) {
  Options options = given;
  muster::Accelerator accelerator(accelerator_options(options));
  std::optional<examples::MemoryLimit> limit;
  muster::BatchContract contract{.global_batch = options.global_batch,
                                 .max_micro_batch = options.micro_batch};
  if (options.accumulation > 0) contract.accumulation_steps = options.accumulation;
  const muster::BatchPlan plan = accelerator.plan_batch(contract);

  const auto text = char_transformer::read_text(options.data);
  const auto [train_text, held_out_text] = text.split(kHeldOut);
  options.model.vocabulary = text.vocabulary();
  const int64_t context = options.model.context;
  const auto seed = static_cast<uint64_t>(options.seed);

  accelerator.set_seed(seed);
  // prepare() creates the weights: with zero3 no rank ever holds all of them.
  auto net = muster::deferred_init([&] { return Transformer(options.model); });
  if (options.memory_limit > 0) limit.emplace(options.memory_limit);
  auto [model, optimizer, loader, held_out, scheduler] = accelerator.prepare(
      net,
      muster::AdamW(net->parameters(),
                    {.lr = options.lr, .betas = {0.9, 0.95}, .weight_decay = 0.1}),
      muster::DataLoader(Windows(train_text, context, /*stride=*/1),
                         {.batch_size = plan.micro_batch,
                          .shuffle = !options.in_order,
                          .seed = seed,
                          .drop_last = true}),
      muster::DataLoader(Windows(held_out_text, context, /*stride=*/context),
                         {.batch_size = kHeldOutBatch}),
      muster::cosine_schedule(
          {.total_steps = options.steps, .warmup_steps = options.warmup, .min_lr_ratio = 0.1}));
  std::optional<muster::ExponentialMovingAverage> average;
  if (options.ema > 0) average.emplace(*net, muster::EmaOptions{.decay = options.ema});
  if (average) accelerator.register_for_checkpointing("average", *average);
  accelerator.set_seed(seed + 1'000, /*device_specific=*/true);  // for dropout
  accelerator.init_trackers("char_transformer", {{"lr", options.lr}, {"steps", options.steps}});

  int64_t step = accelerator.load_state().value_or(0);
  if (step > 0) accelerator.print("resumed from step " + std::to_string(step));
  const bool saves = !accelerator.checkpoint_dir().empty();
  std::optional<muster::Profiler> profiler;
  if (!options.profile.empty()) {
    profiler.emplace(profile_options(accelerator, options.profile), accelerator.process_index(),
                     accelerator.num_processes());
  }
  Report report(accelerator, options, plan.global_batch);
  while (step < options.steps) {
    for (auto& [inputs, targets] : loader) {
      const auto window = accelerator.accumulate(model);
      const at::Tensor loss = char_transformer::loss_of(model(inputs), targets);
      accelerator.backward(loss);
      if (accelerator.sync_gradients()) {
        accelerator.clip_grad_norm_(net->parameters(), options.clip);
      }
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      report.add(loss);
      if (!accelerator.sync_gradients()) continue;

      ++step;
      if (average) average->update();
      report.step(step, scheduler.get_last_lr()[0]);
      if (profiler) profiler->step();
      const bool stop = step % kNoticeSteps == 0 && accelerator.should_stop();
      const bool due = step % options.checkpoint_every == 0 || step == options.steps;
      if (saves && (stop || due)) accelerator.save_state(step);
      if (stop) return stopped(accelerator, step);
      if (step == options.steps) break;
    }
  }
  std::optional<muster::ExponentialMovingAverage::Scope> averaged;
  if (average) averaged.emplace(*average);
  say_held_out(accelerator, evaluate(accelerator, model, held_out));
  const auto full = accelerator.full_parameters(model);
  if (options.sample.length > 0 && accelerator.is_main_process()) {
    const at::Tensor written = char_transformer::sample(*net, text.encode("\n"), options.sample);
    accelerator.print("\n" + text.decode(written));
  }
  if (accelerator.is_main_process()) {
    accelerator.print("rank 0 held " + accelerator.memory_usage().text());
  }
  return 0;
}

// What the run would have needed if the limit was too low.
std::string advice(const Options& options) {
  const auto topology = muster::Topology::from_environment();
  auto net = muster::deferred_init([&] { return Transformer(options.model); });
  muster::ShardingOptions sharding;
  sharding.stage = muster::parse_zero_stage(options.sharding);
  const auto plan = muster::memory_plan(*net, sharding, topology.world_size);
  const int64_t bytes = options.memory_limit << 20;
  return "this rank needs more than its --memory-limit of " + std::to_string(options.memory_limit) +
         " MiB with --sharding " + options.sharding + ". Without activations, a rank needs\n" +
         muster::estimate_memory(plan).text() +
         muster::fits_text(muster::fits(plan, bytes, 8), bytes);
}

int train_within_limit(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  try {
    return train(options);
  } catch (const std::exception& error) {
    if (options.memory_limit == 0 || !examples::is_out_of_memory(error)) throw;
    throw muster::DoNotRetryError(advice(options));
  }
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train_within_limit); }
