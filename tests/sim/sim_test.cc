// Seeded simulation of the real cores under faults. `sim_test SEED` runs one seed and prints its
// history, `sim_test FIRST COUNT` many; the first broken promise is printed with its seed, which
// reproduces it exactly.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/sim/world.h"

int main(int argc, char** argv) {
  const uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : argc > 1 ? 1 : 1000;
  muster::sim::Result total;
  const auto began = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed < first + count; ++seed) {
    try {
      const muster::sim::Result result = muster::sim::World(seed, /*trace=*/argc == 2).Run();
      total.events += result.events;
      total.rank_starts += result.rank_starts;
      total.overtaken += result.overtaken;
      total.jobs += result.jobs;
      total.faults += result.faults;
      total.simulated_ms += result.simulated_ms;
    } catch (const muster::sim::Broken& broken) {
      std::printf("seed %llu: %s\nagain: ./dev sim %llu\n", static_cast<unsigned long long>(seed),
                  broken.what(), static_cast<unsigned long long>(seed));
      return 1;
    }
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf(
      "%llu seeds, %llu jobs, %llu rank starts, %llu ranks overtaken, %llu faults, %llu events, "
      "%.0f simulated hours in "
      "%.1f s\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(total.jobs),
      static_cast<unsigned long long>(total.rank_starts),
      static_cast<unsigned long long>(total.overtaken),
      static_cast<unsigned long long>(total.faults), static_cast<unsigned long long>(total.events),
      static_cast<double>(total.simulated_ms) / 3'600'000, seconds);
  return 0;
}
