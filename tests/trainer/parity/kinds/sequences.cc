// Sequences: a state-space scan, a state that is carried on, packed and padded sequences, alignment
// (sequences.py).
#include <memory>

#include "parity/kinds/kind.h"

namespace parity {
namespace {

namespace F = torch::nn::functional;
using torch::nn::Embedding;
using torch::nn::Linear;
using torch::nn::LinearOptions;

// A diagonal state-space layer: state = decay * state + inputs, one step of time after the other.
struct Scan : torch::nn::Module {
  Scan() {
    decay = register_parameter("decay", torch::empty({12}));
    inputs = register_module("inputs", Linear(LinearOptions(8, 12).bias(false)));
    output = register_module("output", Linear(12, 5));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor kept = torch::sigmoid(decay);
    at::Tensor state = torch::zeros({x.size(0), 12});
    std::vector<at::Tensor> outputs;
    for (int64_t time = 0; time < x.size(1); ++time) {
      state = kept * state + inputs(x.select(1, time));
      outputs.push_back(torch::tanh(output(state)));
    }
    return torch::stack(outputs, 1).mean(1);
  }
  at::Tensor decay;
  Linear inputs{nullptr}, output{nullptr};
};

void state_space_scan(Kind& kind) {
  auto net = std::make_shared<Scan>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor logits = model(draws.normal({4, 10, 8}));
    kind.step(F::cross_entropy(logits, draws.integers(5, {4})), optimizer, /*clip_norm=*/0.5);
  }
  kind.end(*net);
}

using LstmState = std::tuple<at::Tensor, at::Tensor>;

struct Carried : torch::nn::Module {
  Carried() {
    const auto options = torch::nn::LSTMOptions(6, 10).num_layers(2).batch_first(true);
    lstm = register_module("lstm", torch::nn::LSTM(options));
    output = register_module("output", Linear(10, 6));
  }
  std::tuple<at::Tensor, LstmState> forward(const at::Tensor& x, const LstmState& before) {
    auto [outputs, state] = lstm(x, before);
    return {output(outputs.select(1, -1)), state};
  }
  torch::nn::LSTM lstm{nullptr};
  Linear output{nullptr};
};

void carried_lstm_state(Kind& kind) {
  auto net = std::make_shared<Carried>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  LstmState state(torch::zeros({2, 4, 10}), torch::zeros({2, 4, 10}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const auto [logits, next] = model(draws.normal({4, 5, 6}), state);
    state = {std::get<0>(next).detach(), std::get<1>(next).detach()};
    kind.step(F::cross_entropy(logits, draws.integers(6, {4})), optimizer, /*clip_norm=*/1.0);
  }
  kind.note(std::get<0>(state).sum());
  kind.note(std::get<1>(state).sum());
  kind.end(*net);
}

// Documents one after another in a row: attention stays within a document, and positions restart at
// each.
struct PackedRows : torch::nn::Module {
  PackedRows() {
    token = register_module("token", Embedding(20, 16));
    position = register_module("position", Embedding(16, 16));
    qkv = register_module("qkv", Linear(16, 48));
    head = register_module("head", Linear(16, 20));
  }
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& positions,
                     const at::Tensor& documents) {
    const at::Tensor x = token(tokens) + position(positions);
    // Python's linear layer; see models.cc.
    const auto parts = at::linear(x, qkv->weight, qkv->bias)
                           .view({x.size(0), x.size(1), 3, 2, 8})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const at::Tensor same = documents.unsqueeze(2) == documents.unsqueeze(1);
    const at::Tensor mask = (same & torch::ones({16, 16}, at::kBool).tril()).unsqueeze(1);
    const at::Tensor y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], mask);
    return at::linear(x + y.transpose(1, 2).reshape(x.sizes()), head->weight, head->bias);
  }
  Embedding token{nullptr}, position{nullptr};
  Linear qkv{nullptr}, head{nullptr};
};

void packed_attention(Kind& kind) {
  auto net = std::make_shared<PackedRows>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor tokens = draws.integers(20, {3, 17}), cut = 4 + draws.integers(8, {3, 1});
    const at::Tensor places = torch::arange(16).expand({3, 16});
    const at::Tensor documents = (places >= cut).to(at::kLong);
    const at::Tensor following = tokens.slice(1, 1).masked_fill(places == cut - 1, -100);
    const at::Tensor logits = model(tokens.slice(1, 0, 16), places - documents * cut, documents);
    // The mean over the tokens of all ranks, which have different numbers of them.
    const at::Tensor count =
        kind.accelerator.reduce((following != -100).sum(), muster::Reduction::sum);
    const at::Tensor loss = F::cross_entropy(logits.view({-1, 20}), following.reshape(-1),
                                             F::CrossEntropyFuncOptions().reduction(torch::kSum));
    kind.step(loss * kind.accelerator.num_processes() / count, optimizer);
  }
  kind.end(*net);
}

struct PackedGru : torch::nn::Module {
  PackedGru() {
    gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(6, 10).batch_first(true)));
    output = register_module("output", Linear(10, 4));
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& lengths) {
    const auto packed =
        torch::nn::utils::rnn::pack_padded_sequence(x, lengths, /*batch_first=*/true, false);
    return output(std::get<1>(gru->forward_with_packed_input(packed)).select(0, 0));
  }
  torch::nn::GRU gru{nullptr};
  Linear output{nullptr};
};

void packed_gru(Kind& kind) {
  auto net = std::make_shared<PackedGru>();
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::SGD(net->parameters(), {.lr = 0.1, .momentum = 0.9}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor x = draws.normal({5, 7, 6});
    const at::Tensor logits = model(x, 1 + draws.integers(7, {5}));
    kind.step(F::cross_entropy(logits, draws.integers(4, {5})), optimizer);
  }
  kind.end(*net);
}

void ctc_alignment(Kind& kind) {
  torch::nn::Sequential net(torch::nn::Conv1d(torch::nn::Conv1dOptions(6, 12, 3).padding(1)),
                            torch::nn::ReLU(),
                            torch::nn::Conv1d(torch::nn::Conv1dOptions(12, 7, 1)));
  kind.start(*net);
  auto [model, optimizer] =
      kind.accelerator.prepare(net, muster::AdamW(net->parameters(), {.lr = 1e-2}));
  for (int64_t step = 0; step < 20; ++step) {
    Draws draws = kind.draws(step);
    const at::Tensor out = model(draws.normal({3, 6, 12}));
    const at::Tensor scores = out.permute({2, 0, 1}).log_softmax(2);
    const at::Tensor targets = 1 + draws.integers(6, {3, 4}), lengths = 1 + draws.integers(4, {3});
    kind.step(F::ctc_loss(scores, targets, torch::full({3}, 12, at::kLong), lengths), optimizer);
  }
  kind.end(*net);
}

}  // namespace

Kinds sequence_kinds() {
  return {{"state_space_scan", state_space_scan},
          {"carried_lstm_state", carried_lstm_state},
          {"packed_attention", packed_attention},
          {"packed_gru", packed_gru},
          {"ctc_alignment", ctc_alignment}};
}

}  // namespace parity
