// libmuster_trainer_fake.so: a device with CPU tensors and its own Gloo group for collectives. Logs
// every call to the file MUSTER_FAKE_LOG, one line each. If MUSTER_FAKE_SOC is set, it supports the
// element types of that Ascend device.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "muster/device/device_plugin_torch.h"
#include "series.h"

// LibTorch 2.14 renamed these two.
#if TORCH_VERSION_MINOR >= 14
#define GATHER_ONE all_gather_single
#define REDUCE_SCATTER_ONE reduce_scatter_single
#else
#define GATHER_ONE _allgather_base
#define REDUCE_SCATTER_ONE _reduce_scatter_base
#endif

namespace muster {
namespace {

using Generator = TorchGenerator<c10::kCPU>;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

template <typename... Words>
void note(const Words&... words) {
  std::ofstream log(variable("MUSTER_FAKE_LOG", "/dev/null"), std::ios::app);
  (log << ... << words) << "\n";
}

uint32_t collective_dtypes(int32_t /*index*/, int32_t collective) {
  const std::string soc_name = variable("MUSTER_FAKE_SOC", "");
  if (!soc_name.empty()) return ascend::collective_dtypes(ascend::series_of(soc_name), collective);
  // Gloo's dtypes, but no bool in sums.
  uint32_t set = 0;
  for (const MusterDtype dtype : {MUSTER_UINT8, MUSTER_INT8, MUSTER_INT32, MUSTER_INT64,
                                  MUSTER_FLOAT16, MUSTER_FLOAT32, MUSTER_FLOAT64}) {
    set |= 1U << static_cast<uint32_t>(dtype);
  }
  const bool adds = collective == MUSTER_ALL_REDUCE || collective == MUSTER_REDUCE_SCATTER;
  return adds ? set : set | (1U << static_cast<uint32_t>(MUSTER_BOOL));
}

const char* series(int32_t /*index*/) {
  const std::string soc_name = variable("MUSTER_FAKE_SOC", "");
  return soc_name.empty() ? "first series" : ascend::series_name(ascend::series_of(soc_name));
}

class FakeBackend : public c10d::Backend {
 public:
  explicit FakeBackend(const MusterBackendRequest& request)
      : Backend(request.rank, request.world_size) {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->timeout = std::chrono::milliseconds(request.timeout_ms);
    std::istringstream network(request.network);
    for (std::string name; std::getline(network, name, ',');) {
      options->devices.push_back(request.network_is_interfaces != 0
                                     ? c10d::ProcessGroupGloo::createDeviceForInterface(name)
                                     : c10d::ProcessGroupGloo::createDeviceForHostname(name));
    }
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_of(request), request.rank,
                                                        request.world_size, options);
  }

  const std::string getBackendName() const override { return "fake"; }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    require("broadcast", MUSTER_BROADCAST, tensors[0]);
    return gloo_->broadcast(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    require("all_reduce", MUSTER_ALL_REDUCE, tensors[0]);
    return gloo_->allreduce(tensors, options);
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& options) override {
    require("all_gather", MUSTER_ALL_GATHER, inputs[0]);
    return gloo_->allgather(outputs, inputs, options);
  }
  c10::intrusive_ptr<c10d::Work> GATHER_ONE(at::Tensor& output, at::Tensor& input,
                                            const c10d::AllgatherOptions& options) override {
    require("all_gather", MUSTER_ALL_GATHER, input);
    return gloo_->GATHER_ONE(output, input, options);
  }
  c10::intrusive_ptr<c10d::Work> REDUCE_SCATTER_ONE(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    require("reduce_scatter", MUSTER_REDUCE_SCATTER, input);
    return gloo_->REDUCE_SCATTER_ONE(output, input, options);
  }
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override {
    note("barrier");
    return gloo_->barrier(options);
  }
  void abort() { note("abort"); }

 private:
  static void require(const char* name, MusterCollective collective, const at::Tensor& tensor) {
    note(name, " ", c10::toString(tensor.scalar_type()), " ", tensor.numel());
    const auto dtype = device_dtype(tensor.scalar_type());
    const uint32_t taken = collective_dtypes(0, collective);
    if (!dtype || (taken & (1U << static_cast<uint32_t>(*dtype))) == 0) {
      throw std::runtime_error(std::string(name) + " met " + c10::toString(tensor.scalar_type()));
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

int make_backend(const MusterBackendRequest* request, void* backend, MusterDeviceError* error) {
  note("make_backend rank ", request->rank, " of ", request->world_size, " device ",
       request->device_index, " timeout ", request->timeout_ms, " network ", request->network);
  return device_status(error,
                       [&] { give_backend(backend, c10::make_intrusive<FakeBackend>(*request)); });
}

MusterDeviceTable fake_table() {
  MusterDeviceTable table = TorchAccelerator<c10::kCPU>::table("fake");
  table.init = [](MusterDeviceError* error) {
    note("init");
    return device_status(error, [] {
      const std::string fault = variable("MUSTER_FAKE_INIT_FAULT", "");
      if (!fault.empty()) throw std::runtime_error(fault);
    });
  };
  table.finalize = [] { note("finalize"); };
  table.count = [](int32_t* count, MusterDeviceError* /*error*/) {
    *count = 4;
    return 0;
  };
  table.set_current = [](int32_t index, MusterDeviceError* /*error*/) {
    note("set_current ", index);
    return 0;
  };
  table.synchronize = [](int32_t index, MusterDeviceError* /*error*/) {
    note("synchronize ", index);
    return 0;
  };
  table.series = &series;
  table.collective_dtypes = &collective_dtypes;
  table.make_backend = &make_backend;
  table.seed = [](int32_t index, uint64_t seed, MusterDeviceError* error) {
    note("seed ", index, " ", seed);
    return Generator::seed(index, seed, error);
  };
  table.random_state = [](int32_t index, uint8_t* bytes, uint64_t capacity, uint64_t* size,
                          MusterDeviceError* error) {
    note("random_state ", index);
    return Generator::state(index, bytes, capacity, size, error);
  };
  table.set_random_state = [](int32_t index, const uint8_t* bytes, uint64_t size,
                              MusterDeviceError* error) {
    note("set_random_state ", index);
    return Generator::set_state(index, bytes, size, error);
  };
  table.memory = [](int32_t index, MusterDeviceMemory* memory, MusterDeviceError* /*error*/) {
    note("memory ", index);
    *memory = {1, 2, 3, 4, 5, 6};
    return 0;
  };
  table.reset_peak_memory = [](int32_t index, MusterDeviceError* /*error*/) {
    note("reset_peak_memory ", index);
    return 0;
  };
  table.empty_cache = [](MusterDeviceError* /*error*/) {
    note("empty_cache");
    return 0;
  };
  return table;
}

const MusterDeviceTable table = fake_table();

}  // namespace
}  // namespace muster

MUSTER_DEVICE_PLUGIN(muster::table)
