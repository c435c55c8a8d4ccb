// The trainer SDK under `./dev bench trainer`; trainer_twin.py is the peer, trainer_bench.py
// compares.
//
//   bench_trainer steps MODEL BATCH WARM_UP STEPS DATA [STAGE]  training steps per second, peak
//       memory; STAGE zero1|zero2|zero3 shards the model
//   bench_trainer floor MODEL BATCH WARM_UP STEPS DATA     the same loop without the SDK on each rank, and
//       one all-reduce of all gradients
//   bench_trainer overhead MODEL BATCH BLOCKS STEPS DATA   against a bare LibTorch loop, in turns
//   bench_trainer logging BLOCKS STEPS DIRECTORY DATA      10 scalars a step against none, in turns
//   bench_trainer checkpoint DIRECTORY MILLIONS SAVES KIND the stall of a save; KIND async|blocking
//
//   bench_trainer many …, large …                          see trainer_sizes.h
//
// Started as ranks with torchrun's variables, or alone. Rank 0 prints one JSON object.
#include <muster/trainer.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "parity/models.h"
#include "trainer_clock.h"
#include "trainer_sizes.h"

namespace {

using nlohmann::json;
using Arguments = std::vector<std::string>;

constexpr double kRate = 1e-4;

double peak_rss_mb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1000;
}

struct Data {
  at::Tensor inputs, labels;
};

Data load_data(const std::string& path, const std::string& model) {
  const muster::TensorMap data = muster::load_safetensors(path);
  const std::string kind = model.starts_with("transformer") ? "characters" : "digits";
  return {data.at(kind + ".inputs"), data.at(kind + ".labels")};
}

// One model on the SDK, as a user would write it.
class Prepared {
 public:
  Prepared(muster::Accelerator& accelerator, const std::string& name, int64_t batch,
           const Data& data)
      : accelerator_(accelerator),
        name_(name),
        net_(parity::make_model(name)),
        model_(accelerator.prepare(net_)),
        optimizer_(accelerator.prepare(muster::AdamW(net_->parameters(), {.lr = kRate}))),
        loader_(accelerator.prepare(
            muster::DataLoader(muster::TensorDataset(data.inputs, data.labels),
                               {.batch_size = batch, .shuffle = true, .drop_last = true}))) {}

  // after_step(step, loss) is called after each one.
  template <typename AfterStep>
  void train(int64_t steps, AfterStep after_step) {
    int64_t done = 0;
    while (done < steps) {
      for (auto& [inputs, labels] : loader_.rest()) {
        optimizer_.zero_grad();
        const at::Tensor loss = parity::loss_of(model_, name_, inputs, labels, done);
        accelerator_.backward(loss);
        optimizer_.step();
        after_step(++done, loss);
        if (done == steps) break;
      }
    }
  }

 private:
  using Loader = muster::DataLoader<muster::TensorDataset<std::array<at::Tensor, 2>>>;

  muster::Accelerator& accelerator_;
  std::string name_;
  parity::Net net_;
  muster::PreparedModel<parity::Net> model_;
  muster::PreparedOptimizer optimizer_;
  Loader loader_;
};

// Means of the last hundred steps.
json parts_of(const muster::StepTimeSummary& times) {
  using muster::StepPart;
  const auto ms = [](const muster::TimeStatistics& of) { return of.mean * 1000; };
  return {{"forward", ms(times[StepPart::forward])},
          {"backward", ms(times[StepPart::backward])},
          {"waiting", ms(times[StepPart::communication])},
          {"optimizer", ms(times[StepPart::optimizer])},
          {"rest", ms(times.other) + ms(times[StepPart::data_wait])}};
}

json steps(const Arguments& arguments) {
  const std::string& name = arguments.at(0);
  const int64_t warm_up = std::stoll(arguments.at(2)), count = std::stoll(arguments.at(3));
  muster::ShardingOptions sharding;
  if (arguments.size() > 5) sharding.stage = muster::parse_zero_stage(arguments[5]);
  muster::Accelerator accelerator({.sharding = sharding});
  accelerator.set_seed(1);
  Prepared run(accelerator, name, std::stoll(arguments.at(1)), load_data(arguments.at(4), name));
  double first = 0, last_loss = 0;
  run.train(1, [&](int64_t, const at::Tensor&) { first = now(); });
  run.train(warm_up - 1, [](int64_t, const at::Tensor&) {});
  accelerator.wait_for_everyone();
  const double started = now();
  run.train(count, [&](int64_t step, const at::Tensor& loss) {
    if (step == count) last_loss = loss.item<double>();
  });
  const double seconds = now() - started;
  return {{"steps_per_s", static_cast<double>(count) / seconds},
          {"parts_ms", parts_of(accelerator.step_timer().summary())},
          {"first_step", first},
          {"loss", last_loss},
          {"peak_rss_mb", peak_rss_mb()}};
}

// What a user would write with LibTorch alone, with the same fused kernel.
class Bare {
 public:
  Bare(const std::string& name, int64_t batch, Data data)
      : name_(name), batch_(batch), data_(std::move(data)), net_(parity::make_model(name)) {
    parameters_ = net_->parameters();
    for (const at::Tensor& parameter : parameters_) {
      averages_.push_back(torch::zeros_like(parameter));
      squares_.push_back(torch::zeros_like(parameter));
      counts_.push_back(torch::zeros({}, at::kFloat));
    }
  }

  int64_t elements() const {
    int64_t all = 0;
    for (const at::Tensor& parameter : parameters_) all += parameter.numel();
    return all;
  }
  void train(int64_t steps) {
    const auto model = [&](const at::Tensor& inputs, bool side) {
      return net_->forward(inputs, side);
    };
    for (int64_t step = 0; step < steps; ++step) {
      if (!order_.defined() || at_ + batch_ > order_.size(0)) {
        order_ = torch::randperm(data_.inputs.size(0), at::kLong);
        at_ = 0;
      }
      const at::Tensor indices = order_.slice(0, at_, at_ + batch_);
      at_ += batch_;
      for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
      parity::loss_of(model, name_, data_.inputs.index_select(0, indices),
                      data_.labels.index_select(0, indices), step)
          .backward();
      update();
    }
  }

 private:
  void update() {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    at::_foreach_add_(counts_, 1);
    at::_fused_adamw_(parameters_, gradients, averages_, squares_, {}, counts_, kRate, 0.9, 0.999,
                      0.01, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
  }

  std::string name_;
  int64_t batch_;
  Data data_;
  parity::Net net_;
  std::vector<at::Tensor> parameters_, averages_, squares_, counts_;
  at::Tensor order_;
  int64_t at_ = 0;
};

// What a step of several ranks costs at least: the bare loop on each, and one all-reduce of all gradients.
json floor_of(const Arguments& arguments) {
  const std::string& name = arguments.at(0);
  const int64_t warm_up = std::stoll(arguments.at(2)), count = std::stoll(arguments.at(3));
  muster::Accelerator accelerator;
  Bare bare(name, std::stoll(arguments.at(1)), load_data(arguments.at(4), name));
  bare.train(warm_up);
  accelerator.wait_for_everyone();
  const double began = now();
  bare.train(count);
  const double loop = now() - began;
  const at::Tensor gradients = torch::zeros({bare.elements()});
  double reduction = 0;
  for (int64_t i = 0; i < count; ++i) {
    accelerator.wait_for_everyone();
    const double started = now();
    accelerator.reduce(gradients, muster::Reduction::mean);
    reduction += now() - started;
  }
  return {{"loop_ms", loop / static_cast<double>(count) * 1000},
          {"reduction_ms", reduction / static_cast<double>(count) * 1000}};
}

json overhead(const Arguments& arguments) {
  const std::string& name = arguments.at(0);
  const int64_t batch = std::stoll(arguments.at(1)), blocks = std::stoll(arguments.at(2));
  const int64_t count = std::stoll(arguments.at(3));
  const Data data = load_data(arguments.at(4), name);
  muster::Accelerator accelerator;
  Prepared prepared(accelerator, name, batch, data);
  Bare bare(name, batch, data);
  std::vector<double> ours, theirs;
  for (int64_t block = 0; block <= blocks; ++block) {
    const double started = now();
    prepared.train(count, [](int64_t, const at::Tensor&) {});
    const double between = now();
    bare.train(count);
    const double ended = now();
    if (block == 0) continue;  // warm-up for both
    ours.push_back((between - started) / static_cast<double>(count) * 1000);
    theirs.push_back((ended - between) / static_cast<double>(count) * 1000);
  }
  return {{"muster_ms", ours}, {"bare_ms", theirs}};
}

json logging(const Arguments& arguments) {
  const int64_t blocks = std::stoll(arguments.at(0)), count = std::stoll(arguments.at(1));
  const std::string& directory = arguments.at(2);
  muster::AcceleratorOptions options;
  options.project.project_dir = directory;
  options.log_with = {"tensorboard", "jsonl"};
  muster::Accelerator accelerator(options);
  accelerator.init_trackers("bench");
  Prepared run(accelerator, "digits", 48, load_data(arguments.at(3), "digits"));
  std::vector<double> with_ms, without_ms, calls_us;
  double calls_s = 0;
  int64_t step = 0;
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) names.push_back("scalar/" + std::to_string(i));
  const auto log_all = [&](int64_t, const at::Tensor&) {
    const double started = now();
    std::vector<muster::ScalarValue> values;
    for (const std::string& name : names) values.push_back({name, 0.1 * static_cast<double>(step)});
    accelerator.log(values, ++step);
    calls_s += now() - started;
  };
  for (int64_t block = 0; block <= blocks; ++block) {
    calls_s = 0;
    const double started = now();
    run.train(count, log_all);
    const double between = now();
    run.train(count, [](int64_t, const at::Tensor&) {});
    const double ended = now();
    if (block == 0) continue;
    with_ms.push_back((between - started) / static_cast<double>(count) * 1000);
    without_ms.push_back((ended - between) / static_cast<double>(count) * 1000);
    calls_us.push_back(calls_s / static_cast<double>(count) * 1e6);
  }
  accelerator.end_training();
  return {{"with_ms", with_ms}, {"without_ms", without_ms}, {"calls_us", calls_us}};
}

// A linear layer with this many million parameters, AdamW, one step before each save.
json checkpoint(const Arguments& arguments) {
  const std::string& directory = arguments.at(0);
  const auto width = static_cast<int64_t>(std::sqrt(std::stod(arguments.at(1)) * 1e6));
  const int64_t saves = std::stoll(arguments.at(2));
  muster::AcceleratorOptions options;
  options.checkpoint_dir = directory;
  options.checkpoint.asynchronous = arguments.at(3) == "async";
  options.checkpoint.policy.keep_last = 1;
  muster::Accelerator accelerator(options);
  torch::nn::Linear net(width, width);
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(muster::AdamW(net->parameters(), {.lr = kRate}));
  const at::Tensor inputs = torch::ones({4, width});
  std::vector<double> stalls;
  for (int64_t save = 0; save <= saves; ++save) {
    optimizer.zero_grad();
    accelerator.backward(model(inputs).pow(2).mean());
    optimizer.step();
    accelerator.wait_for_everyone();
    const double started = now();
    accelerator.save_state(save + 1);
    const double stalled = now() - started;
    accelerator.wait_for_checkpoint();
    if (save > 0) stalls.push_back(stalled);  // the first one allocates the buffers
    accelerator.wait_for_everyone();
  }
  return {{"stalls_s", stalls}};
}

int scenario(int argc, char** argv) {
  const std::map<std::string, std::function<json(const Arguments&)>> scenarios = {
      {"steps", steps},
      {"floor", floor_of},
      {"overhead", overhead},
      {"logging", logging},
      {"checkpoint", checkpoint},
      {"many", [](const Arguments& all) { return json::parse(many_tensors(all)); }},
      {"large", [](const Arguments& all) { return json::parse(large_parameter(all)); }}};
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (threads != nullptr) torch::set_num_threads(std::atoi(threads));
  const json result = scenarios.at(argv[1])(Arguments(argv + 2, argv + argc));
  const char* rank = std::getenv("RANK");
  if (rank == nullptr || std::string(rank) == "0") std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, scenario); }
