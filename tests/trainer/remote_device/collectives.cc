// See collectives.h. As with NCCL, waiting for a work orders the streams; the host does not wait.
#include "collectives.h"

#include <c10/core/StreamGuard.h>
#include <muster/device/device_plugin_torch.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "alias.h"
#include "memory.h"

// 2.14 renamed these two.
#if TORCH_VERSION_MINOR >= 14
#define GATHER_ONE all_gather_single
#define REDUCE_SCATTER_ONE reduce_scatter_single
#else
#define GATHER_ONE _allgather_base
#define REDUCE_SCATTER_ONE _reduce_scatter_base
#endif

namespace remote {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

constexpr uint32_t bit(MusterDtype dtype) { return 1U << static_cast<uint32_t>(dtype); }

void require(MusterCollective collective, const at::Tensor& tensor) {
  const auto dtype = muster::device_dtype(tensor.scalar_type());
  TORCH_CHECK(dtype && (collective_dtypes(0, collective) & bit(*dtype)) != 0,
              "this collective does not support ", tensor.scalar_type());
}

Tensors aliases_of(const Tensors& tensors) {
  Tensors aliases;
  for (const at::Tensor& tensor : tensors) aliases.push_back(alias_of(tensor));
  return aliases;
}

// Gloo can miss that a peer has left in the middle of a collective, and then waits for its timeout.
// The store tells: by the name below, or because its host has left.
constexpr std::chrono::milliseconds kAskEvery{100};
constexpr const char* kLeft = "a rank has left";

void wait_for(c10d::Work& work, c10d::Store& store) {
  while (true) {
    try {
      work.wait(kAskEvery);
      return;
    } catch (const std::exception&) {
      if (work.isCompleted()) throw;
    }
    TORCH_CHECK(!store.check({kLeft}), kLeft);
  }
}

class RemoteWork final : public c10d::Work {
 public:
  RemoteWork(int rank, c10d::OpType type, MomentPtr done, c10::Device device, bool host_waits,
             c10::intrusive_ptr<c10::ivalue::Future> future, Tensors outputs)
      : Work(rank, type),
        done_(std::move(done)),
        device_(device),
        host_waits_(host_waits),
        future_(std::move(future)),
        outputs_(std::move(outputs)) {}

  bool isCompleted() override { return done_->reached(); }
  bool isSuccess() const override { return done_->reached(); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    synchronize();
    return true;
  }
  void synchronize() override {
    wait_on_stream(current_stream(device_.index()), done_);
    if (!host_waits_) return;
    done_->wait();
    require_no_failure();
  }
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  const MomentPtr done_;
  const c10::Device device_;
  const bool host_waits_;
  const c10::intrusive_ptr<c10::ivalue::Future> future_;
  const Tensors outputs_;
};

class Collectives final : public c10d::Backend {
 public:
  explicit Collectives(const MusterBackendRequest& request)
      : Backend(request.rank, request.world_size),
        device_(kType, static_cast<c10::DeviceIndex>(request.device_index)),
        stream_(new_stream(device_.index())),
        store_(muster::store_of(request)) {
    auto options = c10d::ProcessGroupGloo::Options::create();
    options->timeout = std::chrono::milliseconds(request.timeout_ms);
    std::istringstream network(request.network);
    for (std::string name; std::getline(network, name, ',');) {
      options->devices.push_back(request.network_is_interfaces != 0
                                     ? c10d::ProcessGroupGloo::createDeviceForInterface(name)
                                     : c10d::ProcessGroupGloo::createDeviceForHostname(name));
    }
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, request.rank, request.world_size,
                                                        options);
  }

  const std::string getBackendName() const override { return "remote"; }
  // On a rank that leaves by an exception. Not virtual in every release of LibTorch.
  void abort() {
    try {
      store_->set(kLeft, "yes");
    } catch (const std::exception&) {
      // The store's host has left before.
    }
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    require(MUSTER_BROADCAST, tensors.at(0));
    return start(
        c10d::OpType::BROADCAST, tensors, {},
        [options](auto& gloo, Tensors& own, Tensors&) { return gloo.broadcast(own, options); });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    require(MUSTER_ALL_REDUCE, tensors.at(0));
    return start(
        c10d::OpType::ALLREDUCE, tensors, {},
        [options](auto& gloo, Tensors& own, Tensors&) { return gloo.allreduce(own, options); });
  }
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    require(MUSTER_ALL_GATHER, inputs.at(0));
    return start(c10d::OpType::ALLGATHER, outputs.at(0), inputs,
                 [options](auto& gloo, Tensors& to, Tensors& from) {
                   std::vector<Tensors> lists = {to};
                   return gloo.allgather(lists, from, options);
                 });
  }
  WorkPtr GATHER_ONE(at::Tensor& output, at::Tensor& input,
                     const c10d::AllgatherOptions& options) override {
    require(MUSTER_ALL_GATHER, input);
    return start(c10d::OpType::_ALLGATHER_BASE, {output}, {input},
                 [options](auto& gloo, Tensors& to, Tensors& from) {
                   return gloo.GATHER_ONE(to[0], from[0], options);
                 });
  }
  WorkPtr REDUCE_SCATTER_ONE(at::Tensor& output, at::Tensor& input,
                             const c10d::ReduceScatterOptions& options) override {
    require(MUSTER_REDUCE_SCATTER, input);
    return start(c10d::OpType::_REDUCE_SCATTER_BASE, {output}, {input},
                 [options](auto& gloo, Tensors& to, Tensors& from) {
                   return gloo.REDUCE_SCATTER_ONE(to[0], from[0], options);
                 });
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override {
    return start(c10d::OpType::SEND, tensors, {},
                 [to, tag](auto& gloo, Tensors& own, Tensors&) { return gloo.send(own, to, tag); });
  }
  WorkPtr recv(Tensors& tensors, int from, int tag) override {
    return start(c10d::OpType::RECV, tensors, {}, [from, tag](auto& gloo, Tensors& own, Tensors&) {
      return gloo.recv(own, from, tag);
    });
  }
  WorkPtr barrier(const c10d::BarrierOptions& /*options*/) override {
    return start(c10d::OpType::BARRIER, {}, {},
                 [](auto& gloo, Tensors&, Tensors&) { return gloo.barrier(); });
  }

 private:
  // Queues a collective behind the work of the caller's stream.
  template <typename Collective>
  WorkPtr start(c10d::OpType type, const Tensors& outputs, const Tensors& inputs,
                Collective collective) {
    const c10::DeviceGuard guard(device_);
    wait_on_stream(stream_, record(current_stream(device_.index())));
    for (const Tensors* tensors : {&outputs, &inputs}) {
      for (const at::Tensor& tensor : *tensors) {
        device_allocator().recordStream(tensor.storage().data_ptr(), stream_);
      }
    }
    enqueue(stream_, [gloo = gloo_, store = store_, collective, to = aliases_of(outputs),
                      from = aliases_of(inputs)]() mutable {
      require_no_failure();
      try {
        wait_for(*collective(*gloo, to, from), *store);
      } catch (...) {
        new auto(gloo);  // its destructor would wait for the thread that hangs
        throw;
      }
    });
    auto future = c10::make_intrusive<c10::ivalue::Future>(
        c10::ListType::create(c10::TensorType::get()), std::vector<c10::Device>{device_});
    const c10::StreamGuard on_own(stream_);
    future->markCompleted(c10::IValue(outputs));
    return c10::make_intrusive<RemoteWork>(getRank(), type, record(stream_), device_,
                                           type == c10d::OpType::BARRIER, std::move(future),
                                           outputs);
  }

  const c10::Device device_;
  const c10::Stream stream_;
  const c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
};

}  // namespace

bool is_small() {
  static const bool small = [] {
    const char* const series = std::getenv("MUSTER_REMOTE_SERIES");
    return series != nullptr && std::string(series) == "small";
  }();
  return small;
}

uint32_t collective_dtypes(int32_t /*index*/, int32_t collective) {
  constexpr uint32_t kSmall = bit(MUSTER_INT8) | bit(MUSTER_INT32) | bit(MUSTER_INT64) |
                              bit(MUSTER_FLOAT16) | bit(MUSTER_FLOAT32);
  constexpr uint32_t kMore = bit(MUSTER_UINT8) | bit(MUSTER_BFLOAT16) | bit(MUSTER_FLOAT64);
  if (collective == MUSTER_ALL_TO_ALL) return 0;
  const bool moves = collective == MUSTER_BROADCAST || collective == MUSTER_ALL_GATHER;
  if (moves) return kSmall | kMore | bit(MUSTER_BOOL);
  return is_small() ? kSmall : kSmall | kMore;
}

c10::intrusive_ptr<c10d::Backend> make_collectives(const MusterBackendRequest& request) {
  return c10::make_intrusive<Collectives>(request);
}

}  // namespace remote
