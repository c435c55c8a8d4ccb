// Ranks that call different collectives, and groups that have failed.
#include <algorithm>
#include <functional>

#include "collectives/collectives.h"
#include "muster/base/errors.h"
#include "parallel/rank_model.h"

namespace muster {
namespace {

using Call = std::function<void(const ProcessGroupPtr&)>;

c10d::Backend& backend(const ProcessGroupPtr& group) { return *group->getBackend(c10::kCPU); }

Call all_reduce(int64_t size, at::ScalarType type = at::kFloat,
                c10d::ReduceOp operation = c10d::ReduceOp::SUM, int times = 1) {
  return [=](const ProcessGroupPtr& group) {
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    std::vector<std::vector<at::Tensor>> tensors;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < times; ++i) {
      tensors.push_back({torch::ones({size}, type)});
      works.push_back(backend(group).allreduce(tensors.back(), options));
    }
    for (const auto& work : works) work->wait();
    for (const auto& sums : tensors) {
      if (operation == c10d::ReduceOp::SUM && !sums[0].eq(group->getSize()).all().item<bool>()) {
        throw Error("a wrong sum: " + std::to_string(sums[0].sum().item<double>()));
      }
    }
  };
}

Call broadcast(int64_t size, int root) {
  return [=](const ProcessGroupPtr& group) {
    std::vector<at::Tensor> tensors = {torch::ones({size})};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    backend(group).broadcast(tensors, options)->wait();
  };
}

Call in_collectives(const std::function<void(Collectives&)>& use) {
  return [=](const ProcessGroupPtr& group) {
    Topology topology = Topology::from_environment();
    Collectives collectives(group, topology, at::kCPU, /*debug=*/false);
    use(collectives);
  };
}

// Above 4 MiB a tensor goes over sockets, below through shared memory if two ranks share it.
constexpr int64_t kLarge = 1'200'000;

struct Pair {
  const char* name;
  Call most, last;  // what the last rank calls, and what the others do
};

std::vector<Pair> pairs() {
  const Call reduce = in_collectives([](Collectives& c) { c.reduce({at::ones({1})}, {}); });
  const Call gather = in_collectives([](Collectives& c) { c.gather_object("some bytes"); });
  const Call objects = in_collectives([](Collectives& c) { c.broadcast_object("some bytes"); });
  const Call strings = [](const ProcessGroupPtr& group) { all_gather_strings(group, "text"); };
  return {{"gradients", all_reduce(50'826), reduce},
          {"operation", all_reduce(100), all_reduce(100, at::kFloat, c10d::ReduceOp::MAX)},
          {"dtype", all_reduce(100), all_reduce(100, at::kInt)},
          {"size", all_reduce(100), all_reduce(101)},
          {"large size", all_reduce(kLarge), all_reduce(kLarge + 1'000)},
          {"large and small", all_reduce(kLarge), all_reduce(100)},
          {"root", broadcast(100, 0), broadcast(100, 1)},
          {"kind", all_reduce(100), broadcast(100, 0)},
          {"barrier", all_reduce(kLarge), barrier},
          {"sizes", strings, all_reduce(1, at::kLong)},
          {"objects", gather, all_reduce(kLarge)},
          {"object and strings", objects, strings},
          {"under way", all_reduce(kLarge, at::kFloat, c10d::ReduceOp::SUM, 3),
           [](const ProcessGroupPtr& group) {
             all_reduce(kLarge, at::kFloat, c10d::ReduceOp::SUM, 2)(group);
             broadcast(kLarge, 0)(group);
           }}};
}

// The kind of error, and its text in one line.
std::string ending(const std::function<void()>& call) {
  std::string text = "no error";
  try {
    call();
  } catch (const CommunicationError& error) {
    text = std::string("CommunicationError ") + error.what();
  } catch (const std::exception& error) {
    text = std::string("another error: ") + error.what();
  }
  std::replace(text.begin(), text.end(), '\n', '/');
  return text;
}

ProcessGroupPtr fresh_group(const Rank& rank, const std::string& name, const std::string& memory,
                            std::chrono::milliseconds timeout) {
  std::vector<int> all;
  for (int other = 0; other < rank.world_size(); ++other) all.push_back(other);
  ProcessGroupOptions options = {timeout, std::chrono::seconds(60)};
  if (memory == "no_memory") options.shared_memory_ranks_max = 0;
  return make_sub_group(rank.group, name, all, options);
}

}  // namespace

// how: whether the ranks share memory ("memory", "no_memory"), the group's timeout in milliseconds,
// and the names of the pairs (default: all).
void mismatches(const Arguments& how) {
  const Rank rank;
  const bool is_last = rank.rank() == rank.world_size() - 1;
  for (const Pair& pair : pairs()) {
    if (how.size() > 2 && std::count(how.begin() + 2, how.end(), pair.name) == 0) continue;
    const ProcessGroupPtr group =
        fresh_group(rank, pair.name, how[0], std::chrono::milliseconds(std::stoi(how[1])));
    std::string name = pair.name;
    std::replace(name.begin(), name.end(), ' ', '_');
    say(name, ending([&] { (is_last ? pair.last : pair.most)(group); }));
    say(name + "_next", ending([&] { all_reduce(10)(group); }));
  }
}

// Only one rank reduces a number between two training steps.
void lonely_reduce(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Net());
  Collectives collectives(rank.group, rank.topology, at::kCPU, /*debug=*/false);
  const std::string text = ending([&] {
    for (int step = 0; step < 3; ++step) {
      const auto [output, side] = model(input_of(rank.rank(), step), true);
      (output.pow(2).mean() + side.pow(2).mean()).backward();
      model.data_parallel().zero_grad();
      if (step == 1 && rank.rank() == 0) collectives.reduce({at::ones({1})}, Reduction::mean);
    }
  });
  say("error", text);
}

// Rank 1 misses one of rank 0's sums and joins the next one. how: "memory" or "no_memory".
void after_a_timeout(const Arguments& how) {
  const Rank rank;
  const ProcessGroupPtr group = fresh_group(rank, "late", how[0], std::chrono::milliseconds(300));
  if (rank.rank() == 0) say("first", ending([&] { all_reduce(100)(group); }));
  barrier(rank.group);
  for (const char* name : {"second", "third"}) {
    say(name, ending([&] { all_reduce(100)(group); }));
  }
}

}  // namespace muster
