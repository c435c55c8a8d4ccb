// The program that the ranks of device_ranks_test run: device_ranks SCENARIO ARGUMENT…
#include <muster/trainer.h>

#include <cstdio>
#include <map>

#include "device/device_driver.h"
#include "device/dtype_names.h"
#include "muster/device/device_plugin_torch.h"
#include "parallel/process_group.h"

namespace muster {
namespace {

using Arguments = std::vector<std::string>;

void say(const std::string& name, const std::string& value) {
  std::printf("%s %s\n", name.c_str(), value.c_str());
  std::fflush(stdout);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(16, 40));
    norm = register_module("norm", torch::nn::BatchNorm1d(40));
    dropout = register_module("dropout", torch::nn::Dropout(0.2));
    last = register_module("last", torch::nn::Linear(40, 4));
  }
  at::Tensor forward(const at::Tensor& input) {
    return last(dropout(torch::relu(norm(first(input)))));
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

// Changes with each bit of the parameters and buffers.
std::string fingerprint(torch::nn::Module& module) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  std::vector<at::Tensor> tensors = module.parameters();
  for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer);
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor bytes = tensor.detach().cpu().contiguous();
    const auto* data = static_cast<const unsigned char*>(bytes.const_data_ptr());
    for (size_t i = 0; i < bytes.nbytes(); ++i) hash = (hash ^ data[i]) * 0x100000001b3ULL;
  }
  return std::to_string(hash);
}

// Arguments DEVICE [leave|zero3]: trains ten steps; with "leave" rank 0 throws after the fifth.
void train(const Arguments& arguments) {
  const std::string how = arguments.size() > 1 ? arguments[1] : "";
  AcceleratorOptions options{.device = arguments.at(0)};
  if (how == "zero3") options.sharding.stage = ZeroStage::zero3;
  Accelerator accelerator(options);
  accelerator.set_seed(5);
  Net net;
  auto model = accelerator.prepare(net);
  auto optimizer =
      accelerator.prepare(torch::optim::AdamW(net->parameters(), torch::optim::AdamWOptions(0.01)));
  accelerator.set_seed(6, /*device_specific=*/true);
  for (int step = 0; step < 10; ++step) {
    if (how == "leave" && step == 5 && accelerator.process_index() == 0) {
      throw std::runtime_error("rank 0 has left");
    }
    optimizer.zero_grad();
    const at::Tensor input = torch::randn({8, 16}).to(accelerator.device());
    accelerator.backward(model(input).pow(2).mean());
    optimizer.step();
  }
  say("place", accelerator.device().str());
  {
    const FullParameters whole = accelerator.full_parameters(model);
    say("weights", fingerprint(*net));
  }
  const at::Tensor state = random_state(accelerator.device());
  const float drawn = torch::rand({1}).item<float>();
  set_random_state(accelerator.device(), state);
  say("random_numbers_return", torch::rand({1}).item<float>() == drawn ? "yes" : "no");
  clear_device_cache();
}

// What device_driver() passes on, for the device that MUSTER_DEVICE names.
void drive(const Arguments&) {
  const Accelerator accelerator;
  const DeviceDriver& driver = device_driver(accelerator.device());
  say("name", driver.name());
  const MusterDeviceMemory memory = driver.memory(accelerator.device());
  say("memory", std::to_string(memory.allocated) + " " + std::to_string(memory.total));
  driver.reset_peak_memory(accelerator.device());
  driver.synchronize(accelerator.device());
  say("same", &open_device(driver.name()) == &driver ? "yes" : "no");
}

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "none";
}

// Prints why the device of MUSTER_DEVICE rejects a model.
void refuse(const Arguments& arguments) {
  AcceleratorOptions options;
  Net net;
  const std::string& what = arguments.at(0);
  if (what == "parameter") net->first->to(at::kBFloat16);
  if (what == "buffer") net->norm->running_mean.set_data(net->norm->running_mean.to(at::kBFloat16));
  if (what == "compression") {
    options.data_parallel.gradient_compression = GradientCompression::bf16;
  }
  if (what == "zero3") {
    options.mixed_precision = Precision::bf16;
    options.sharding.stage = ZeroStage::zero3;
  }
  if (what == "zero2") {
    options.sharding.stage = ZeroStage::zero2;
    options.sharding.reduce_dtype = at::kBFloat16;
  }
  Accelerator accelerator(options);
  say("error", error_of([&] { accelerator.prepare(net); }));
}

// NAME [cpu]: the error of an Accelerator on that device.
void open(const Arguments& arguments) {
  say("error", error_of([&] {
        Accelerator accelerator({.cpu = arguments.size() > 1, .device = arguments.at(0)});
      }));
}

// Whether the backend supports it for tensors of that dtype.
bool does(c10d::Backend& backend, MusterCollective collective, at::ScalarType dtype,
          at::Device device) {
  const auto ranks = static_cast<int64_t>(backend.getSize());
  std::vector<at::Tensor> tensors = {at::zeros({ranks}, dtype).to(device)};
  const std::vector<at::Tensor> parts(static_cast<size_t>(ranks),
                                      at::zeros({ranks}, dtype).to(device));
  std::vector<std::vector<at::Tensor>> lists = {parts};
  const std::string error = error_of([&] {
    switch (collective) {
      case MUSTER_ALL_REDUCE:
        return backend.allreduce(tensors)->wait();
      case MUSTER_REDUCE_SCATTER:
        return backend.reduce_scatter(tensors, lists)->wait();
      case MUSTER_ALL_GATHER:
        return backend.allgather(lists, tensors)->wait();
      case MUSTER_ALL_TO_ALL: {
        std::vector<int64_t> equal;
        at::Tensor received = at::zeros({ranks}, dtype);
        return backend.alltoall_base(received, tensors[0], equal, equal)->wait();
      }
      default:
        return backend.broadcast(tensors)->wait();
    }
  });
  return error == "none";
}

// Two ranks: tries every collective and dtype on the backend of MUSTER_DEVICE itself.
void rules(const Arguments&) {
  const Topology topology = Topology::from_environment();
  const at::Device device = choose_device({.local_rank = topology.local_rank});
  // Without shared memory.
  const ProcessGroupPtr group = make_process_group(
      topology, device,
      {std::chrono::minutes(5), std::chrono::minutes(1), {}, 0, /*shared_memory_ranks_max=*/0});
  const auto backend = group->getBackend(device.type());
  for (int number = 0; number < MUSTER_COLLECTIVE_COUNT; ++number) {
    const auto collective = static_cast<MusterCollective>(number);
    const uint32_t ruled = device_driver(device).collective_dtypes(device, collective);
    std::string differences;
    for (int8_t type = 0; type < static_cast<int8_t>(at::ScalarType::NumOptions); ++type) {
      const auto dtype = static_cast<at::ScalarType>(type);
      const auto known = device_dtype(dtype);
      if (!known || c10::isComplexType(dtype)) continue;
      const bool allowed = (ruled & dtype_bit(*known)) != 0;
      if (does(*backend, collective, dtype, device) != allowed)
        differences += dtype_name(*known) + " ";
    }
    say(collective_name(collective), differences.empty() ? "agrees" : differences);
  }
}

int scenario(int argc, char** argv) {
  const std::map<std::string, void (*)(const Arguments&)> scenarios = {
      {"train", train}, {"drive", drive}, {"refuse", refuse}, {"open", open}, {"rules", rules}};
  scenarios.at(argv[1])(Arguments(argv + 2, argv + argc));
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run_main(argc, argv, muster::scenario); }
