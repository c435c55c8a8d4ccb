// Times a net that Python exported: bench_exported NET.pt2 INPUTS.pt STAGE STEPS, started as the ranks of a job. Rank 0 prints
// {"ms": per step, "mb": the peak of the process, "reserved_mb": before it loads the net}. Or bench_exported weights FILE.pt: the
// sum of its tensor "tail", how long it took to open the file, and by how much the peak grew.
#include <muster/trainer.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

namespace {

constexpr int64_t kWarmUp = 10;

double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

int read_weights(const char* path) {
  const double before = peak_mb();
  const auto began = std::chrono::steady_clock::now();
  const muster::TensorMap weights = muster::load_model_tensors(path);
  const double sum = weights.at("tail").sum().item<double>();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::printf("{\"ms\": %.2f, \"mb\": %.1f, \"sum\": %.1f}\n", took.count(), peak_mb() - before,
              sum);
  return 0;
}

int run(int argc, char** argv) {
  at::set_num_threads(1);
  if (argc == 3 && std::string(argv[1]) == "weights") return read_weights(argv[2]);
  muster::Accelerator accelerator(
      {.sharding = {.stage = muster::parse_zero_stage(argv[3]), .unit_numel_min = 0}});
  const double before = peak_mb();
  const std::string rank = "rank" + std::to_string(accelerator.process_index()) + ".";
  std::vector<at::Tensor> inputs;
  {
    const muster::TensorMap samples = muster::load_model_tensors(argv[2]);
    for (int i = 0; samples.contains(rank + std::to_string(i)); ++i)
      inputs.push_back(samples.at(rank + std::to_string(i)));
  }
  muster::ExportedModel net(argv[1]);
  muster::AdamW adamw(net->parameters(), {.lr = 1e-2});
  auto [model, optimizer] = accelerator.prepare(net, std::move(adamw));
  const int64_t steps = std::stoll(argv[4]);
  auto began = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < kWarmUp + steps; ++step) {
    if (step == kWarmUp) began = std::chrono::steady_clock::now();
    accelerator.backward(model(inputs)["loss"]);
    optimizer.step();
    optimizer.zero_grad();
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  accelerator.wait_for_everyone();
  if (accelerator.is_main_process()) {
    std::printf("{\"ms\": %.4f, \"mb\": %.1f, \"reserved_mb\": %.1f}\n",
                took.count() / static_cast<double>(steps), peak_mb(), before);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return muster::run_main(argc, argv, run); }
