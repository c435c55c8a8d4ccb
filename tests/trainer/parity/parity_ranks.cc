// The C++ side of the parity tests: parity_ranks CASES INPUTS OUTPUTS CASE trains one case of CASES
// (cases.json) and records each micro-batch in OUTPUTS/CASE.muster.RANK.json. parity_twin.py is the
// same program on Hugging Face Accelerate and documents the format. The resume tests run it too: a
// case may name a checkpoint to resume from, and when to save. So do the sharding tests: a case may
// have "sharding".
#include <muster/optim/ema.h>
#include <muster/trainer.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "parity/case_options.h"
#include "parity/models.h"

namespace {

using nlohmann::json;

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%a", value);
  return text;
}

json read_json(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

json find_case(const std::string& path, const std::string& name) {
  for (const json& one : read_json(path)) {
    if (one.at("name") == name) return one;
  }
  throw muster::DoNotRetryError(path + " has no case " + name);
}

// A number that changes when one bit of the tensors does.
std::string fingerprint(const std::vector<at::Tensor>& tensors) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    const auto* data = static_cast<const unsigned char*>(bytes.const_data_ptr());
    for (size_t i = 0; i < bytes.nbytes(); ++i) hash = (hash ^ data[i]) * 0x100000001b3ULL;
  }
  return std::to_string(hash);
}

class Run {
 public:
  Run(const json& one, const std::string& inputs)
      : case_(one), model_name_(one.at("model")), accelerator_(parity::accelerator_options(one)) {
    net_ = parity::make_model(model_name_);
    load_weights(inputs + "/" + model_name_ + ".safetensors");
    note_formula();
    const bool characters = model_name_.starts_with("transformer");
    const std::string kind = characters ? "characters" : "digits";
    const muster::TensorMap data = muster::load_safetensors(inputs + "/data.safetensors");
    const int64_t samples = one.value("samples", 1000);
    loader_.emplace(accelerator_.prepare(
        muster::DataLoader(muster::TensorDataset(data.at(kind + ".inputs").slice(0, 0, samples),
                                                 data.at(kind + ".labels").slice(0, 0, samples)),
                           {.batch_size = one.at("batch"),
                            .shuffle = one.value("shuffle", false),
                            .seed = 7,
                            .drop_last = one.value("drop_last", false),
                            .num_workers = one.value("num_workers", 0)})));
    accelerator_.register_for_checkpointing(
        "done",
        {[this] {
           return muster::TensorMap{{"done", torch::tensor(done_)}};
         },
         [this](const muster::TensorMap& saved) { done_ = saved.at("done").item<int64_t>(); }});
    for (const char* name : {"loss", "lr", "norm", "scale", "skipped", "samples", "synced"}) {
      seen_[name] = json::array();
    }
  }

  virtual ~Run() = default;

  virtual void prepare() {
    model_.emplace(accelerator_.prepare(net_));
    optimizer_.emplace(parity::prepare_optimizer(accelerator_, net_->parameters(), case_));
    if (case_.contains("schedule")) {
      scheduler_.emplace(accelerator_.prepare(parity::schedule_of(case_.at("schedule"))));
    }
    if (case_.contains("ema")) {
      average_.emplace(net_->parameters(), muster::EmaOptions{.decay = case_.at("ema")});
      accelerator_.register_for_checkpointing("average", *average_);
    }
  }

  void train() {
    accelerator_.set_seed(case_.value("seed", 5), /*device_specific=*/true);
    if (case_.contains("resume_from")) accelerator_.load_state();
    seen_["first"] = done_;
    const int64_t steps = case_.at("steps");
    const json save_at = case_.value("save_at", json::array());
    while (done_ < steps) {
      for (auto& [inputs, labels] : loader_->rest()) {
        micro_batch(inputs, labels);
        if (std::find(save_at.begin(), save_at.end(), done_) != save_at.end()) {
          accelerator_.save_state(done_);
        }
        if (done_ == steps) break;
      }
    }
    if (case_.value("save_at_end", false)) accelerator_.save_state(done_);
    note_end();
    seen_["buffers"] = fingerprint(net_->buffers());
    if (average_) {
      std::vector<at::Tensor> tensors;
      for (const auto& [name, tensor] : average_->state()) tensors.push_back(tensor);
      seen_["average"] = fingerprint(tensors);
    }
    seen_["random"] = fingerprint({torch::rand({8})});
  }

  void write(const std::string& directory) const {
    const std::string rank = std::to_string(accelerator_.process_index());
    std::ofstream file(directory + "/" + case_.at("name").get<std::string>() + ".muster." + rank +
                       ".json");
    file << seen_;
  }

 protected:
  using Loader = muster::DataLoader<muster::TensorDataset<std::array<at::Tensor, 2>>>;

  void load_weights(const std::string& path) {
    const torch::NoGradGuard no_grad;
    const muster::TensorMap weights = muster::load_safetensors(path);
    for (auto& item : net_->named_parameters()) item.value().copy_(weights.at(item.key()));
    for (auto& item : net_->named_buffers()) item.value().copy_(weights.at(item.key()));
  }

  virtual void micro_batch(const at::Tensor& inputs, const at::Tensor& labels) {
    {
      auto window = accelerator_.accumulate(*model_);
      at::Tensor loss = parity::loss_of(*model_, model_name_, inputs, labels, done_);
      seen_["loss"].push_back(exact(loss.item<double>()));
      seen_["samples"].push_back(inputs.size(0));
      if (case_.value("die_at", int64_t{-1}) == done_ && accelerator_.is_last_process()) {
        ::raise(SIGKILL);
      }
      if (overflows() && accelerator_.is_last_process()) {
        loss = loss * std::numeric_limits<double>::infinity();
      }
      accelerator_.backward(loss);
      clip();
      optimizer_->step();
      step_scheduler(loss);
      if (accelerator_.sync_gradients()) note_memory();
      optimizer_->zero_grad();
      if (average_ && accelerator_.sync_gradients()) average_->update();
    }
    note_step();
  }

  virtual void note_end() {
    const muster::FullParameters whole(model_->frame());
    seen_["end"] = fingerprint(net_->parameters());
  }

  void note_step() {
    seen_["synced"].push_back(accelerator_.sync_gradients() ? 1 : 0);
    seen_["lr"].push_back(exact(optimizer_->param_groups()[0].options().get_lr()));
    seen_["skipped"].push_back(accelerator_.optimizer_step_was_skipped() ? 1 : 0);
    if (accelerator_.scaler() != nullptr) {
      seen_["scale"].push_back(exact(accelerator_.scaler()->get_scale()));
    }
    ++done_;
  }

  // This rank's figures from memory_estimate.h.
  void note_formula() {
    const auto estimate = muster::estimate_memory(
        muster::memory_plan(*net_, accelerator_.options().sharding, accelerator_.num_processes()));
    seen_["formula"] = {{"parameters", estimate.parameters},
                        {"gradients", estimate.gradients},
                        {"optimizer_state", estimate.optimizer_state},
                        {"gathered_peak", estimate.gathered}};
  }

  void note_memory() {
    const muster::MemoryUsage usage = accelerator_.memory_usage();
    seen_["memory"] = {{"parameters", usage.parameters},
                       {"gradients", usage.gradients},
                       {"optimizer_state", usage.optimizer_state},
                       {"gathered_peak", usage.gathered_peak},
                       {"gradients_peak", usage.gradients_peak}};
  }

  bool overflows() const {
    const json at = case_.value("overflow_at", json::array());
    return std::find(at.begin(), at.end(), done_) != at.end();
  }

  void clip() {
    if (!accelerator_.sync_gradients()) return;
    if (case_.contains("clip_norm")) {
      const at::Tensor norm =
          accelerator_.clip_grad_norm_(net_->parameters(), case_.at("clip_norm"));
      seen_["norm"].push_back(exact(norm.item<double>()));
    }
    if (case_.contains("clip_value")) {
      accelerator_.clip_grad_value_(net_->parameters(), case_.at("clip_value"));
    }
  }

  void step_scheduler(const at::Tensor& loss) {
    if (!scheduler_) return;
    if (case_.at("schedule").at("name") == "plateau") {
      scheduler_->step(accelerator_.reduce(loss.detach()).item<double>());
    } else {
      scheduler_->step();
    }
  }

  const json case_;
  const std::string model_name_;
  muster::Accelerator accelerator_;
  parity::Net net_;
  std::optional<muster::PreparedModel<parity::Net>> model_;
  std::optional<muster::PreparedOptimizer> optimizer_;
  std::optional<Loader> loader_;
  std::optional<muster::PreparedScheduler> scheduler_;
  std::optional<muster::ExponentialMovingAverage> average_;
  json seen_;
  int64_t done_ = 0;
};

at::Tensor real_loss(const at::Tensor& logits, bool is_real) {
  return torch::nn::functional::binary_cross_entropy_with_logits(
      logits, torch::full_like(logits, is_real ? 1.0 : 0.0));
}

// Two models, two optimizers, two backwards in each micro-batch; records only the generator's.
class GanRun : public Run {
 public:
  using Run::Run;

  void prepare() override {
    const auto child = [this](const char* name) {
      return parity::Perceptron(
          std::dynamic_pointer_cast<parity::PerceptronImpl>(net_->named_children()[name]));
    };
    generator_.emplace(accelerator_.prepare(child("generator")));
    discriminator_.emplace(accelerator_.prepare(child("discriminator")));
    optimizer_.emplace(
        parity::prepare_optimizer(accelerator_, child("generator")->parameters(), case_));
    rival_.emplace(
        parity::prepare_optimizer(accelerator_, child("discriminator")->parameters(), case_));
  }

 private:
  void micro_batch(const at::Tensor& inputs, const at::Tensor&) override {
    const at::Tensor images = inputs.flatten(1);
    const int64_t count = images.size(0);
    {
      auto window = accelerator_.accumulate(*generator_, *discriminator_);
      const at::Tensor fakes = (*generator_)(torch::randn({count, 16}));
      const at::Tensor judged = (*discriminator_)(torch::cat({images, fakes.detach()}));
      const at::Tensor told =
          real_loss(judged.slice(0, 0, count), true) + real_loss(judged.slice(0, count), false);
      accelerator_.backward(told);
      rival_->step();
      rival_->zero_grad();
      const at::Tensor loss = real_loss((*discriminator_)(fakes), true);
      accelerator_.backward(loss);
      optimizer_->step();
      optimizer_->zero_grad();
      for (const at::Tensor& one : {told, loss}) seen_["loss"].push_back(exact(one.item<double>()));
      seen_["samples"].push_back(count);
    }
    note_step();
  }

  void note_end() override {
    const muster::FullParameters whole(generator_->frame()), rival(discriminator_->frame());
    seen_["end"] = fingerprint(net_->parameters());
  }

  std::optional<muster::PreparedModel<parity::Perceptron>> generator_, discriminator_;
  std::optional<muster::PreparedOptimizer> rival_;
};

// Data and weights of no meaning, for comparisons in which Accelerate has no part.
void write_inputs(const std::string& directory) {
  torch::manual_seed(1);
  constexpr int64_t kSamples = 200;
  muster::save_safetensors(directory + "/data.safetensors",
                           {{"digits.inputs", torch::rand({kSamples, 1, 8, 8})},
                            {"digits.labels", torch::randint(10, {kSamples}, at::kLong)},
                            {"characters.inputs", torch::randint(64, {kSamples, 32}, at::kLong)},
                            {"characters.labels", torch::randint(64, {kSamples, 32}, at::kLong)}});
  for (const std::string name : {"digits", "digits_plain", "norm", "norm_side", "transformer"}) {
    const parity::Net net = parity::make_model(name);
    muster::TensorMap weights;
    for (const auto& item : net->named_parameters()) weights[item.key()] = item.value().detach();
    for (const auto& item : net->named_buffers()) weights[item.key()] = item.value();
    muster::save_safetensors(directory + "/" + name + ".safetensors", weights);
  }
}

int train(int argc, char** argv) {
  torch::set_num_threads(1);
  if (argc == 3 && std::string(argv[1]) == "inputs") {
    write_inputs(argv[2]);
    return 0;
  }
  const std::string cases = argv[1], inputs = argv[2], outputs = argv[3];
  const json one = find_case(cases, argv[4]);
  std::unique_ptr<Run> run;
  if (one.at("model") == "gan") {
    run = std::make_unique<GanRun>(one, inputs);
  } else {
    run = std::make_unique<Run>(one, inputs);
  }
  run->prepare();
  run->train();
  run->write(outputs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, train); }
