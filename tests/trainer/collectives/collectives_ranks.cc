// The program that the collectives tests run as ranks: collectives_ranks
// all|disagreements|value_disagreements.
// Each rank checks what it can compute itself, and prints what the test compares. Exit code 0:
// every check passed. With ACCELERATE_DEBUG_MODE in the environment the collectives are in debug
// mode.
#include <chrono>
#include <cstdlib>
#include <random>

#include "collectives/scenarios.h"
#include "device/device_driver.h"
#include "muster/collectives/executable_batch_size.h"
#include "muster/device/random_state.h"

namespace muster {
namespace {

void randoms(Collectives& c) {
  set_seed(11, {.offset = static_cast<uint64_t>(c.rank())});
  at::manual_seed(11 + static_cast<uint64_t>(c.rank()));
  const at::Tensor expected = at::rand({4});
  set_seed(11, {.offset = static_cast<uint64_t>(c.rank())});
  CHECK_THAT(same(at::rand({4}), expected));
  const at::Tensor state = random_state(at::kCPU);
  const at::Tensor next = at::rand({4});
  set_random_state(at::kCPU, state);
  CHECK_THAT(same(at::rand({4}), next));
  c.synchronize_rng_states();
  const at::Tensor drawn = at::rand({4});
  CHECK_THAT(same(c.broadcast({drawn})[0], drawn));
}

void batch_sizes(Collectives& c) {
  std::vector<int64_t> tried;
  // Only the last rank runs out of memory, above 70.
  const ExecutableBatchSizeOptions options{.starting_batch_size = 100,
                                           .any_rank = [&](bool own) { return c.any_rank(own); }};
  const int64_t found = find_executable_batch_size(
      [&](int64_t batch_size) {
        tried.push_back(batch_size);
        if (c.rank() == c.world_size() - 1 && batch_size > 70) throw std::bad_alloc();
      },
      options);
  CHECK_THAT(found == 64);
  CHECK_THAT((tried == std::vector<int64_t>{100, 90, 81, 72, 64}));
  const std::string other = error_of([&] {
    find_executable_batch_size(
        [&](int64_t) {
          if (c.rank() == 0) throw std::invalid_argument("a bug");
        },
        options);
  });
  CHECK_THAT(other.starts_with(c.rank() == 0 ? "invalid_argument a bug" : "CommunicationError"));
}

// All ranks make the same random calls, with random tensors.
void random_calls(Collectives& c) {
  std::mt19937 shared(5);
  for (int step = 0; step < 60; ++step) {
    const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(shared); };
    const int from = pick(c.world_size() - 1);
    Tensors own;
    for (int i = pick(3); i >= 0; --i) {
      std::vector<int64_t> shape;
      for (int dims = pick(3); dims > 0; --dims) shape.push_back(pick(4));
      own.push_back(of_rank(c.rank(), shape, pick(1) ? at::kFloat : at::kLong));
    }
    const Tensors gathered = c.gather(own);
    const Tensors sums = c.reduce(own, Reduction::sum);
    const Tensors received = c.broadcast(own, from);
    const Tensors ragged = c.gather_ragged(own);
    for (size_t i = 0; i < own.size(); ++i) {
      std::vector<int64_t> by_rank = own[i].sizes().vec();
      by_rank.insert(by_rank.begin(), c.world_size());
      const at::Tensor rows = gathered[i].view(by_rank);
      CHECK_THAT(same(rows[c.rank()], own[i]));
      CHECK_THAT(same(received[i], rows[from].contiguous()));
      CHECK_THAT(same(sums[i], rows.sum(0).to(own[i].scalar_type())));
      CHECK_THAT(same(ragged[i], gathered[i]));
    }
  }
}

void show(const char* name, const std::string& error) {
  std::printf("%s|%s\n", name, error.c_str());
}

// Differences of the last rank in functions that move values; each rank prints the error it got.
void value_disagreements(Collectives& c) {
  const bool odd = c.rank() == c.world_size() - 1;
  const at::Tensor two = at::ones({2});
  show("shape", error_of([&] { c.gather({at::ones({odd ? 4 : 3, 2})}); }));
  show("dtype", error_of([&] { c.reduce({two.to(odd ? at::kLong : at::kInt)}, Reduction::sum); }));
  show("count", error_of([&] { c.broadcast(Tensors(odd ? 2 : 1, two)); }));
  show("call", error_of([&] { odd ? c.reduce({two}, Reduction::mean) : c.gather({two}); }));
  show("option", error_of([&] { c.reduce({two}, odd ? Reduction::max : Reduction::sum); }));
  show("kind", error_of([&] {
         if (odd) return c.wait();
         c.gather_object("text");
       }));
  show("trailing", error_of([&] { c.gather_ragged({at::ones({2, odd ? 3 : 2})}); }));
  show("undefined", error_of([&] { c.gather({odd ? at::Tensor() : at::ones({1})}); }));
  show("refused",
       error_of([&] { c.reduce({two.to(odd ? at::kLong : at::kFloat)}, Reduction::mean); }));
  CHECK_THAT(c.any_rank(odd));  // the group still works
}

void disagreements(Collectives& c) {
  value_disagreements(c);
  const bool odd = c.rank() == c.world_size() - 1;
  show("packed", error_of([&] {
         c.reduce_packed(Tensors(odd ? 2 : 1, at::scalar_tensor(1)), Reduction::sum);
       }));
  CHECK_THAT(c.any_rank(odd));
}

int run(const std::string& scenario) {
  at::set_num_threads(1);
  const Topology topology = Topology::from_environment();
  if (std::getenv("MUSTER_DEVICE") != nullptr) {
    place = choose_device({.local_rank = topology.local_rank});
  }
  const ProcessGroupPtr group =
      make_process_group(topology, place, {std::chrono::seconds(30), std::chrono::seconds(30)});
  Collectives c(group, topology, place, std::getenv("ACCELERATE_DEBUG_MODE") != nullptr);
  Scenarios scenarios = value_scenarios();
  scenarios.insert(
      {{"randoms", randoms}, {"batch_sizes", batch_sizes}, {"random_calls", random_calls}});
  if (scenario == "all") {
    for (const auto& [name, run_one] : scenarios) run_one(c);
  } else if (scenario == "disagreements") {
    disagreements(c);
  } else {
    value_disagreements(c);
  }
  c.wait();  // no rank exits while another still communicates with it
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  try {
    return muster::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
    return 2;
  }
}
