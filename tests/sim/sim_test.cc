// Seeded simulation of the real cores under faults. `sim_test SEED` runs one seed and prints its
// history, `sim_test FIRST COUNT` many; the first broken promise is printed with its seed, which
// reproduces it exactly. `--heads` runs three coordinators that replace each other in place of one. `--plant=NAME`
// plants a bug there, and fails unless one of the seeds finds it.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/world.h"

namespace muster::sim {
namespace {

struct Arguments {
  World::Options options;
  std::string flags;  // as they were given
  std::string plant;
  bool goes_on = false;  // after a broken promise
  std::vector<uint64_t> numbers;
};

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--heads") {
      arguments.options.heads = 3;
    } else if (word == "--all") {
      arguments.goes_on = true;
    } else if (word == "--plant=no-term-compare") {
      arguments.options.plants.no_term_compare = true;
    } else if (word == "--plant=no-two-thirds") {
      arguments.options.plants.no_two_thirds = true;
    } else if (word.starts_with("-")) {
      std::printf("unknown: %s\n", argv[i]);
      return false;
    } else {
      arguments.numbers.push_back(std::strtoull(argv[i], nullptr, 10));
      continue;
    }
    if (word.starts_with("--plant=")) arguments.plant = word.substr(word.find('=') + 1);
    if (word != "--all") arguments.flags += std::string(word) + " ";
  }
  return true;
}

void Add(Result& total, const Result& result) {
  total.events += result.events;
  total.rank_starts += result.rank_starts;
  total.overtaken += result.overtaken;
  total.jobs += result.jobs;
  total.faults += result.faults;
  total.takeovers += result.takeovers;
  total.reads += result.reads;
  total.simulated_ms += result.simulated_ms;
}

void Print(uint64_t seeds, const Result& total, double seconds) {
  const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "%llu seeds, %llu jobs, %llu rank starts, %llu ranks overtaken, %llu faults, %llu takeovers, "
      "%llu reads, "
      "%llu events, %.0f simulated hours in %.1f s\n",
      number(seeds), number(total.jobs), number(total.rank_starts), number(total.overtaken),
      number(total.faults), number(total.takeovers), number(total.reads), number(total.events),
      static_cast<double>(total.simulated_ms) / 3'600'000, seconds);
}

int Run(const Arguments& arguments) {
  const auto& numbers = arguments.numbers;
  const uint64_t first = numbers.empty() ? 1 : numbers[0];
  const uint64_t count = numbers.size() > 1 ? numbers[1] : numbers.empty() ? 1000 : 1;
  World::Options options = arguments.options;
  options.trace = numbers.size() == 1;
  Result total;
  int broken_seeds = 0;
  const auto began = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    try {
      Add(total, World(seed, options).Run());
    } catch (const Broken& broken) {
      std::printf("seed %llu: %s\nagain: ./dev sim %s%llu\n", static_cast<unsigned long long>(seed),
                  broken.what(), arguments.flags.c_str(), static_cast<unsigned long long>(seed));
      ++broken_seeds;
      if (!arguments.goes_on) break;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (broken_seeds == 0 || arguments.goes_on) Print(count, total, took.count());
  if (arguments.plant.empty()) return broken_seeds == 0 ? 0 : 1;
  if (broken_seeds == 0) std::printf("nothing finds %s\n", arguments.plant.c_str());
  return broken_seeds > 0 ? 0 : 1;
}

}  // namespace
}  // namespace muster::sim

int main(int argc, char** argv) {
  muster::sim::Arguments arguments;
  return muster::sim::Parse(argc, argv, arguments) ? muster::sim::Run(arguments) : 2;
}
