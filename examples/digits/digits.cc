// Hand-written digits with a small convolutional network: data-parallel training in C++ on the
// Muster trainer SDK. Runs alone, under torchrun, and under `jobctl run -n 2 --
// build/bin/examples/digits`. README.md beside this file explains the recipe.
#include <muster/trainer.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "digit_data.h"

namespace {

constexpr int64_t kNoticeSteps = 8;  // between two looks for a stop or checkpoint notice

struct Options {
  int64_t epochs = 40;
  int64_t batch = 0;  // samples per step, over all ranks together; 0: 32, rounded up to a multiple
  double lr = 2e-3;
  int64_t seed = 1;
  std::string data = digits::default_data_path();
  int64_t checkpoint_every = 1;  // epochs; 0: never
  int64_t keep = 3;
  int64_t step_delay_ms = 0;  // slows training down, to try out faults by hand
  std::string checkpoint_dir;
  std::string metrics_file;
};

constexpr char kUsage[] =
    "usage: digits [--epochs N] [--batch N] [--lr X] [--seed N] [--data FILE]\n"
    "              [--checkpoint-every EPOCHS] [--keep N] [--checkpoint-dir DIR]\n"
    "              [--metrics-file FILE] [--step-delay-ms N]\n";

template <typename Number>
Number parse_number(const std::string& flag, const std::string& text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    throw muster::DoNotRetryError(flag + " " + text + ": expected a number of at least " +
                                  std::to_string(least));
  }
  return value;
}

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--help") {
      std::printf("%s", kUsage);
      std::exit(0);
    }
    if (i + 1 == argc) throw muster::DoNotRetryError(flag + " needs a value\n" + kUsage);
    const std::string value = argv[i + 1];
    const auto whole = [&](int64_t least) { return parse_number<int64_t>(flag, value, least); };
    if (flag == "--epochs")
      options.epochs = whole(1);
    else if (flag == "--batch")
      options.batch = whole(1);
    else if (flag == "--lr")
      options.lr = parse_number<double>(flag, value, 0.0);
    else if (flag == "--seed")
      options.seed = whole(0);
    else if (flag == "--data")
      options.data = value;
    else if (flag == "--checkpoint-every")
      options.checkpoint_every = whole(0);
    else if (flag == "--keep")
      options.keep = whole(0);
    else if (flag == "--checkpoint-dir")
      options.checkpoint_dir = value;
    else if (flag == "--metrics-file")
      options.metrics_file = value;
    else if (flag == "--step-delay-ms")
      options.step_delay_ms = whole(0);
    else
      throw muster::DoNotRetryError("unknown option " + flag + "\n" + kUsage);
  }
  return options;
}

// 8x8 grey image -> two 3x3 convolutions -> 2x2 pooling -> two linear layers.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    using torch::nn::Conv2dOptions;
    conv1 = register_module("conv1", torch::nn::Conv2d(Conv2dOptions(1, 32, 3).padding(1)));
    conv2 = register_module("conv2", torch::nn::Conv2d(Conv2dOptions(32, 64, 3).padding(1)));
    hidden = register_module("hidden", torch::nn::Linear(64 * 4 * 4, 128));
    output = register_module("output", torch::nn::Linear(128, 10));
    dropout = register_module("dropout", torch::nn::Dropout(0.4));
  }

  // images: float [samples, 1, 8, 8]; result: logits, float [samples, 10].
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = torch::relu(conv1(images));
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = dropout(torch::relu(hidden(dropout(x.flatten(1)))));
    return output(x);
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear hidden{nullptr}, output{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

struct Split {
  at::Tensor images;  // float [rows, 1, 8, 8]
  at::Tensor labels;  // int64 [rows]
};

Split slice(const digits::DigitRows& rows, int64_t begin, int64_t end, at::Device device) {
  at::Tensor images = torch::tensor(rows.pixels).view({rows.rows(), 1, 8, 8});
  at::Tensor labels = torch::tensor(rows.labels);
  return {images.slice(0, begin, end).to(device), labels.slice(0, begin, end).to(device)};
}

// Moves each image by -1, 0 or 1 pixels in both directions, filling with background.
at::Tensor shift_randomly(const at::Tensor& images) {
  const at::Tensor padded = torch::constant_pad_nd(images, {1, 1, 1, 1}, 0);
  const int64_t count = images.size(0);
  const at::Tensor shifts = torch::randint(0, 3, {count, 2, 1}, at::kLong).to(images.device());
  const at::Tensor range = torch::arange(8, shifts.options()).view({1, 8});
  const at::Tensor rows = (shifts.select(1, 0) + range).view({count, 8, 1});
  const at::Tensor columns = (shifts.select(1, 1) + range).view({count, 1, 8});
  const at::Tensor sample = torch::arange(count, shifts.options()).view({count, 1, 1});
  return padded.squeeze(1).index({sample, rows, columns}).unsqueeze(1);
}

// Accuracy on the held-out rows: each rank takes a part, the counts are added up.
double evaluate(muster::Accelerator& accelerator, muster::PreparedModel<Net>& model,
                const Split& held_out) {
  const torch::NoGradGuard no_grad;
  model.eval();
  const auto [begin, end] = muster::shard_range(
      held_out.labels.size(0), accelerator.process_index(), accelerator.num_processes());
  const at::Tensor logits = model(held_out.images.slice(0, begin, end));
  const auto correct =
      logits.argmax(1).eq(held_out.labels.slice(0, begin, end)).sum().item<double>();
  model.train();
  return accelerator.reduce(correct, muster::Reduction::sum) /
         static_cast<double>(held_out.labels.size(0));
}

// Cosine from the full rate to a hundredth of it, per epoch: a pure function, nothing to restore.
double learning_rate(const Options& options, int64_t epoch) {
  const double done = static_cast<double>(epoch) / static_cast<double>(options.epochs);
  return options.lr * (0.01 + 0.99 * 0.5 * (1 + std::cos(M_PI * done)));
}

// What each rank takes of a batch that all share.
int64_t share_batch(int64_t batch, int64_t ranks) {
  if (batch == 0) return (32 + ranks - 1) / ranks;
  if (batch % ranks == 0) return batch / ranks;
  throw muster::DoNotRetryError("--batch " + std::to_string(batch) + " cannot be shared by " +
                                std::to_string(ranks) + " ranks: use a multiple of it");
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
                      .keep_checkpoints = static_cast<int>(options.keep),
                      .metrics_file = options.metrics_file}),
        rows_(digits::read_digits(options.data)),
        train_(slice(rows_, 0, digits::kTrainRows, accelerator_.device())),
        held_out_(slice(rows_, digits::kTrainRows, rows_.rows(), accelerator_.device())),
        batch_per_rank_(share_batch(options.batch, accelerator_.num_processes())),
        saves_(options.checkpoint_every > 0 && !accelerator_.checkpoint_dir().empty()) {}

  int run();

 private:
  void train_epoch(muster::PreparedModel<Net>& model, muster::PreparedOptimizer& optimizer);
  void finish_epoch(muster::PreparedModel<Net>& model, double samples_per_s);
  void add_up_losses();
  void save();

  const Options options_;
  muster::Accelerator accelerator_;
  const digits::DigitRows rows_;
  const Split train_;
  const Split held_out_;
  const int64_t batch_per_rank_;
  const bool saves_;
  std::shared_ptr<muster::ShardedSampler> sampler_;
  Progress progress_;        // equal on all ranks
  double own_loss_sum_ = 0;  // of this rank, since the last add_up_losses()
  double own_samples_ = 0;
  bool stopping_ = false;
};

void Training::train_epoch(muster::PreparedModel<Net>& model,
                           muster::PreparedOptimizer& optimizer) {
  for (auto& group : optimizer.unwrap().param_groups()) {
    group.options().set_lr(learning_rate(options_, sampler_->epoch()));
  }
  using torch::nn::functional::cross_entropy;
  const auto smoothing = torch::nn::CrossEntropyLossOptions().label_smoothing(0.1);
  while (auto batch = sampler_->next_batch()) {
    const at::Tensor indices = torch::tensor(*batch).to(accelerator_.device());
    const at::Tensor images = shift_randomly(train_.images.index_select(0, indices));
    const at::Tensor labels = train_.labels.index_select(0, indices);
    optimizer.zero_grad();
    const at::Tensor loss = cross_entropy(model(images), labels, smoothing);
    accelerator_.backward(loss);
    optimizer.step();

    ++progress_.step;
    own_loss_sum_ += loss.item<double>() * static_cast<double>(labels.size(0));
    own_samples_ += static_cast<double>(labels.size(0));
    if (options_.step_delay_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.step_delay_ms));
    }
    // Asking the other ranks costs a small all-reduce: not at every step.
    if (progress_.step % kNoticeSteps != 0) continue;
    if (accelerator_.should_stop()) {
      stopping_ = true;
      return;
    }
    if (accelerator_.should_checkpoint()) save();
  }
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
    // All ranks got it. The last checkpoint is still there, and hours of training are worth more
    // than this one.
    if (accelerator_.is_main_process()) {
      accelerator_.print(std::string("checkpoint not saved: ") + error.what());
    }
  }
}

void Training::finish_epoch(muster::PreparedModel<Net>& model, double samples_per_s) {
  const double accuracy = evaluate(accelerator_, model, held_out_);
  add_up_losses();
  const double loss = progress_.loss_sum / progress_.samples;
  const int64_t epoch = sampler_->epoch();
  char line[160];
  std::snprintf(line, sizeof(line), "epoch %2ld/%ld  loss %.4f  accuracy %.2f %%  %.0f samples/s",
                epoch, options_.epochs, loss, 100 * accuracy, samples_per_s);
  if (accelerator_.is_main_process()) accelerator_.print(line);
  accelerator_.log("loss", loss, epoch);
  accelerator_.log("accuracy", accuracy, epoch);
  accelerator_.log("samples_per_s", samples_per_s, epoch);
  accelerator_.progress(epoch, options_.epochs);
  progress_.loss_sum = progress_.samples = 0;
}

int Training::run() {
  accelerator_.set_seed(static_cast<uint64_t>(options_.seed));
  Net net;
  auto model = accelerator_.prepare(net);
  auto optimizer = accelerator_.prepare(
      torch::optim::AdamW(net->parameters(), torch::optim::AdamWOptions(options_.lr)));
  sampler_ =
      accelerator_.prepare(muster::ShardedSampler({.dataset_size = digits::kTrainRows,
                                                   .batch_size = batch_per_rank_,
                                                   .seed = static_cast<uint64_t>(options_.seed)}));
  accelerator_.register_for_checkpointing("progress", progress_.as_state());
  // Dropout and shifts must differ from rank to rank.
  accelerator_.set_seed(static_cast<uint64_t>(options_.seed) + 1'000, /*device_specific=*/true);

  if (const auto step = accelerator_.load_state(); step && accelerator_.is_main_process()) {
    accelerator_.print("resumed from step " + std::to_string(*step) + ", epoch " +
                       std::to_string(sampler_->epoch()));
  }
  while (sampler_->epoch() < options_.epochs && !stopping_) {
    const auto start = std::chrono::steady_clock::now();
    const int64_t samples_before = sampler_->position().consumed;
    train_epoch(model, optimizer);
    if (!stopping_) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      finish_epoch(model,
                   static_cast<double>(digits::kTrainRows - samples_before) / seconds.count());
    }
    const bool due = stopping_ || sampler_->epoch() == options_.epochs ||
                     sampler_->epoch() % std::max<int64_t>(options_.checkpoint_every, 1) == 0;
    if (due) save();
  }
  if (stopping_) {
    if (accelerator_.is_main_process()) {
      accelerator_.print("stopped at step " + std::to_string(progress_.step) + " as asked");
    }
    return 143;  // 128 + SIGTERM, as if the signal had ended it
  }
  const double accuracy = evaluate(accelerator_, model, held_out_);
  char line[80];
  std::snprintf(line, sizeof(line), "final accuracy on %ld held-out digits: %.2f %%",
                held_out_.labels.size(0), 100 * accuracy);
  if (accelerator_.is_main_process()) accelerator_.print(line);
  return 0;
}

int train(int argc, char** argv) { return Training(parse_options(argc, argv)).run(); }

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
