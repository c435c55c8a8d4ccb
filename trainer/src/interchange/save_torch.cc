#include <torch/nn/module.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "interchange/model_parameters.h"
#include "interchange/optimizer_options.h"
#include "interchange/torch_file_writer.h"
#include "muster/base/errors.h"
#include "muster/device/random_state.h"
#include "muster/interchange/torch_files.h"
#include "optim/optimizer_tensors.h"

namespace muster {
namespace {

constexpr const char* kFields[] = {
    "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "grad_avg", "sum"};

// Collects what the file holds, then writes it.
class Saving {
 public:
  explicit Saving(const TorchParts& parts) : parts_(parts) {
    if (parts.optimizer != nullptr && parts.model == nullptr) {
      throw std::invalid_argument(
          "save_torch: an optimizer needs its model, whose names its parameters have");
    }
    for (const char* taken : {"model", "optimizer", "scheduler", "rng_state"}) {
      if (parts.numbers.contains(taken))
        throw std::invalid_argument(std::string("save_torch: '") + taken +
                                    "' cannot be the name of a number");
    }
    if (parts.model != nullptr) model_ = named_state(*parts.model);
    if (parts.optimizer != nullptr) {
      names_ = parameter_names(*parts.model);
      state_ = optimizer_tensors(*parts.optimizer, names_);
    }
    if (parts.generator) generator_ = random_state(at::kCPU);
    for (const auto& [name, tensor] : model_) writer_.expect(tensor);
    for (const auto& [name, tensor] : state_) writer_.expect(tensor);
    writer_.expect(generator_);
  }

  void write(const std::string& path) {
    TorchPickleWriter& values = writer_.values();
    const bool is_model_alone = parts_.model != nullptr && parts_.optimizer == nullptr &&
                                parts_.scheduler == nullptr && !parts_.generator &&
                                parts_.numbers.empty();
    if (is_model_alone) {
      write_model();
      return writer_.finish(path);
    }
    values.begin_dict();
    if (parts_.model != nullptr) {
      values.text("model");
      write_model();
    }
    if (parts_.optimizer != nullptr) {
      values.text("optimizer");
      write_optimizer(*parts_.optimizer);
    }
    if (parts_.scheduler != nullptr) {
      values.text("scheduler");
      write_scheduler(*parts_.scheduler);
    }
    if (parts_.generator) tensor("rng_state", generator_);
    for (const auto& [name, number] : parts_.numbers) integer(name, number);
    values.end_dict();
    writer_.finish(path);
  }

 private:
  // ---- a key with its value ----

  void integer(const std::string& key, int64_t value) {
    writer_.values().text(key);
    writer_.values().integer(value);
  }
  void real(const std::string& key, double value) {
    writer_.values().text(key);
    writer_.values().real(value);
  }
  void boolean(const std::string& key, bool value) {
    writer_.values().text(key);
    writer_.values().boolean(value);
  }
  // None: Python chooses.
  void flag(const std::string& key, std::optional<bool> value) {
    writer_.values().text(key);
    value.has_value() ? writer_.values().boolean(*value) : writer_.values().none();
  }
  void tensor(const std::string& key, const at::Tensor& value) {
    writer_.values().text(key);
    writer_.tensor(key, value);
  }
  void reals(const std::string& key, const std::vector<double>& numbers) {
    writer_.values().text(key);
    writer_.values().begin_list();
    for (const double number : numbers) writer_.values().real(number);
    writer_.values().end_list();
  }

  // ---- the parts ----

  void write_model() {
    writer_.values().begin_ordered_dict();
    for (const auto& [name, value] : model_) tensor(name, value);
    writer_.values().end_dict();
  }

  void write_optimizer(torch::optim::Optimizer& optimizer) {
    TorchPickleWriter& values = writer_.values();
    values.begin_dict();
    values.text("state");
    values.begin_dict();
    int64_t position = 0;
    auto& groups = optimizer.param_groups();
    for (size_t g = 0; g < groups.size(); ++g) {
      const GroupOptions options = group_options(optimizer, g);
      for (const at::Tensor& parameter : groups[g].params())
        write_state(position++, parameter, options);
    }
    values.end_dict();
    values.text("param_groups");
    values.begin_list();
    position = 0;
    for (size_t g = 0; g < groups.size(); ++g) write_group(optimizer, g, position);
    values.end_list();
    values.end_dict();
  }

  const std::string& name_of(const at::Tensor& parameter) const {
    const auto found = names_.find(parameter.unsafeGetTensorImpl());
    if (found != names_.end()) return found->second;
    throw CheckpointError(
        "save_torch: the optimizer has a parameter that the model does not (a sharded optimizer "
        "has "
        "shards; save_state writes those)");
  }

  void write_state(int64_t position, const at::Tensor& parameter, const GroupOptions& options) {
    TorchPickleWriter& values = writer_.values();
    const std::string& name = name_of(parameter);
    std::vector<std::pair<std::string, at::Tensor>> fields;
    // Python counts in float32.
    if (const auto step = state_.find("step/" + name); step != state_.end())
      fields.emplace_back("step", step->second.to(at::kFloat));
    for (const char* field : kFields) {
      const auto found = state_.find(std::string(field) + "/" + name);
      if (found != state_.end()) fields.emplace_back(field, found->second);
    }
    if (fields.empty() && options.initial_sum.has_value()) {
      fields.emplace_back("step", at::zeros({}));
      fields.emplace_back("sum", at::full_like(parameter.detach(), *options.initial_sum));
    }
    if (fields.empty()) return;
    values.integer(position);
    values.begin_dict();
    for (const auto& [field, value] : fields) tensor(field, value);
    values.end_dict();
  }

  void write_group(torch::optim::Optimizer& optimizer, size_t group, int64_t& position) {
    TorchPickleWriter& values = writer_.values();
    const GroupOptions options = group_options(optimizer, group);
    values.begin_dict();
    for (const GroupOption& option : options.options) write_option(option);
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[group].params();
    write_implementation(options, parameters);
    boolean("differentiable", false);
    if (options.has_capturable) boolean("capturable", false);
    if (options.decoupled.has_value()) boolean("decoupled_weight_decay", *options.decoupled);
    if (parts_.scheduler != nullptr) {
      const std::vector<PythonScheduleState> states = schedule_states(*parts_.scheduler);
      for (const auto& [name, value] : states.at(group).group) real(name, value);
    }
    values.text("params");
    values.begin_list();
    for (size_t i = 0; i < parameters.size(); ++i) values.integer(position++);
    values.end_list();
    values.text("param_names");
    values.begin_list();
    for (const at::Tensor& parameter : parameters) values.text(name_of(parameter));
    values.end_list();
    values.end_dict();
  }

  // What steps them now: with another implementation the last bits would be others.
  void write_implementation(const GroupOptions& options,
                            const std::vector<at::Tensor>& parameters) {
    const Implementation chosen =
        options.implementation == nullptr ? Implementation::plain : *options.implementation;
    const bool can_fuse =
        std::all_of(parameters.begin(), parameters.end(), [](const at::Tensor& each) {
          return each.is_floating_point() && (each.is_cpu() || each.is_cuda()) &&
                 !(each.grad().defined() && each.grad().is_sparse());
        });
    const bool is_fused = chosen == Implementation::fused ||
                          (chosen == Implementation::automatic && can_fuse && !parameters.empty());
    flag("fused", is_fused ? std::optional(true) : std::nullopt);
    // False: plain, also on a GPU.
    flag("foreach", is_fused ? std::nullopt : std::optional(chosen != Implementation::plain));
  }

  void write_option(const GroupOption& option) {
    TorchPickleWriter& values = writer_.values();
    const auto pair = [&](double first, double second) {
      values.text(option.name);
      values.begin_tuple();
      values.real(first);
      values.real(second);
      values.end_tuple();
    };
    if (const auto* number = std::get_if<double*>(&option.value)) real(option.name, **number);
    if (const auto* flag = std::get_if<bool*>(&option.value)) boolean(option.name, **flag);
    if (const auto* both = std::get_if<std::pair<double, double>*>(&option.value))
      pair((*both)->first, (*both)->second);
    if (const auto* both = std::get_if<std::tuple<double, double>*>(&option.value))
      pair(std::get<0>(**both), std::get<1>(**both));
  }

  // By group; each has its initial_lr.
  static std::vector<PythonScheduleState> schedule_states(const LrScheduler& scheduler) {
    const at::Tensor bases = scheduler.state().at("base_lrs");
    std::vector<PythonScheduleState> states;
    for (int64_t i = 0; i < bases.numel(); ++i) {
      const double base = bases[i].item<double>();
      states.push_back(scheduler.schedule().python_state(scheduler.last_step(), base));
      states.back().group.try_emplace("initial_lr", base);
    }
    return states;
  }

  // What LRScheduler.load_state_dict puts over a scheduler that was made with the same arguments.
  void write_scheduler(const LrScheduler& scheduler) {
    TorchPickleWriter& values = writer_.values();
    const TensorMap state = scheduler.state();
    const std::vector<PythonScheduleState> states = schedule_states(scheduler);
    values.begin_dict();
    integer("last_epoch", scheduler.last_step());
    integer("_step_count", scheduler.last_step() + 1);
    boolean("_get_lr_called_within_step", false);
    std::vector<double> initial;
    for (const PythonScheduleState& each : states) initial.push_back(each.group.at("initial_lr"));
    reals("base_lrs", initial);
    reals("_last_lr", scheduler.get_last_lr());
    if (!states.empty()) {
      for (const auto& [name, count] : states[0].counters) integer(name, count);
    }
    if (scheduler.schedule().plateau().has_value()) {
      real("best", state.at("best").item<double>());
      integer("num_bad_epochs", state.at("num_bad_epochs").item<int64_t>());
      integer("cooldown_counter", state.at("cooldown_counter").item<int64_t>());
    }
    // LambdaLR wants its functions' states: none of them has one.
    values.text("lr_lambdas");
    values.begin_list();
    for (size_t i = 0; i < states.size(); ++i) values.none();
    values.end_list();
    values.end_dict();
  }

  const TorchParts& parts_;
  TorchFileWriter writer_;
  std::vector<std::pair<std::string, at::Tensor>> model_;
  ParameterNames names_;
  TensorMap state_;
  at::Tensor generator_;
};

}  // namespace

void save_torch(const std::string& path, const TorchParts& parts) { Saving(parts).write(path); }

}  // namespace muster
