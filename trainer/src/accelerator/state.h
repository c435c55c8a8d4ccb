// What an Accelerator owns. Its functions are in this directory, by subject: accelerator.cc
// (construction and prepare), training.cc, sharding.cc, optimizer_checks.cc, communication.cc,
// speech.cc, checkpointing.cc, checkpoint_content.cc, restoring.cc, fitting.cc, exporting.cc. Only the
// training thread uses it; the reporter, the recorder, the trackers and the checkpointer have their own
// threads and do their own locking.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accelerator/checkpoint_names.h"
#include "accelerator/gradient_state.h"
#include "accelerator/group_facts.h"
#include "accelerator/only_one.h"
#include "base/own_process.h"
#include "checkpoint/async_checkpointer.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/named_state.h"
#include "collectives/collectives.h"
#include "diagnosis/rank_recorder.h"
#include "muster/accelerator/accelerator.h"
#include "optim/optimizer_tensors.h"
#include "parallel/communication_time.h"
#include "parallel/process_group.h"
#include "tracking/metric_accumulator.h"
#include "tracking/reporter.h"
#include "tracking/tracker_set.h"

namespace muster {

// A loader or a sampler: anything with a position in the data.
struct DataSource {
  std::function<DataPosition()> position;
  std::function<void(const DataPosition&)> set_position;
  std::function<int64_t()> dataset_size;  // -1: unknown
};

struct Accelerator::State {
  explicit State(const AcceleratorOptions& given);

  // ---- Set once ----
  const AcceleratorOptions options;
  const Topology topology;
  const OnlyOne only_one;
  const OwnProcess process;
  const WorkerEnvironment worker;
  const at::Device device;
  const Precision precision;

  // ---- Owned; destroyed in reverse ----
  // The order matters for two members that call the reporter: the checkpointer (below), whose
  // thread reports published checkpoints, and the recorder, which unregisters its callback. It does
  // not matter for models and groups: every user of a process group shares its ownership, so a
  // handle that outlives the Accelerator keeps its model and group alive.
  Reporter reporter;
  ProcessGroupPtr group;
  std::optional<RankRecorder> diagnosis;
  ProcessGroupPtr checkpoint_group;               // created by the first asynchronous save
  std::optional<ShardingGroups> sharding_groups;  // created with the first sharded model
  std::shared_ptr<Collectives> collectives;
  std::optional<TrackerSet> trackers;  // none if log_with is empty
  bool trackers_started = false;
  std::optional<MetricAccumulator> metrics;
  std::shared_ptr<GradientState> gradients;

  // ---- What was prepared, in order ----
  std::vector<std::shared_ptr<DataParallel>> models;
  std::vector<std::shared_ptr<LrScheduler>> schedulers;
  std::vector<DataSource> sources;
  std::vector<std::pair<std::string, CustomState>> custom;
  std::vector<std::function<void(const LoadedState&)>> load_hooks;

  // ---- Checkpoints ----
  std::optional<AsyncCheckpointer> checkpointer;  // created by the first save
  // The checkpoint that this run is in the state of, while the counts are as they were then.
  struct Settled {
    int64_t step = 0;
    std::string path;
    int64_t optimizer_steps = 0;
    int64_t module_loads = 0;
  };
  std::optional<Settled> settled;
  std::set<int64_t> loaded_steps;  // from where save_state writes, or from the coordinator
  bool lost_a_save = false;
  int64_t next_iteration = 0;

  // ---- The rest ----
  bool trigger = false;  // set_trigger, until the next check
  // What each prepared optimizer steps, as last looked at.
  std::map<const torch::optim::Optimizer*, SteppedParameters> stepped;
  // At construction: a larger count in the destructor means that an exception is leaving the scope.
  const int exceptions = std::uncaught_exceptions();

  // ---- Sharded models; sharding.cc ----
  const ShardingGroups& open_sharding_groups();
  std::function<void(const PlaceValue&)> weights_in_file(torch::nn::Module& module);
  std::shared_ptr<ShardedModel> shard(const std::shared_ptr<DataParallel>& model);
  // Makes the optimizer step on this rank's shards. Throws std::invalid_argument if it has stepped.
  static void hand_over(ShardedModel& model, torch::optim::Optimizer& optimizer);
  // "'layers.0.weight'", or the index, dtype and shape of a parameter in no prepared model.
  std::string name_of(const at::Tensor& parameter, size_t group, size_t index) const;
  // Throws std::invalid_argument if a prepared optimizer steps one of these parameters.
  void require_unstepped(const char* function, torch::optim::Optimizer& optimizer) const;
  // The same if it has one in two groups.
  void require_once(torch::optim::Optimizer& optimizer) const;
  // What changed in the optimizers' groups since they were prepared: their shards take the place of
  // new parameters of sharded models. Throws on all ranks if they added different ones, naming the
  // first. Collective if something changed. Call before gradients are unscaled or clipped, before a
  // step, a save and a load.
  void follow_groups();
  void follow_groups(torch::optim::Optimizer& optimizer);
  // For the comparison with other ranks: "'head.weight' new, in the groups of a prepared optimizer, …".
  std::string groups_text(torch::optim::Optimizer& optimizer) const;
  void read_groups();
  // With several ranks: throws Error if a parameter with a gradient is in no prepared model.
  void require_averaged(torch::optim::Optimizer& optimizer);
  // By group and index.
  std::vector<std::pair<size_t, size_t>> strange_parameters(
      torch::optim::Optimizer& optimizer) const;
  // The sharded model with this module; null if it is not sharded.
  ShardedModel* sharded_of(const torch::nn::Module& module) const;
  // The tensors that an optimizer steps instead of these parameters.
  std::vector<at::Tensor> stepped_tensors(const std::vector<at::Tensor>& parameters) const;
  // Unscales the optimizers that step these parameters, unless that was done in this step.
  void unscale_owners(const std::vector<at::Tensor>& parameters);
  at::Tensor clip_grad_norm(const std::vector<at::Tensor>& given, double max_norm,
                            double norm_type) const;

  void start_trackers(const std::string& project, const TrackerConfig& config);
  // Whether there are trackers to log to; starts them if init_trackers was not called.
  bool starts_trackers();
  std::string logging_dir() const;
  std::string checkpoint_dir() const;
  int64_t removable_up_to() const;
  // For messages: "NAME" of the first model, "1.NAME" of the second.
  ParameterNames parameter_names() const;
  ParameterPlaces parameter_places() const;
  Manifest manifest(int64_t step, const SaveOptions& save_options) const;
  struct SavedNames {
    // 1, or 2 if the names of version 1 would give two parameters of an optimizer one name.
    int version = 1;
    std::vector<OptimizerNames> of_optimizers;
  };
  SavedNames saved_names() const;
  void add_model(size_t index, TensorMap& global, ShardMap& shards) const;
  void add_optimizer(size_t index, const OptimizerNames& names, TensorMap& global,
                     ShardMap& shards) const;
  void add_trained(const SavedNames& names, TensorMap& global, ShardMap& shards) const;
  void add_own(CheckpointContent& content) const;
  void add_global(TensorMap& global) const;
  CheckpointContent content(int64_t step, const SaveOptions& save_options);
  AsyncCheckpointer& open_checkpointer();
  void settle(int64_t step, const std::string& path);
  // The path of `step` if it is saved as the run is now; nullopt if it is to be saved. Collective.
  // Throws CheckpointError on all ranks if another state is saved, or was, under that step.
  std::optional<std::string> settled_path(int64_t step);
  // `is_of_job`: the worker chose it for this job.
  void note_loaded(const CheckpointReader& reader, bool is_of_job, bool is_whole);
  // After the first step, when the optimizers have their state: allocates the buffers of
  // asynchronous saves, so that the first save stalls training no longer than later ones.
  // Collective.
  void prepare_saving();
  void save_sharded(ShardedModel& model, torch::nn::Module& module, const std::string& directory,
                    const SaveModelOptions& save_options);
  LoadedState load(const CheckpointReader& reader, bool is_of_job, bool strict);
  // Whether restore reads the checkpoint's tensor of this name.
  bool is_restored(const std::string& name) const;
  void restore(const CheckpointReader& reader);
  // What fits by name and shape of models and optimizers; fitting.cc.
  void restore_fitting(const CheckpointReader& reader, LoadReport& report);
  void restore_fitting_model(size_t index, const CheckpointReader& reader, LoadReport& report,
                             std::set<std::string>& known);
  void restore_fitting_optimizer(size_t index, const ParameterPlaces& places,
                                 const CheckpointReader& reader, LoadReport& report,
                                 std::set<std::string>& known);
  // The module's tensors as this rank holds them; `ranges` has those that are shards.
  TensorMap own_tensors(size_t index, RangeMap& ranges) const;
  // Throws CheckpointError before anything is restored.
  void require_readable(const CheckpointReader& reader) const;
  void restore_model(size_t index, const CheckpointReader& reader);
  void restore_optimizers(const CheckpointReader& reader);
  static void restore_registered(const std::string& name, const CustomState& state,
                                 const CheckpointReader& reader);
  void restore_positions(const CheckpointReader& reader);
  void restore_random_numbers(const CheckpointReader& reader) const;
  void end_step();
  void log_step_times();
  int64_t steps_before = 0;  // what a resumed run had done, as its checkpoint counts
  int64_t times_logged_ns = CommunicationTime::now_ns();
};

}  // namespace muster
