// The program that checkpoint_process_test runs as ranks: checkpoint_ranks SCENARIO MODE DIRECTORY.
// It prints lines "name value" and exits with 0 unless an exception escapes.
#include <sys/resource.h>
#include <torch/torch.h>

#include "checkpoint/checkpoint_reader.h"
#include "muster/base/errors.h"
#include "saving_rank.h"

namespace {

using namespace muster;  // NOLINT: a program of one namespace

struct Rank : SavingRank {
  Rank(const std::string& mode, const std::string& directory)
      : SavingRank(mode, directory, {.keep_last = 2}) {}

  CheckpointContent content(int64_t step) const {
    CheckpointContent content;
    content.manifest.step = step;
    content.manifest.data.push_back({1, 2, step, -1, {}});
    content.own["rng_cpu"] = torch::full({16}, step + topology.rank, at::kByte);
    if (topology.rank != 0) return content;
    content.global["model/w"] = torch::full({300, 200}, step, at::kFloat);
    content.global["model/tied"] = content.global["model/w"];
    content.global["scheduler/last_step"] = torch::tensor(step);
    return content;
  }

  void save(int64_t step) {
    if (asynchronous) {
      saver->save(content(step), kNoWorker);
      saver->wait();
    } else {
      saver->save_now(content(step), kNoWorker);
    }
  }

  // An existing checkpoint must be complete and of a single step. 0: there is none.
  int64_t load() const {
    const auto reader = open_checkpoint("", directory, topology, group);
    if (!reader) return 0;
    const int64_t step = reader->manifest().step;
    bool intact = false;
    together(group, [&] {
      const at::Tensor weight = torch::zeros({300, 200});
      reader->under("model")->read_into("w", weight);
      const TensorMap own = reader->own();
      intact = weight.equal(torch::full({300, 200}, step, at::kFloat)) &&
               reader->read("model").at("tied").equal(weight) &&
               reader->read("scheduler").at("last_step").item<int64_t>() == step &&
               reader->manifest().data.at(0).consumed == step &&
               (!reader->same_world_size() ||
                own.at("rng_cpu").equal(torch::full({16}, step + topology.rank, at::kByte)));
    });
    say("intact", intact ? "yes" : "no");
    say("own", reader->own().empty() ? "none" : "some");
    return step;
  }
};

// Loads, saves one checkpoint, and is killed in the next.
void survive(Rank& rank) {
  const int64_t start = rank.load();
  say("resumed", std::to_string(start));
  rank.save(start + 1);
  rank.deadly = true;
  rank.save(start + 2);
}

// During the second of three saves, the last rank cannot write files above 100 bytes.
void without_space(Rank& rank) {
  rank.save(1);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit = before;
  limit.rlim_cur = 100;
  ::signal(SIGXFSZ, SIG_IGN);
  const bool is_last = rank.topology.rank == rank.topology.world_size - 1;
  if (is_last) ::setrlimit(RLIMIT_FSIZE, &limit);
  try {
    rank.save(2);
  } catch (const CheckpointError& error) {
    ::setrlimit(RLIMIT_FSIZE, &before);
    say("error", error.what());
  }
  rank.save(3);
}

// Many saves that overlap with collectives of the training thread.
void overlap(Rank& rank) {
  for (int64_t step = 1; step <= 20; ++step) {
    rank.saver->save(rank.content(step), kNoWorker);
    at::Tensor sum = torch::full({1000}, step, at::kFloat);
    for (int i = 0; i < 5; ++i) {
      std::vector<at::Tensor> tensors = {sum};
      rank.group->getBackend(c10::kCPU)->allreduce(tensors)->wait();
      sum.div_(rank.topology.world_size);
    }
    if (!sum.equal(torch::full({1000}, step, at::kFloat))) say("mixed", std::to_string(step));
  }
  rank.saver->wait();
  say("resumed", std::to_string(rank.load()));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string scenario = argv[1];
  try {
    Rank rank(argv[2], argv[3]);
    if (scenario == "survive") survive(rank);
    if (scenario == "without_space") without_space(rank);
    if (scenario == "overlap") overlap(rank);
    if (scenario == "load") say("resumed", std::to_string(rank.load()));
  } catch (const std::exception& error) {
    say("error", error.what());
    return 1;
  }
  return 0;
}
