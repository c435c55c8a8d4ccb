#include <torch/nn/module.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/shown_text.h"
#include "checkpoint/mapped_tensors.h"
#include "checkpoint/source_file.h"
#include "checkpoint/torch_file.h"
#include "checkpoint/torch_weights.h"
#include "interchange/model_parameters.h"
#include "interchange/optimizer_options.h"
#include "muster/base/errors.h"
#include "muster/device/random_state.h"
#include "muster/interchange/torch_files.h"
#include "optim/optimizer_tensors.h"

namespace muster {
namespace {

using Kind = PickleValue::Kind;

constexpr char kAddNames[] =
    "; fix: in Python, before optimizer.state_dict(): names = {id(p): n for n, p in "
    "net.named_parameters()}; for g in optimizer.param_groups: g['param_names'] = [names[id(p)] "
    "for p in g['params']]; or set LoadTorchOptions::parameter_names";

// One parameter of the file's optimizer.
struct SavedParameter {
  std::string name;
  int64_t position = 0;
};
struct SavedGroup {
  const PickleValue* options = nullptr;
  std::vector<SavedParameter> parameters;
};

class Loading {
 public:
  Loading(const std::string& path, const TorchParts& parts, const LoadTorchOptions& options)
      : parts_(parts),
        options_(options),
        opened_(path),
        bytes_(opened_.bytes()),
        file_(bytes_, opened_.path()),
        tensors_(opened_) {
    if (parts.optimizer != nullptr && parts.model == nullptr) {
      throw std::invalid_argument(
          "load_torch: an optimizer needs its model, whose names its parameters have");
    }
  }

  LoadedTorch run() {
    if (parts_.optimizer != nullptr) read_optimizer();
    if (parts_.scheduler != nullptr) read_scheduler();
    if (parts_.generator) read_generator();
    LoadedTorch loaded;
    if (parts_.model != nullptr) loaded.model = load_model(*parts_.model, opened_.path());
    if (parts_.optimizer != nullptr) apply_optimizer();
    if (parts_.scheduler != nullptr) parts_.scheduler->load_state(scheduler_);
    if (parts_.generator) set_random_state(at::kCPU, generator_);
    const PickleValue& root = file_.root();
    for (size_t i = 0; root.kind == Kind::dict && i + 1 < root.items.size(); i += 2) {
      const PickleValue &key = at(root.items[i]), &value = at(root.items[i + 1]);
      if (key.kind == Kind::text && value.kind == Kind::integer)
        loaded.numbers[key.text] = value.integer;
    }
    return loaded;
  }

 private:
  [[noreturn]] void fail(const std::string& rule) const {
    throw CheckpointError(opened_.path() + rule);
  }
  const PickleValue& at(uint32_t index) const { return file_.values().at(index); }

  // ---- values ----

  // The first of these keys at the file's top; of a list its only item.
  const PickleValue& part(const std::vector<const char*>& keys) const {
    for (const char* key : keys) {
      const auto found = file_.values().find(file_.root(), key);
      if (!found.has_value()) continue;
      const PickleValue& value = at(*found);
      if (value.kind != Kind::list) return value;
      if (value.items.size() == 1) return at(value.items[0]);
      fail(" has " + std::to_string(value.items.size()) + " entries under '" + key +
           "', but one can be loaded");
    }
    std::string text;
    for (const char* key : keys) text += (text.empty() ? "'" : "', '") + std::string(key);
    fail(" has nothing under " + text + "'");
  }
  const PickleValue* find(const PickleValue& dict, const char* key) const {
    const auto found = file_.values().find(dict, key);
    return found.has_value() ? &at(*found) : nullptr;
  }
  const PickleValue& need(const PickleValue& dict, const char* key, Kind kind,
                          const char* where) const {
    const PickleValue* found = find(dict, key);
    if (found != nullptr && found->kind == kind) return *found;
    fail(std::string(": its ") + where + " has no '" + key + "', or of another kind");
  }

  std::optional<double> number(const PickleValue& value) {
    if (value.kind == Kind::integer || value.kind == Kind::boolean)
      return static_cast<double>(value.integer);
    if (value.kind == Kind::real) return std::bit_cast<double>(value.integer);
    if (value.kind != Kind::tensor) return std::nullopt;
    const at::Tensor read = tensor(value, "a number");
    if (read.numel() != 1) return std::nullopt;
    return read.item<double>();
  }
  double need_number(const PickleValue& dict, const char* key, const char* where) {
    const PickleValue* found = find(dict, key);
    const std::optional<double> value = found == nullptr ? std::nullopt : number(*found);
    if (value.has_value()) return *value;
    fail(std::string(": its ") + where + " has no number '" + key + "'");
  }
  // A count: whole, and not too large for a double.
  int64_t whole(double value, const std::string& what) const {
    constexpr double kMost = 9007199254740992;
    if (value >= 0 && value <= kMost && value == std::floor(value))
      return static_cast<int64_t>(value);
    fail(": " + what + " is " + std::to_string(value) + ", which is not a count");
  }
  std::vector<double> need_numbers(const PickleValue& dict, const char* key, const char* where) {
    std::vector<double> numbers;
    for (const uint32_t item : need(dict, key, Kind::list, where).items) {
      const std::optional<double> value = number(at(item));
      if (!value.has_value())
        fail(std::string(": '") + key + "' of its " + where + " is not a list of numbers");
      numbers.push_back(*value);
    }
    return numbers;
  }
  at::Tensor tensor(const PickleValue& value, const std::string& name) {
    if (value.kind != Kind::tensor) fail(": '" + shown_text(name) + "' is not a dense tensor");
    const TorchTensor place = file_.place_of(value, name);
    return tensors_.tensor({place.dtype, place.shape, place.strides, 0, place.begin, place.bytes},
                           shown_text(name));
  }

  // ---- the optimizer ----

  void read_optimizer() {
    names_ = parameter_names(*parts_.model);
    for (const auto& item : parts_.model->named_parameters()) {
      if (item.value().defined()) parameters_.emplace(item.key(), item.value());
    }
    const PickleValue& saved = part({"optimizer", "optimizer_state_dict", "optimizer_states"});
    groups_ = read_groups(need(saved, "param_groups", Kind::list, "optimizer"));
    check_groups();
    read_states(need(saved, "state", Kind::dict, "optimizer"));
    check_states();
  }

  std::vector<SavedGroup> read_groups(const PickleValue& list) {
    std::vector<SavedGroup> groups;
    size_t count = 0;
    bool all_named = true;
    for (const uint32_t item : list.items) {
      SavedGroup group{.options = &at(item)};
      const PickleValue& positions =
          need(*group.options, "params", Kind::list, "group of parameters");
      const PickleValue* names = find(*group.options, "param_names");
      const bool is_named = names != nullptr && names->kind == Kind::list &&
                            names->items.size() == positions.items.size();
      all_named = all_named && is_named;
      for (size_t i = 0; i < positions.items.size(); ++i) {
        const PickleValue& position = at(positions.items[i]);
        if (position.kind != Kind::integer || !positions_.insert(position.integer).second) {
          fail(
              ": its optimizer's parameters are not listed by distinct numbers, as Python's "
              "optimizers list them (torch.distributed.checkpoint writes names; fix: save "
              "optimizer.state_dict())");
        }
        SavedParameter parameter{.position = position.integer};
        if (is_named) parameter.name = at(names->items[i]).text;
        group.parameters.push_back(std::move(parameter));
      }
      count += group.parameters.size();
      groups.push_back(std::move(group));
    }
    if (!all_named || !options_.parameter_names.empty()) give_names(groups, count);
    return groups;
  }

  void give_names(std::vector<SavedGroup>& groups, size_t count) {
    const std::vector<std::string> names =
        options_.parameter_names.empty() ? names_in_file(groups, count) : options_.parameter_names;
    if (names.size() != count) {
      fail(": its optimizer has " + std::to_string(count) + " parameters, but there are " +
           std::to_string(names.size()) + " names");
    }
    size_t next = 0;
    for (SavedGroup& group : groups) {
      for (SavedParameter& parameter : group.parameters) parameter.name = names[next++];
    }
  }

  // Of a file without names: the order of its state_dict, if all parameters are in one group.
  std::vector<std::string> names_in_file(const std::vector<SavedGroup>& groups, size_t count) {
    if (groups.size() != 1) {
      fail(": its optimizer has " + std::to_string(groups.size()) +
           " groups without the names of their parameters" + kAddNames);
    }
    const TorchWeights weights = weights_of(file_);
    const PickleValue& state = file_.state_dict();
    std::vector<std::string> all, trained;
    for (size_t i = 0; i + 1 < state.items.size(); i += 2) {
      const std::string& name = at(state.items[i]).text;
      const auto parameter = parameters_.find(name);
      if (parameter == parameters_.end() || weights.aliases.contains(name)) continue;
      all.push_back(name);
      if (parameter->second.requires_grad()) trained.push_back(name);
    }
    if (all.size() == count) return all;
    if (trained.size() == count) return trained;
    fail(": its optimizer has " + std::to_string(count) +
         " parameters without names, but its model has " + std::to_string(all.size()) + kAddNames);
  }

  // The tensor of a name, tied or not.
  const at::Tensor& parameter(const std::string& name) const {
    const auto found = parameters_.find(name);
    if (found != parameters_.end()) return found->second;
    fail(": its optimizer has the parameter '" + shown_text(name) + "', but the model does not");
  }

  void check_groups() const {
    const auto& own = parts_.optimizer->param_groups();
    if (groups_.size() != own.size()) {
      fail(": its optimizer has " + std::to_string(groups_.size()) +
           " groups of parameters, and this one " + std::to_string(own.size()));
    }
    for (size_t g = 0; g < own.size(); ++g) {
      std::set<const c10::TensorImpl*> wanted, saved;
      for (const at::Tensor& each : own[g].params()) wanted.insert(each.unsafeGetTensorImpl());
      for (const SavedParameter& each : groups_[g].parameters)
        saved.insert(parameter(each.name).unsafeGetTensorImpl());
      if (wanted != saved) {
        fail(": group " + std::to_string(g) +
             " of its optimizer has other parameters than that of this optimizer");
      }
    }
  }

  void read_states(const PickleValue& states) {
    std::unordered_map<int64_t, const PickleValue*> by_position;
    for (size_t i = 0; i + 1 < states.items.size(); i += 2) {
      const PickleValue& position = at(states.items[i]);
      if (position.kind != Kind::integer || !positions_.contains(position.integer))
        fail(": its optimizer has state of a parameter that is in none of its groups");
      by_position[position.integer] = &at(states.items[i + 1]);
    }
    for (const SavedGroup& group : groups_) {
      for (const SavedParameter& each : group.parameters) {
        const auto found = by_position.find(each.position);
        if (found == by_position.end()) continue;
        if (found->second->kind != Kind::dict)
          fail(": the state of '" + shown_text(each.name) + "' is not a dict");
        read_state(each.name, *found->second);
      }
    }
  }

  void read_state(const std::string& name, const PickleValue& state) {
    const std::string& own = names_.at(parameter(name).unsafeGetTensorImpl());
    for (size_t i = 0; i + 1 < state.items.size(); i += 2) {
      const std::string& field = at(state.items[i]).text;
      const PickleValue& value = at(state.items[i + 1]);
      if (value.kind == Kind::none) continue;
      const std::string key = field + "/" + own;
      const std::optional<double> count = field == "step" ? number(value) : std::nullopt;
      if (field == "step" && !count.has_value()) fail(": " + key + " is not one number");
      state_[key] =
          count.has_value() ? torch::tensor(whole(*count, key), at::kLong) : tensor(value, key);
      fields_[own].push_back(field);
    }
  }

  // All of it before any of it is loaded.
  void check_states() {
    auto& groups = parts_.optimizer->param_groups();
    std::vector<double> rates;
    for (size_t g = 0; g < groups.size(); ++g) {
      rates.push_back(need_number(*groups_[g].options, "lr", "group of parameters"));
      const GroupOptions options = group_options(*parts_.optimizer, g);
      check_kind(options, *groups_[g].options);
      for (const at::Tensor& each : groups[g].params()) check_state(g, each);
    }
    state_["lr"] = torch::tensor(rates, at::kDouble);
  }

  void check_kind(const GroupOptions& options, const PickleValue& saved) const {
    const PickleValue* decoupled = find(saved, "decoupled_weight_decay");
    if (options.decoupled.has_value() && decoupled != nullptr && decoupled->kind == Kind::boolean &&
        (decoupled->integer != 0) != *options.decoupled) {
      fail(std::string(": its optimizer is ") + (decoupled->integer != 0 ? "AdamW" : "Adam") +
           ", and this one the other of the two");
    }
    const PickleValue* maximize = find(saved, "maximize");
    bool knows_maximize = false;
    for (const GroupOption& option : options.options) {
      const bool is_maximize = option.name == std::string_view("maximize");
      knows_maximize = knows_maximize || is_maximize;
      // Older releases of torch did not have it.
      if (is_maximize || find(saved, option.name) != nullptr) continue;
      fail(std::string(": its optimizer has no '") + option.name +
           "': it is of another kind than this one");
    }
    if (!knows_maximize && maximize != nullptr && maximize->kind == Kind::boolean &&
        maximize->integer != 0)
      fail(": its optimizer has maximize=True, which this one does not know");
  }

  void check_state(size_t group, const at::Tensor& parameter) const {
    const std::string& name = names_.at(parameter.unsafeGetTensorImpl());
    const auto fields = fields_.find(name);
    if (fields == fields_.end()) return;
    if (!takes_fields(*parts_.optimizer, group, fields->second)) {
      std::string text;
      for (const std::string& field : fields->second) text += " " + shown_text(field);
      fail(": the state of '" + shown_text(name) + "' has" + text +
           ", which this optimizer does not take: is it of another kind?");
    }
    for (const std::string& field : fields->second) {
      const at::Tensor& saved = state_.at(field + "/" + name);
      if (field == "step" || saved.sizes() == parameter.sizes()) continue;
      fail(": " + field + " of '" + shown_text(name) + "' has the shape " +
           c10::str(saved.sizes()) + ", but the parameter has " + c10::str(parameter.sizes()));
    }
  }

  void apply_optimizer() {
    for (size_t g = 0; g < groups_.size(); ++g) apply_options(g);
    restore_optimizer(*parts_.optimizer, names_, MapSource(std::move(state_)));
  }

  void apply_options(size_t group) {
    const PickleValue& saved = *groups_[group].options;
    const GroupOptions options = group_options(*parts_.optimizer, group);
    for (const GroupOption& option : options.options) {
      const PickleValue* found = find(saved, option.name);
      if (found == nullptr) continue;
      if (const auto* flag = std::get_if<bool*>(&option.value))
        **flag = number(*found).value_or(0) != 0;
      if (const auto* real = std::get_if<double*>(&option.value))
        **real = number(*found).value_or(**real);
      if (found->kind != Kind::list || found->items.size() != 2) continue;
      const std::optional<double> first = number(at(found->items[0])),
                                  second = number(at(found->items[1]));
      if (!first.has_value() || !second.has_value()) continue;
      if (const auto* both = std::get_if<std::pair<double, double>*>(&option.value))
        **both = {*first, *second};
      if (const auto* both = std::get_if<std::tuple<double, double>*>(&option.value))
        **both = {*first, *second};
    }
    if (options.implementation == nullptr || !options_.keep_implementation) return;
    const auto flag = [&](const char* key) -> std::optional<bool> {
      const PickleValue* value = find(saved, key);
      if (value == nullptr || value->kind != Kind::boolean) return std::nullopt;
      return value->integer != 0;
    };
    // Where nothing is said Python steps plainly on a CPU and by foreach elsewhere, with equal numbers.
    Implementation implementation = Implementation::foreach;
    if (flag("foreach") == false || (flag("fused") == false && flag("foreach") != true))
      implementation = Implementation::plain;
    if (flag("fused") == true) implementation = Implementation::fused;
    *options.implementation = implementation;
  }

  // ---- the generator ----

  void read_generator() {
    generator_ = tensor(part({"rng_state", "torch_rng_state"}), "rng_state");
    const int64_t bytes = random_state(at::kCPU).numel();
    if (generator_.scalar_type() != at::kByte || generator_.numel() != bytes)
      fail(": its rng_state is not the " + std::to_string(bytes) +
           " bytes of a generator of the CPU");
  }

  // ---- the schedule ----

  void read_scheduler() {
    const PickleValue& saved =
        part({"scheduler", "lr_scheduler", "scheduler_state_dict", "lr_schedulers"});
    if (saved.kind != Kind::dict) fail(": its scheduler is not a dict");
    if (find(saved, "_schedulers") != nullptr) {
      fail(
          ": its scheduler is made of several (SequentialLR, ChainedScheduler), which cannot be "
          "loaded: use one that counts from 0, such as cosine_schedule with warmup_steps");
    }
    scheduler_ = parts_.scheduler->state();
    const int64_t groups = scheduler_.at("base_lrs").numel();
    const auto rates = [&](const PickleValue& dict, const char* key) {
      const std::vector<double> numbers = need_numbers(dict, key, "scheduler");
      if (static_cast<int64_t>(numbers.size()) != groups) {
        fail(std::string(": '") + key + "' of its scheduler has " + std::to_string(numbers.size()) +
             " rates, and this optimizer " + std::to_string(groups) + " groups");
      }
      return torch::tensor(numbers, at::kDouble);
    };
    const int64_t step = whole(need_number(saved, "last_epoch", "scheduler"), "last_epoch");
    scheduler_["last_step"] = torch::tensor(step, at::kLong);
    scheduler_["last_lr"] = rates(saved, "_last_lr");
    // A one-cycle schedule's are the peaks, which Python keeps in the groups.
    const bool is_one_cycle = !schedule().python_state(0, 1).group.empty();
    if (is_one_cycle) {
      read_peaks();
    } else if (find(saved, "base_lrs") != nullptr) {
      scheduler_["base_lrs"] = rates(saved, "base_lrs");
    }
    scheduler_["default_lr"] = scheduler_.at("base_lrs")[0].clone();
    if (schedule().plateau().has_value()) {
      scheduler_["best"] = torch::tensor(need_number(saved, "best", "scheduler"), at::kDouble);
      for (const char* counter : {"num_bad_epochs", "cooldown_counter"})
        scheduler_[counter] =
            torch::tensor(whole(need_number(saved, counter, "scheduler"), counter), at::kLong);
    } else {
      check_schedule(saved, step);
    }
  }

  const Schedule& schedule() const { return parts_.scheduler->schedule(); }

  void read_peaks() {
    const PickleValue& optimizer = part({"optimizer", "optimizer_state_dict", "optimizer_states"});
    const PickleValue& groups = need(optimizer, "param_groups", Kind::list, "optimizer");
    std::vector<double> peaks;
    for (const uint32_t item : groups.items)
      peaks.push_back(need_number(at(item), "max_lr", "group of parameters"));
    if (static_cast<int64_t>(peaks.size()) != scheduler_.at("base_lrs").numel())
      fail(": its optimizer has another number of groups than this one");
    scheduler_["base_lrs"] = torch::tensor(peaks, at::kDouble);
  }

  // Python's state replaces a schedule's own options; here they are the program's, and must give the file's rates.
  void check_schedule(const PickleValue& saved, int64_t step) {
    const at::Tensor bases = scheduler_.at("base_lrs"), rates = scheduler_.at("last_lr");
    for (int64_t i = 0; i < bases.numel(); ++i) {
      const double base = bases[i].item<double>(), wanted = rates[i].item<double>();
      double rate = 0;
      try {
        rate = schedule()
                   .at({.step = step, .base_lr = base, .default_lr = bases[0].item<double>()})
                   .lr;
      } catch (const std::exception& error) {
        fail(": its scheduler is at step " + std::to_string(step) + ", but " + error.what());
      }
      if (std::fabs(rate - wanted) <= 1e-6 * std::max(std::fabs(wanted), std::fabs(base) * 1e-3))
        continue;
      fail(": its scheduler gives the rate " + std::to_string(wanted) + " at step " +
           std::to_string(step) + ", and this one " + std::to_string(rate) +
           ": has it other options?");
    }
    for (const auto& [name, count] : schedule().python_state(step, 1).counters) {
      const PickleValue* found = find(saved, name.c_str());
      if (found != nullptr && number(*found) != static_cast<double>(count))
        fail(": its scheduler's " + name + " is not " + std::to_string(count) +
             ", as this one has it at step " + std::to_string(step));
    }
  }

  const TorchParts& parts_;
  const LoadTorchOptions& options_;
  const SourceFile opened_;
  const ByteSource bytes_;
  TorchFile file_;
  MappedTensors tensors_;

  ParameterNames names_;
  std::map<std::string, at::Tensor> parameters_;  // by all of their names
  std::vector<SavedGroup> groups_;
  std::set<int64_t> positions_;
  TensorMap state_;  // "exp_avg/layer.weight"
  std::map<std::string, std::vector<std::string>> fields_;
  TensorMap scheduler_;
  at::Tensor generator_;
};

}  // namespace

LoadedTorch load_torch(const std::string& path, const TorchParts& parts,
                       const LoadTorchOptions& options) {
  return Loading(path, parts, options).run();
}

}  // namespace muster
