// A trace of jobs through the coordinator's core, with simulated nodes and a simulated clock: how long jobs wait under
// each policy, and what the core takes for it. `./dev bench schedule` runs it; docs/benchmarks.md has the figures.
//   bench_schedule replay FILE NODES DEVICES-PER-NODE strict|backfill|[reclaim:]PROJECT=SHARE,… none|true|given
//     a CSV with the columns of replay/trace.h → a line of JSON.
//     Shares: quotas of the projects (vc), scaled so that they make up the cluster. reclaim: borrowed jobs give way; each
//     can save at any time, and continues with what it had when it was asked
//   bench_schedule load QUEUED NODES
//     so many nodes, all busy, and so many jobs that wait; then jobs end and others come, one a turn → a line of JSON
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "replay/replay.h"

namespace {

using namespace muster;
using replay::Cluster;
using replay::TracedJob;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

double At(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * values.size()))];
}

// "PROJECT=SHARE,…", scaled so that all have `devices` together.
std::map<std::string, uint32_t> QuotasOf(const std::string& shares, double devices) {
  std::map<std::string, double> by_project;
  double sum = 0;
  std::istringstream stream(shares);
  for (std::string each; std::getline(stream, each, ',');) {
    const size_t equals = each.find('=');
    if (equals == std::string::npos) Fail("not PROJECT=SHARE: " + each);
    sum += by_project[each.substr(0, equals)] = std::strtod(each.c_str() + equals + 1, nullptr);
  }
  std::map<std::string, uint32_t> quotas;
  for (const auto& [project, share] : by_project)
    quotas[project] = static_cast<uint32_t>(share * devices / sum);
  return quotas;
}

class Timed {
 public:
  std::function<void(const std::function<void()>&)> Take() {
    return [this](const std::function<void()>& turn) {
      const auto begun = std::chrono::steady_clock::now();
      turn();
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun)
              .count());
    };
  }
  std::vector<double> us;
};

void PrintTurns(const Cluster& cluster, const Timed& timed, double seconds, size_t jobs) {
  std::printf(
      "\"seconds\": %.3f, \"jobs_per_s\": %.0f, \"events\": %llu, \"turn_p50_us\": %.0f, "
      "\"turn_p99_us\": %.0f, \"turn_max_us\": %.0f}\n",
      seconds, static_cast<double>(jobs) / seconds,
      static_cast<unsigned long long>(cluster.events()), At(timed.us, 0.5), At(timed.us, 0.99),
      At(timed.us, 1));
}

double SecondsSince(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

int Replay(const std::string& path, int nodes, int devices, const std::string& policy,
           const std::string& estimates) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) Fail("cannot read " + path);
  const auto jobs =
      replay::ParseTrace(text.str(), estimates == "true"    ? replay::Estimates::kTrue
                                     : estimates == "given" ? replay::Estimates::kGiven
                                                            : replay::Estimates::kNone);
  if (!jobs.ok()) Fail(std::string(jobs.status().message()));
  constexpr std::string_view kReclaim = "reclaim:";
  replay::Rules rules{.backfill = policy != "strict"};
  if (!policy.starts_with(kReclaim)) rules.min_run_ms.reset();
  if (policy.find('=') != std::string::npos) {
    rules.quotas = QuotasOf(policy.substr(policy.starts_with(kReclaim) ? kReclaim.size() : 0),
                            nodes * devices);
  }
  Timed timed;
  const auto begun = std::chrono::steady_clock::now();
  Cluster cluster(std::vector<uint32_t>(nodes, devices), rules, timed.Take());
  const auto outcome = replay::Replay(*jobs, cluster);
  if (!outcome.ok()) Fail(std::string(outcome.status().message()));
  const replay::Waits& waits = outcome->waits;
  std::printf(
      "{\"jobs\": %zu, \"started\": %zu, \"mean_jct_h\": %.3f, \"mean_wait_h\": %.3f, "
      "\"p95_wait_h\": %.2f, \"max_wait_h\": %.2f, \"mean_wait_8_h\": %.3f, "
      "\"preemptions\": %llu, \"preempted\": %zu, ",
      outcome->jobs, outcome->ended, waits.completion_h, waits.mean_h, waits.p95_h, waits.max_h,
      waits.mean_large_h, static_cast<unsigned long long>(outcome->gave_way),
      outcome->jobs_that_gave_way);
  PrintTurns(cluster, timed, SecondsSince(begun), jobs->size());
  return 0;
}

int Load(int queued, int nodes) {
  constexpr int kDevices = 8, kTurns = 2'000;
  std::mt19937 random(1);
  const auto job = [&] {
    const uint32_t shapes[] = {1, 1, 2, 4, 8, 8, 16, 64};
    TracedJob made{.duration_ms = Cluster::kLongMs};
    made.devices = shapes[random() % std::size(shapes)];
    if (random() % 2 == 0) made.estimate_ms = static_cast<int64_t>(random() % 1'000 + 1) * 60'000;
    return made;
  };
  Timed timed;
  Cluster cluster(std::vector<uint32_t>(nodes, kDevices), {.min_run_ms = std::nullopt},
                  timed.Take());
  while (cluster.state().queue.size() < static_cast<size_t>(queued)) {
    for (int i = 0; i < 256; ++i) cluster.Submit(job());
    cluster.Settle();
  }
  timed.us.clear();
  const auto begun = std::chrono::steady_clock::now();
  for (int turn = 0; turn < kTurns; ++turn) {
    if (turn % 2 == 0) cluster.EndOne();
    cluster.Submit(job());
    cluster.Settle();
  }
  std::printf("{\"queued\": %zu, \"nodes\": %d, \"running\": %zu, ", cluster.state().queue.size(),
              nodes, cluster.state().active.size());
  PrintTurns(cluster, timed, SecondsSince(begun), kTurns);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "replay" && argc == 7)
    return Replay(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), argv[5], argv[6]);
  if (what == "load" && argc == 4) return Load(std::atoi(argv[2]), std::atoi(argv[3]));
  Fail(
      "usage: bench_schedule replay FILE NODES DEVICES strict|backfill|[reclaim:]PROJECT=SHARE,… "
      "none|true|given\n"
      "       bench_schedule load QUEUED NODES");
}
