// The ranks of dispatch_test: dispatch_ranks map|uneven|stream|error|structure WORKERS. Each prints
// what its loop receives, one line per batch.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "collectives/collectives.h"
#include "data/loader_world.h"
#include "muster/base/errors.h"
#include "muster/base/run_main.h"
#include "parallel/process_group.h"

namespace muster {
namespace {

std::string text(const std::vector<int64_t>& numbers) {
  std::string joined;
  for (const int64_t number : numbers) joined += std::to_string(number) + ",";
  return joined;
}

template <typename Loader>
void print_passes(const Loader& loader) {
  for (int pass = 0; pass < 2; ++pass) {
    for (const Seen& seen : run(loader)) {
      std::printf("%s %d %d %d\n", text(seen.batch).c_str(), static_cast<int>(seen.remainder),
                  seen.last ? 1 : 0, static_cast<int>(seen.position.consumed));
    }
    std::printf("epoch %d\n", static_cast<int>(loader.epoch()));
  }
}

// Readable on rank 0 only, and there up to sample 9.
struct OnlyOnRankZero : Numbers {
  int64_t get(int64_t index) const {
    if (std::string(std::getenv("RANK")) != "0") throw std::runtime_error("no file on this rank");
    if (fails && index == 9) throw std::runtime_error("the disk is broken");
    return index;
  }
  bool fails = false;
};

// A batch with a part of varying length, and plain parts.
struct Mixed {
  std::vector<at::Tensor> parts;
  std::optional<at::Tensor> sometimes;
  int64_t number = 0;
  auto fields() { return std::tie(parts, sometimes, number); }
};

void print_mixed(const LoaderContext& context) {
  const auto collate = [](std::vector<int64_t> samples) {
    const auto count = static_cast<int64_t>(samples.size());
    Mixed mixed{.number = samples[0]};
    for (int64_t i = 0; i <= samples[0] % 3; ++i) {
      mixed.parts.push_back(at::tensor(samples, at::kLong).view({count, 1}).expand({count, i + 1}));
    }
    if (samples[0] % 2 == 0) mixed.sometimes = at::ones({count}, at::kBool);
    return mixed;
  };
  OnlyOnRankZero dataset;
  dataset.count = 12;
  DataLoader loader(dataset, {.batch_size = 2}, collate);
  loader.core()->attach(context);
  for (auto& batch : loader) {
    std::printf("%d %d %s %d\n", static_cast<int>(batch.number), batch.sometimes ? 1 : 0,
                text(list(batch.parts.back())).c_str(), static_cast<int>(batch.parts.size()));
  }
}

int run_rank(int argc, char** argv) {
  const std::string scenario = argv[1];
  const Topology topology = Topology::from_environment();
  const ProcessGroupPtr group = make_process_group(
      topology, at::kCPU,
      {.timeout = std::chrono::seconds(30), .init_timeout = std::chrono::seconds(30)});
  LoaderContext context{
      .rank = topology.rank,
      .world_size = topology.world_size,
      .configuration = {.dispatch_batches = true},
      .collectives = std::make_shared<Collectives>(group, topology, at::kCPU, false)};
  DataLoaderOptions options{.batch_size = 2, .num_workers = std::atoi(argv[2])};
  context.configuration.even_batches = scenario != "uneven";
  if (scenario == "structure") {
    print_mixed(context);
  } else if (scenario == "stream") {
    DataLoader loader(NumberStream{topology.rank == 0 ? 17 : 0}, options);
    loader.core()->attach(context);
    print_passes(loader);
  } else {
    OnlyOnRankZero dataset;
    dataset.count = 17;
    dataset.fails = scenario == "error";
    options.shuffle = scenario == "map";
    DataLoader loader(dataset, options);
    loader.core()->attach(context);
    try {
      print_passes(loader);
    } catch (const Error& error) {
      std::printf("error at %d: %s\n", static_cast<int>(loader.position().consumed), error.what());
    }
  }
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run_main(argc, argv, muster::run_rank); }
