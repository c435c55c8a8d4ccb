// Handwritten digits with a small convolutional network: data-parallel training in C++ on the
// Muster trainer SDK. Runs alone, under torchrun, and with `jobctl run -n 2 --
// build/bin/examples/digits`. README.md explains the recipe; train.py does the same steps on
// Accelerate.
#include <muster/trainer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "examples/common/command_line.h"
#include "examples/common/gzip_text.h"
#include "examples/digits/digit_data.h"
#include "examples/digits/net.h"

namespace {

constexpr int64_t kNoticeSteps = 8;  // between checks for a stop or checkpoint notice

struct Options {
  int64_t epochs = 40;
  int64_t batch = 0;  // samples per step, over all ranks; 0: 32, rounded up to a multiple
  double lr = 2e-3;
  int64_t seed = 1;
  bool in_order = false;
  std::string data = examples::find_data("optdigits.csv.gz");
  int64_t checkpoint_every = 1;  // epochs; 0: never
  int64_t keep = 3;
  int64_t step_delay_ms = 0;  // slows training down, to try out failures by hand
  std::string checkpoint_dir;
  std::string metrics_file;
};

Options parse_options(int argc, char** argv) {
  Options options;
  examples::CommandLine line("digits");
  line.add("--epochs", &options.epochs, 1, "passes over the training digits");
  line.add("--batch", &options.batch, 1, "digits per step over all ranks; 0: about 32");
  line.add("--lr", &options.lr, 0.0, "initial learning rate");
  line.add("--seed", &options.seed, 0, "for weights, order, dropout and shifts");
  line.add("--in-order", &options.in_order, "read digits in file order, for comparisons");
  line.add("--data", &options.data, "the digits file");
  line.add("--checkpoint-every", &options.checkpoint_every, 0, "epochs between them; 0: none");
  line.add("--keep", &options.keep, 0, "checkpoints to keep; 0: all");
  line.add("--checkpoint-dir", &options.checkpoint_dir, "where they go without a worker");
  line.add("--metrics-file", &options.metrics_file, "append metrics as JSON lines");
  line.add("--step-delay-ms", &options.step_delay_ms, 0, "wait after each step");
  line.parse(argc, argv);
  return options;
}

// Each rank's share of the global batch.
int64_t share_batch(int64_t batch, int64_t ranks) {
  if (batch == 0) return (32 + ranks - 1) / ranks;
  if (batch % ranks == 0) return batch / ranks;
  throw muster::DoNotRetryError("--batch " + std::to_string(batch) + " cannot be split over " +
                                std::to_string(ranks) + " ranks: use a multiple");
}

// Images float [rows, 1, 8, 8] and labels int64 [rows].
muster::TensorDataset<std::array<at::Tensor, 2>> dataset(const digits::DigitRows& rows,
                                                         int64_t begin, int64_t end) {
  const at::Tensor images = torch::tensor(rows.pixels).view({rows.rows(), 1, 8, 8});
  return {images.slice(0, begin, end), torch::tensor(rows.labels).slice(0, begin, end)};
}

// Accuracy on the held-out digits, each counted once.
template <typename Model, typename Loader>
double evaluate(muster::Accelerator& accelerator, Model& model, Loader& loader) {
  const torch::NoGradGuard no_grad;
  model.eval();
  std::vector<at::Tensor> right;
  for (auto& [images, labels] : loader) {
    right.push_back(accelerator.gather_for_metrics(model(images).argmax(1).eq(labels)));
  }
  model.train();
  return torch::cat(right).to(at::kDouble).mean().item<double>();
}

// Where the run is and the sums of the running epoch over all ranks; they travel with the
// checkpoint, so that a run that stops in the middle of an epoch still prints the epoch's true mean
// afterwards.
struct Progress {
  int64_t step = 0;
  double loss_sum = 0;
  double samples = 0;

  muster::CustomState as_state() {
    return {[this] {
              return muster::TensorMap{{"step", torch::tensor(step)},
                                       {"sums", torch::tensor({loss_sum, samples}, at::kDouble)}};
            },
            [this](const muster::TensorMap& saved) {
              step = saved.at("step").item<int64_t>();
              loss_sum = saved.at("sums")[0].item<double>();
              samples = saved.at("sums")[1].item<double>();
            }};
  }
};

class Training {
 public:
  explicit Training(const Options& options)
      : options_(options),
        accelerator_({.checkpoint_dir = options.checkpoint_dir,
                      .checkpoint = {.policy = {.keep_last = static_cast<int>(options.keep)}},
                      .metrics_file = options.metrics_file}),
        saves_(options.checkpoint_every > 0 && !accelerator_.checkpoint_dir().empty()) {
    accelerator_.register_for_checkpointing("progress", progress_.as_state());
  }

  int run();

 private:
  void finish_step(double loss, int64_t samples);
  void finish_epoch(int64_t epoch, double accuracy, double samples_per_s);
  void add_up_losses();
  void save();
  void say(const std::string& line) {
    if (accelerator_.is_main_process()) accelerator_.print(line);
  }

  const Options options_;
  muster::Accelerator accelerator_;
  const bool saves_;
  Progress progress_;  // equal on all ranks
  int64_t steps_total_ = 0;
  double own_loss_sum_ = 0;  // of this rank, since the last add_up_losses()
  double own_samples_ = 0;
  bool stopping_ = false;
};

int Training::run() {
  const digits::DigitRows rows = digits::read_digits(options_.data);
  const int64_t batch = share_batch(options_.batch, accelerator_.num_processes());
  const auto seed = static_cast<uint64_t>(options_.seed);
  accelerator_.set_seed(seed);
  digits::Net net;
  auto [model, optimizer, loader, held_out] = accelerator_.prepare(
      net, muster::AdamW(net->parameters(), {.lr = options_.lr}),
      muster::DataLoader(dataset(rows, 0, digits::kTrainRows),
                         {.batch_size = batch, .shuffle = !options_.in_order, .seed = seed}),
      muster::DataLoader(dataset(rows, digits::kTrainRows, rows.rows()), {.batch_size = 128}));
  steps_total_ = options_.epochs * loader.size();
  auto scheduler = accelerator_.prepare(
      muster::cosine_schedule({.total_steps = steps_total_, .min_lr_ratio = 0.01}));
  // Dropout and shifts must differ between ranks.
  accelerator_.set_seed(seed + 1'000, /*device_specific=*/true);

  if (const auto step = accelerator_.load_state()) {
    say("resumed from step " + std::to_string(*step) + ", epoch " + std::to_string(loader.epoch()));
  }
  const auto smoothing = torch::nn::CrossEntropyLossOptions().label_smoothing(0.1);
  while (loader.epoch() < options_.epochs && !stopping_) {
    const auto start = std::chrono::steady_clock::now();
    const int64_t samples = digits::kTrainRows - loader.position().consumed;
    for (auto& [images, labels] : loader) {
      const at::Tensor loss = torch::nn::functional::cross_entropy(
          model(digits::shift_randomly(images)), labels, smoothing);
      accelerator_.backward(loss);
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
      finish_step(loss.item<double>(), labels.size(0));
      if (stopping_) break;
    }
    if (!stopping_) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      finish_epoch(loader.epoch(), evaluate(accelerator_, model, held_out),
                   static_cast<double>(samples) / seconds.count());
    }
    const bool due = stopping_ || loader.epoch() == options_.epochs ||
                     loader.epoch() % std::max<int64_t>(options_.checkpoint_every, 1) == 0;
    if (due) save();
  }
  if (stopping_) {
    say("stopped at step " + std::to_string(progress_.step) + " as requested");
    return 143;  // 128 + SIGTERM, as if the signal had killed it
  }
  char line[80];
  std::snprintf(line, sizeof(line), "final accuracy on %ld held-out digits: %.2f %%",
                held_out.dataset_size(), 100 * evaluate(accelerator_, model, held_out));
  say(line);
  return 0;
}

void Training::finish_step(double loss, int64_t samples) {
  ++progress_.step;
  own_loss_sum_ += loss * static_cast<double>(samples);
  own_samples_ += static_cast<double>(samples);
  if (options_.step_delay_ms > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(options_.step_delay_ms));
  }
  // The check costs a small all-reduce, so it is not done at every step.
  if (progress_.step % kNoticeSteps != 0) return;
  stopping_ = accelerator_.should_stop();
  if (!stopping_ && accelerator_.should_checkpoint()) save();
}

void Training::finish_epoch(int64_t epoch, double accuracy, double samples_per_s) {
  add_up_losses();
  const double loss = progress_.loss_sum / progress_.samples;
  char line[160];
  std::snprintf(line, sizeof(line), "epoch %2ld/%ld  loss %.4f  accuracy %.2f %%  %.0f samples/s",
                epoch, options_.epochs, loss, 100 * accuracy, samples_per_s);
  say(line);
  accelerator_.log({{"loss", loss}, {"accuracy", accuracy}, {"samples_per_s", samples_per_s}},
                   epoch);
  accelerator_.progress(progress_.step, steps_total_);
  progress_.loss_sum = progress_.samples = 0;
}

void Training::add_up_losses() {
  progress_.loss_sum += accelerator_.reduce(own_loss_sum_, muster::Reduction::sum);
  progress_.samples += accelerator_.reduce(own_samples_, muster::Reduction::sum);
  own_loss_sum_ = own_samples_ = 0;
}

void Training::save() {
  add_up_losses();
  if (!saves_) return;
  try {
    accelerator_.save_state(progress_.step);
  } catch (const muster::CheckpointError& error) {
    // All ranks get this error. The last checkpoint is intact, and training is worth more than this
    // one.
    say(std::string("checkpoint not saved: ") + error.what());
  }
}

int train(int argc, char** argv) { return Training(parse_options(argc, argv)).run(); }

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
