// Models whose work depends on the data: a graph net, experts, sparse embeddings, bags, tied layers
// (structures.py).
#include "parity/kinds/kind.h"
#include "parity/models.h"

namespace parity {
namespace {

namespace F = torch::nn::functional;
using torch::nn::Linear;
using torch::nn::ModuleList;

// Two rounds of messages along the edges, then the mean of the nodes.
struct GraphNet : torch::nn::Module {
  GraphNet() {
    messages = register_module("messages", ModuleList(Linear(16, 8), Linear(16, 8)));
    output = register_module("output", Linear(8, 3));
  }
  at::Tensor forward(at::Tensor nodes, const at::Tensor& edges) {
    const at::Tensor from = edges.select(0, 0), to = edges.select(0, 1);
    for (const auto& message : *messages) {
      const at::Tensor ends = torch::cat({nodes.index({from}), nodes.index({to})}, 1);
      nodes = nodes + torch::zeros_like(nodes).index_add(
                          0, to, torch::relu(message->as<Linear>()->forward(ends)));
    }
    return output(nodes.mean(0, /*keepdim=*/true));
  }
  ModuleList messages{nullptr};
  Linear output{nullptr};
};

void graph_net(Kind& kind) {
  auto net = std::make_shared<GraphNet>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const int64_t count = 6 + draws.integers(6, {1}).item<int64_t>();
    const at::Tensor nodes = draws.normal({count, 8}),
                     edges = draws.integers(count, {2, 3 * count});
    kind.step(F::cross_entropy(model(nodes, edges), draws.integers(3, {1})), optimizer,
              /*clip_norm=*/1.0);
  }
  kind.end(*net);
}

// Each row goes to two of four experts; an expert may get none.
struct Experts : torch::nn::Module {
  Experts() {
    router = register_module("router", Linear(8, 4));
    experts = register_module("experts", ModuleList());
    for (int i = 0; i < 4; ++i) experts->push_back(Perceptron(8, 12, 8));
    output = register_module("output", Linear(8, 5));
  }
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor scores = router(x).softmax(1);
    const auto [weights, chosen] = scores.topk(2, 1);
    at::Tensor mixed = torch::zeros_like(x);
    for (size_t place = 0; place < experts->size(); ++place) {
      const auto at = torch::where(chosen == static_cast<int64_t>(place));
      const at::Tensor out = experts->ptr(place)->as<Perceptron>()->forward(x.index({at[0]}));
      mixed = mixed.index_add(0, at[0], out * weights.index({at[0], at[1]}).unsqueeze(1));
    }
    return {output(x + mixed), scores.mean(0).square().sum()};
  }
  Linear router{nullptr}, output{nullptr};
  ModuleList experts{nullptr};
};

void route_to_experts(Kind& kind) {
  auto net = std::make_shared<Experts>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const auto [logits, balance] = model(draws.normal({6, 8}));
    kind.step(F::cross_entropy(logits, draws.integers(5, {6})) + 0.1 * balance, optimizer);
  }
  kind.end(*net);
}

struct SparseWords : torch::nn::Module {
  SparseWords() {
    const auto options = torch::nn::EmbeddingOptions(50, 8).sparse(true);
    words = register_module("words", torch::nn::Embedding(options));
    output = register_module("output", Linear(8, 4));
  }
  at::Tensor forward(const at::Tensor& which) { return output(words(which).mean(1)); }
  torch::nn::Embedding words{nullptr};
  Linear output{nullptr};
};

void sparse_embedding(Kind& kind) {
  auto net = std::make_shared<SparseWords>();
  kind.start(*net);
  auto [model, optimizer] = kind.accelerator.prepare(
      net,
      muster::SGD(net->parameters(), {.lr = 0.5, .implementation = muster::Implementation::plain}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor logits = model(draws.integers(50, {4, 6}));
    kind.step(F::cross_entropy(logits, draws.integers(4, {4})), optimizer);
  }
  kind.end(*net);
}

struct Bags : torch::nn::Module {
  Bags() {
    const auto options = torch::nn::EmbeddingBagOptions(50, 8).mode(torch::kMean);
    bags = register_module("bags", torch::nn::EmbeddingBag(options));
    output = register_module("output", Linear(8, 4));
  }
  at::Tensor forward(const at::Tensor& words, const at::Tensor& offsets) {
    return output(bags(words, offsets));
  }
  torch::nn::EmbeddingBag bags{nullptr};
  Linear output{nullptr};
};

void embedding_bags(Kind& kind) {
  auto net = std::make_shared<Bags>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::Adagrad(net->parameters(), {.lr = 0.1}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor words = draws.integers(50, {20});
    const at::Tensor offsets = torch::tensor({0, 3, 3, 11}, at::kLong);  // the second bag is empty
    kind.step(F::cross_entropy(model(words, offsets), draws.integers(4, {4})), optimizer);
  }
  kind.end(*net);
}

struct BorrowingLayerImpl : torch::nn::Module {
  explicit BorrowingLayerImpl(const at::Tensor& shared) {
    weight = register_parameter("weight", shared);
    bias = register_parameter("bias", torch::empty({shared.size(0)}));
  }
  at::Tensor weight, bias;
};
TORCH_MODULE(BorrowingLayer);

// One weight under two names, each with its own bias.
struct TiedLayers : torch::nn::Module {
  TiedLayers() {
    first = register_module("first", Linear(10, 10));
    second = register_module("second", BorrowingLayer(first->weight));
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::linear(torch::tanh(first(x)), second->weight, second->bias);
  }
  Linear first{nullptr};
  BorrowingLayer second{nullptr};
};

void tied_layers(Kind& kind) {
  auto net = std::make_shared<TiedLayers>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor logits = model(draws.normal({6, 10}));
    kind.step(F::cross_entropy(logits, draws.integers(10, {6})), optimizer);
  }
  kind.end(*net);
}

}  // namespace

Kinds structure_kinds() {
  return {{"graph_net", graph_net},
          {"experts", route_to_experts},
          {"sparse_embedding", sparse_embedding},
          {"embedding_bags", embedding_bags},
          {"tied_layers", tied_layers}};
}

}  // namespace parity
