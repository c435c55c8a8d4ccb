// The program that the ranks of recomputed_test run: a model with and without checkpointed segments
// under data parallelism. Prints the fingerprint of the gradients of three steps, or the error.
#include <array>
#include <exception>

#include "muster/base/run_main.h"
#include "muster/memory/activation_checkpoint.h"
#include "parallel/rank_model.h"

namespace muster {
namespace {

// Three layers; the middle one is used the given number of times.
struct StackImpl : torch::nn::Module {
  StackImpl() {
    first = register_module("first", torch::nn::Linear(16, 32));
    middle = register_module("middle", torch::nn::Linear(32, 32));
    last = register_module("last", torch::nn::Linear(32, 4));
  }
  at::Tensor forward(const at::Tensor& input, bool checkpointed, int uses) {
    at::Tensor x = torch::relu(first(input));
    const auto part = [this](const at::Tensor& x) {
      return torch::dropout(torch::relu(middle(x)), 0.25, true);
    };
    for (int use = 0; use < uses; ++use) x = checkpointed ? checkpoint(part, x) : part(x);
    return checkpointed ? checkpoint(last, x) : last(x);
  }
  torch::nn::Linear first{nullptr}, middle{nullptr}, last{nullptr};
};
TORCH_MODULE(Stack);

std::string train(const Rank& rank, const DataParallelOptions& options, bool checkpointed,
                  int uses) {
  torch::manual_seed(5 + rank.rank());
  Stack stack;
  fill(*stack, rank.rank());
  try {
    auto model = rank.prepare(stack, options);
    std::vector<at::Tensor> gradients;
    for (int step = 0; step < 3; ++step) {
      model.data_parallel().zero_grad();
      model(input_of(rank.rank(), step), checkpointed, uses).square().sum().backward();
      for (const at::Tensor& parameter : stack->parameters()) {
        gradients.push_back(parameter.grad().clone());
      }
      descend(*stack, 1e-3);
    }
    return std::to_string(fingerprint(gradients));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return text.find("mark a variable ready only once") == std::string::npos ? text : "ready twice";
  }
}

int scenario(int, char** argv) {
  const Rank rank;
  const std::string name = argv[1];
  const int uses = name == "twice" || name == "twice_static" ? 2 : 1;
  DataParallelOptions options;
  options.static_graph = name == "static" || name == "twice_static";
  options.find_unused_parameters = name == "find_unused";
  say("plain", train(rank, options, false, uses));
  say("checkpointed", train(rank, options, true, uses));
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) { return muster::run_main(argc, argv, muster::scenario); }
