// The process group: side groups, and ranks that leave early.
#include <fstream>
#include <stdexcept>
#include <thread>

#include "parallel/rank_model.h"

namespace muster {
namespace {

const ProcessGroupOptions kPatient = {std::chrono::minutes(30), std::chrono::seconds(60)};

c10::intrusive_ptr<c10d::Work> start_sum(const ProcessGroupPtr& group, const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  return group->getBackend(c10::kCPU)->allreduce(tensors);
}

// Sums that only fit when every call met its like.
bool sums_fit(const ProcessGroupPtr& group, int count) {
  bool fit = true;
  const double ranks = group->getSize();
  for (int i = 0; i < count; ++i) {
    const at::Tensor value = torch::full({1 + i % 7}, static_cast<double>(i), at::kDouble);
    start_sum(group, value)->wait();
    fit = fit && value.eq(i * ranks).all().item<bool>();
  }
  return fit;
}

}  // namespace

void side_group(const Arguments&) {
  const Rank rank;
  const ProcessGroupPtr first = make_side_group(rank.group, "first", kPatient);
  const ProcessGroupPtr second = make_side_group(rank.group, "second", kPatient);
  bool background = false;
  std::thread worker([&] { background = sums_fit(first, 300); });
  // Ranks are at different places of their three sequences at any moment.
  const bool foreground = sums_fit(rank.group, 200);
  worker.join();
  say("background", background);
  say("foreground", foreground);
  say("second", sums_fit(second, 3));
}

// waits, shared: rank 0 leaves by an exception while the others wait for it in a reduction.
// works: rank 0 leaves while its own reductions are under way and nobody joins them; the others go
// on only after it has left.
void leave(const Arguments& how) {
  const Topology topology = Topology::from_environment();
  ProcessGroupPtr group = make_process_group(topology, at::kCPU, kPatient);
  ProcessGroupPtr side = make_side_group(group, "side", kPatient);
  // Above 4 MiB sockets carry it, below shared memory.
  const at::Tensor value = torch::ones({how.at(0) == "shared" ? 1'000 : 2'000'000});
  const std::string& fifo = how.at(1);
  if (topology.rank == 0) {
    if (how.at(0) == "works") {
      for (int i = 0; i < 5; ++i) start_sum(group, value);
      start_sum(side, value);
    }
    abort_process_group(side);
    abort_process_group(group);
    side.reset();
    group.reset();
    if (how.at(0) == "works") std::ofstream(fifo) << "left\n";
    throw std::runtime_error("rank 0 has left");
  }
  if (how.at(0) == "works") {
    std::string word;
    std::ifstream(fifo) >> word;
    say("heard", word);
  }
  try {
    start_sum(group, value)->wait();
  } catch (const std::exception& error) {
    say("error", std::string(error.what()).substr(0, 200));
  }
}

}  // namespace muster
