#include <fcntl.h>
#include <sys/stat.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "base/files.h"
#include "base/shown_text.h"
#include "checkpoint/mapped_tensors.h"
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
    "for p "
    "in g['params']]; or set LoadTorchOptions::parameter_names";

struct OpenTorchFile {
  explicit OpenTorchFile(const std::string& path) : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat status {};
    if (!fd.valid() || ::fstat(fd.get(), &status) != 0) throw_errno("read", path);
    source = {static_cast<uint64_t>(status.st_size),
              [this, path](uint64_t offset, char* into, size_t bytes) {
                read_at(fd, path, offset, into, bytes);
              }};
  }
  FileDescriptor fd;
  ByteSource source;
};

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
      : path_(path),
        parts_(parts),
        options_(options),
        opened_(path),
        file_(opened_.source, path_),
        tensors_(opened_.fd, path_) {
    if (parts.optimizer != nullptr && parts.model == nullptr) {
      throw std::invalid_argument(
          "load_torch: an optimizer needs its model, whose names its parameters have");
    }
  }

  LoadedTorch run() {
    if (parts_.optimizer != nullptr) read_optimizer();
    if (parts_.scheduler != nullptr) read_scheduler();
    if (parts_.generator) generator_ = tensor(part({"rng_state", "torch_rng_state"}), "rng_state");
    LoadedTorch loaded;
    if (parts_.model != nullptr) loaded.model = load_model(*parts_.model, path_);
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
  [[noreturn]] void fail(const std::string& rule) const { throw CheckpointError(path_ + rule); }
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
    if (value >= 0 && value <= kMost) return static_cast<int64_t>(value);
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
        SavedParameter parameter{.position = at(positions.items[i]).integer};
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
      if (at(states.items[i]).kind == Kind::integer)
        by_position[at(states.items[i]).integer] = &at(states.items[i + 1]);
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
    for (const char* refused : {"maximize"}) {
      const bool known = std::any_of(
          options.options.begin(), options.options.end(),
          [&](const GroupOption& each) { return each.name == std::string_view(refused); });
      const PickleValue* flag = find(saved, refused);
      if (!known && flag != nullptr && flag->kind == Kind::boolean && flag->integer != 0)
        fail(std::string(": its optimizer has ") + refused + "=True, which this one does not know");
    }
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
    const auto is_on = [&](const char* key) {
      const PickleValue* flag = find(saved, key);
      return flag != nullptr && flag->kind == Kind::boolean && flag->integer != 0;
    };
    const auto& parameters = parts_.optimizer->param_groups()[group].params();
    const bool on_cpu = parameters.empty() || parameters[0].is_cpu();
    // What Python does where nothing is said.
    Implementation implementation = on_cpu ? Implementation::plain : Implementation::foreach;
    if (is_on("foreach")) implementation = Implementation::foreach;
    if (is_on("fused")) implementation = Implementation::fused;
    *options.implementation = implementation;
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
    const int64_t step = whole(need_number(saved, "last_epoch", "scheduler"), "last_epoch");
    scheduler_["last_step"] = torch::tensor(step, at::kLong);
    // One-cycle schedules keep their first rate here, and others that of the group.
    const bool has_first = !parts_.scheduler->schedule().python_state(0, 1).group.empty();
    if (!has_first && find(saved, "base_lrs") != nullptr)
      scheduler_["base_lrs"] =
          torch::tensor(need_numbers(saved, "base_lrs", "scheduler"), at::kDouble);
    scheduler_["last_lr"] =
        torch::tensor(need_numbers(saved, "_last_lr", "scheduler"), at::kDouble);
    if (!parts_.scheduler->schedule().plateau().has_value()) return;
    scheduler_["best"] = torch::tensor(need_number(saved, "best", "scheduler"), at::kDouble);
    for (const char* counter : {"num_bad_epochs", "cooldown_counter"}) {
      scheduler_[counter] =
          torch::tensor(whole(need_number(saved, counter, "scheduler"), counter), at::kLong);
    }
  }

  const std::string path_;
  const TorchParts& parts_;
  const LoadTorchOptions& options_;
  OpenTorchFile opened_;
  TorchFile file_;
  MappedTensors tensors_;

  ParameterNames names_;
  std::map<std::string, at::Tensor> parameters_;  // by all of their names
  std::vector<SavedGroup> groups_;
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
