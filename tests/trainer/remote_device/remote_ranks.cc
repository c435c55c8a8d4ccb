// The program that remote_device_test runs as ranks: remote_ranks SCENARIO. It prints lines "name
// value". The first scenarios show what the device itself does, the others what the SDK does on it.
#include <muster/trainer.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <thread>

#include "checkpoint/snapshot.h"
#include "device/device_driver.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

void say(const std::string& name, const std::string& value) {
  std::printf("%s %s\n", name.c_str(), value.c_str());
  std::fflush(stdout);
}
void say(const std::string& name, bool value) { say(name, std::string(value ? "yes" : "no")); }

// The CPU reads a value of the device: the last thing that it does.
void read_memory() {
  const Accelerator accelerator;
  const at::Tensor ones = at::ones({4}, accelerator.device());
  device_driver(accelerator.device()).synchronize(accelerator.device());
  say("reads", true);
  say("value", std::to_string(*ones.const_data_ptr<float>()));
}

// With MUSTER_REMOTE_DELAY_US: a copy to pinned memory arrives later, one to pageable memory before
// the call returns.
void copy_late() {
  const Accelerator accelerator;
  const at::Tensor ones = at::ones({4}, accelerator.device());
  const at::Tensor pinned = at::zeros({4}).pin_memory();
  pinned.copy_(ones, /*non_blocking=*/true);
  say("at_once", pinned.sum().item<float>() == 4);
  device_driver(accelerator.device()).synchronize(accelerator.device());
  say("after_waiting", pinned.sum().item<float>() == 4);
  const at::Tensor pageable = at::zeros({4});
  pageable.copy_(ones, /*non_blocking=*/true);
  say("pageable", pageable.sum().item<float>() == 4);
}

// Another stream that waits for nothing sees memory before it is written.
void read_on_another_stream() {
  const Accelerator accelerator;
  const c10::impl::VirtualGuardImpl device(accelerator.device().type());
  const at::Tensor values = at::empty({1'000}, accelerator.device());
  for (int i = 0; i < 20; ++i) values.fill_(i);
  values.fill_(7);
  const c10::Stream own =
      device.exchangeStream(device.getStreamFromGlobalPool(accelerator.device()));
  say("unordered", values.sum().item<float>() == 7'000);
  device.exchangeStream(own);
  say("ordered", values.sum().item<float>() == 7'000);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(8, 16));
    norm = register_module("norm", torch::nn::BatchNorm1d(16));
    last = register_module("last", torch::nn::Linear(16, 8));
    tied = register_parameter("tied", first->weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    return torch::linear(last(torch::relu(norm(first(x)))), tied);
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor tied;
};
TORCH_MODULE(Net);

// prepare() moves a module under the handles that an optimizer already has.
void move() {
  Accelerator accelerator;
  Net net;
  auto optimizer = accelerator.prepare(AdamW(net->parameters(), {.lr = 0.1}));
  const at::Tensor handle = net->first->weight;
  auto model = accelerator.prepare(net);
  bool all = true;
  for (const at::Tensor& tensor : net->parameters()) all &= tensor.device() == accelerator.device();
  for (const at::Tensor& tensor : net->buffers()) all &= tensor.device() == accelerator.device();
  say("moved", all);
  say("same_handle", handle.is_same(net->first->weight) && net->tied.is_same(handle));
  const at::Tensor before = handle.detach().cpu();
  accelerator.backward(model(at::ones({4, 8}, accelerator.device())).pow(2).mean());
  optimizer.step();
  say("stepped", !handle.detach().cpu().equal(before));
}

// Numbers of one kind or another over the ranks, on a series with few types.
void reduce() {
  AcceleratorOptions options;
  options.log_metrics_every = 1;
  options.sharding.stage = ZeroStage::zero2;
  Accelerator accelerator(options);
  const auto device = accelerator.device();
  const float own = accelerator.process_index() + 1.0f;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kByte}) {
    const at::Tensor sum =
        accelerator.reduce(at::full({2}, own, at::dtype(type).device(device)), Reduction::sum);
    say(c10::toString(type), sum.device() == device && sum.scalar_type() == type &&
                                 sum.to(at::kFloat).sum().item<float>() == 6);
  }
  accelerator.add_metric("loss", at::full({}, own, device));
  say("metric", std::to_string(accelerator.log_metrics(1).at(0).second));
  accelerator.check_loss(at::full({}, own, device), 1);
  Net net;
  auto [model, optimizer] = accelerator.prepare(net, SGD(net->parameters(), {.lr = 0.1}));
  accelerator.backward(model(at::ones({4, 8}, device)).pow(2).mean());
  const double norm = accelerator.clip_grad_norm_(net->parameters(), 1.0).item<double>();
  say("norm", std::isfinite(norm) && norm > 0);
  optimizer.step();
}

// Whether the ranks have the same weights.
bool agree(Accelerator& accelerator, torch::nn::Module& module) {
  bool same = true;
  for (const at::Tensor& parameter : module.parameters()) {
    const at::Tensor all = accelerator.gather(parameter.detach().flatten().view({1, -1}));
    same &= all.select(0, 0).equal(all.select(0, 1));
  }
  return same;
}

// Ranks with unequal numbers of batches, and ranks that average every second step.
void spread() {
  Accelerator accelerator;
  torch::nn::Linear net(8, 4);
  auto [model, optimizer] = accelerator.prepare(net, SGD(net->parameters(), {.lr = 0.1}));
  const int rank = accelerator.process_index();
  const auto step = [&, &model = model, &optimizer = optimizer](int index) {
    const at::Tensor x = at::full({4, 8}, index + rank + 1.0, accelerator.device());
    accelerator.backward(model(x).sigmoid().mean());
    optimizer.step();
    optimizer.zero_grad();
  };
  {
    const auto join = accelerator.join_uneven_inputs(model);
    for (int i = 0; i < 3 + 2 * rank; ++i) step(i);
  }
  say("joined", agree(accelerator, *net));
  {
    LocalSGD local(model, {.steps = 2});
    step(0);
    local.step();
    say("apart", !agree(accelerator, *net));
    step(1);
    local.step();
  }
  say("averaged", agree(accelerator, *net));
}

// Batches and snapshots, where the device's library may have no pinned memory.
void pin() {
  Accelerator accelerator;
  say("pinned", has_pinned_memory());
  auto loader =
      accelerator.prepare(DataLoader(TensorDataset(at::arange(64, at::kFloat), at::arange(64)),
                                     {.batch_size = 8, .num_workers = 2}));
  double sum = 0;
  for (const auto& [values, numbers] : loader) {
    if (values.device() != accelerator.device()) throw Error("the batch was not sent");
    sum += values.sum().item<double>();
  }
  say("sum", std::to_string(static_cast<int>(sum)));
  const at::Tensor weights = at::full({1'000}, 3.0, accelerator.device());
  SnapshotBuffer buffer;
  const TensorMap copies = buffer.take({{"weights", weights}});
  weights.zero_();
  say("snapshot",
      copies.at("weights").is_cpu() && copies.at("weights").sum().item<float>() == 3000);
  say("snapshot_pinned", copies.at("weights").is_pinned());
}

// What is drawn again: a checkpointed part, and a restored state.
void draw() {
  Accelerator accelerator;
  accelerator.set_seed(3);
  const at::Tensor x = at::ones({1'000}, accelerator.device()).requires_grad_();
  const at::Tensor y =
      checkpoint([](const at::Tensor& input) { return torch::dropout(input, 0.5, true); }, x);
  y.sum().backward();
  say("same_mask", x.grad().equal(y.detach()));
  const at::Tensor state = random_state(accelerator.device());
  const at::Tensor first = at::rand({8}, accelerator.device());
  set_random_state(accelerator.device(), state);
  say("same_numbers", at::rand({8}, accelerator.device()).equal(first));
  say("other_numbers", !at::rand({8}, accelerator.device()).equal(first));
}

// A module that is built without values, and gets them on the device.
void defer() {
  const Accelerator accelerator;
  set_seed(4);
  torch::nn::LSTM direct(torch::nn::LSTMOptions(8, 16));
  set_seed(4);
  auto deferred = deferred_init([] { return torch::nn::LSTM(torch::nn::LSTMOptions(8, 16)); });
  materialize_in_place(deferred, accelerator.device());
  const auto wanted = direct->parameters(), has = deferred->parameters();
  bool equal = wanted.size() == has.size();
  for (size_t i = 0; i < has.size(); ++i) {
    equal &= has[i].device() == accelerator.device() && has[i].cpu().equal(wanted[i]);
  }
  say("equal", equal);
}

// The device's figures of its memory.
void measure() {
  const Accelerator accelerator;
  const DeviceDriver& driver = device_driver(accelerator.device());
  const auto now = [&] { return driver.memory(accelerator.device()); };
  const int64_t before = now().allocated;
  {
    const at::Tensor large =
        at::empty({1 << 20}, at::dtype(at::kByte).device(accelerator.device()));
    say("allocated", std::to_string(now().allocated - before));
  }
  say("freed", now().allocated == before && now().allocated_peak >= before + (1 << 20));
  say("cached", now().reserved >= now().allocated + (1 << 20));
  driver.reset_peak_memory(accelerator.device());
  driver.empty_cache();
  say("returned", now().reserved < (1 << 20) && now().allocated_peak == before);
  say("total", now().total > 0 && now().free > 0 && now().free <= now().total);
}

int scenario(int /*argc*/, char** argv) {
  const std::map<std::string, void (*)()> scenarios = {
      {"read_memory", read_memory},
      {"copy_late", copy_late},
      {"read_on_another_stream", read_on_another_stream},
      {"move", move},
      {"reduce", reduce},
      {"spread", spread},
      {"pin", pin},
      {"draw", draw},
      {"defer", defer},
      {"measure", measure}};
  scenarios.at(argv[1])();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, scenario); }
