// Models on several ranks: errors, uneven inputs, local SGD, timings.
#include <cstdlib>
#include <stdexcept>

#include "muster/parallel/local_sgd.h"
#include "parallel/rank_model.h"

namespace muster {
namespace {

// One weight w and the loss w·x: the gradient is x, so every number is known in advance.
struct LineImpl : torch::nn::Module {
  LineImpl() { weight = register_parameter("weight", torch::zeros({1}, at::kDouble)); }
  at::Tensor forward(const at::Tensor& x) { return (weight * x).sum(); }
  double value() const { return weight.item<double>(); }
  at::Tensor weight;
};
TORCH_MODULE(Line);

// Like Line, with an unused weight.
struct HalfImpl : torch::nn::Module {
  HalfImpl() {
    weight = register_parameter("weight", torch::zeros({1}, at::kDouble));
    idle = register_parameter("idle", torch::zeros({1}, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) { return (weight * x).sum(); }
  at::Tensor weight, idle;
};
TORCH_MODULE(Half);

void step(Parallel<Line>& model, double x) {
  model.data_parallel().zero_grad();
  model(torch::full({1}, x, at::kDouble)).backward();
  descend(*model.unwrap(), 1.0);
}

template <typename Body>
void say_error(const std::string& name, const Body& body) {
  try {
    body();
    say(name, std::string("none"));
  } catch (const std::exception& error) {
    say(name, std::string(error.what()));
  }
}

}  // namespace

void unused(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Net());
  const auto forward = [&] { return std::get<0>(model(input_of(rank.rank(), 0), false)); };
  forward().pow(2).mean().backward();
  try {
    forward();
  } catch (const UnusedParametersError& error) {
    say("error", std::string(error.what()));
  }
  model.data_parallel().zero_grad();
  // Only one rank evaluates.
  if (rank.rank() == 0) {
    const torch::NoGradGuard no_grad;
    say("evaluates", forward().defined());
  }
}

void static_graph(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Half(), {.static_graph = true});
  std::string gradients;
  for (int i = 0; i < 3; ++i) {
    model.data_parallel().zero_grad();
    // The very first micro-batch, which records the graph, is inside NoSync too.
    for (int part = 0; part < 3; ++part) {
      std::optional<NoSync> no_sync;
      if (part < 2) no_sync.emplace(model.data_parallel());
      model(torch::full({1}, (rank.rank() + 1.0) * (part + 1) + i, at::kDouble)).backward();
    }
    gradients += std::to_string(model.unwrap()->weight.grad().item<double>()) + " ";
  }
  say("gradients", gradients);
  say("idle", model.unwrap()->idle.grad().defined());
}

void second_backward(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Line());
  const auto forward = [&](double x) {
    return model(torch::full({1}, x + rank.rank(), at::kDouble));
  };
  const at::Tensor first = forward(1), second = forward(10);
  first.backward();
  say_error("unannounced", [&] { second.backward(); });
  model.data_parallel().zero_grad();
  const at::Tensor third = forward(1), fourth = forward(10);
  for (const at::Tensor& loss : {third, fourth}) {
    model.data_parallel().before_backward(loss);
    loss.backward();
  }
  say("gradient", std::to_string(model.unwrap()->weight.grad().item<double>()));
}

void agreement(const Arguments& differences) {
  const Rank rank;
  const bool other = rank.rank() == 1;
  for (const std::string& what : differences) {
    DataParallelOptions options;
    Net net(other && what == "shape" ? 700 : 600);
    if (other && what == "frozen") net->second->weight.requires_grad_(false);
    if (other && what == "buffer") net->norm->register_buffer("more", torch::zeros({2}));
    if (other && what == "option") options.bucket_cap_mb = 7;
    if (other && what == "strides")
      net->second->weight.set_data(net->second->weight.t().contiguous().t());
    say_error(what, [&] { rank.prepare(net, options); });
  }
}

void join_numbers(const Arguments&) {
  const Rank rank;
  for (const bool by_all : {true, false}) {
    auto first = rank.prepare(Line());
    auto second = rank.prepare(Line());
    {
      const JoinUnevenInputs join({&first.data_parallel(), &second.data_parallel()},
                                  {.divide_by_initial_world_size = by_all});
      // Rank r has r + 1 batches: 1·2^r for the first model, 3·2^r for the second.
      for (int i = 0; i <= rank.rank(); ++i) {
        step(first, 1 << rank.rank());
        step(second, 3 * (1 << rank.rank()));
      }
    }
    const std::string name = by_all ? "by_all" : "by_active";
    say(name, std::to_string(first.unwrap()->value()));
    say(name + "_second", std::to_string(second.unwrap()->value()));
    // After the scope all ranks train together again.
    step(first, 1);
    say(name + "_after", std::to_string(first.unwrap()->value()));
  }
}

void join_edges(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Line());
  {
    // A rank without any batch.
    const JoinUnevenInputs join({&model.data_parallel()});
    if (rank.rank() == 1) step(model, 4);
  }
  say("without_batches", std::to_string(model.unwrap()->value()));
  {
    // Windows of two micro-batches of which only the second is reduced.
    JoinUnevenInputs join({&model.data_parallel()});
    for (int i = 0; i < 1 + rank.rank(); ++i) {
      model.data_parallel().zero_grad();
      {
        const NoSync no_sync(model.data_parallel());
        model(torch::full({1}, 1.0, at::kDouble)).backward();
      }
      model(torch::full({1}, 3.0, at::kDouble)).backward();
      descend(*model.unwrap(), 1.0);
    }
    join.finish();
    say("accumulated", std::to_string(model.unwrap()->value()));
  }
  say_error("throws", [&] {
    const JoinUnevenInputs join({&model.data_parallel()}, {.throw_on_early_termination = true});
    for (int i = 0; i < 1 + rank.rank(); ++i) step(model, 1);
  });
  say_error("leaves", [&] {
    const JoinUnevenInputs join({&model.data_parallel()});
    throw std::runtime_error("all ranks leave");
  });
  say_error("nested", [&] {
    const JoinUnevenInputs outer({&model.data_parallel()});
    const JoinUnevenInputs inner({&model.data_parallel()});
  });
  {
    const JoinUnevenInputs join({&model.data_parallel()}, {.enable = false});
    step(model, 1);
  }
  say("end", std::to_string(model.unwrap()->value()));
}

void local_sgd(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Line());
  std::string values;
  {
    LocalSGD local(model.data_parallel(), {.steps = 2});
    for (int i = 0; i < 3; ++i) {
      step(model, rank.rank() + 1);
      local.step();
      values += std::to_string(model.unwrap()->value()) + " ";
    }
  }
  say("values", values + std::to_string(model.unwrap()->value()));
  step(model, rank.rank() + 1);
  say("after", std::to_string(model.unwrap()->value()));
  {
    LocalSGD disabled(model.data_parallel(), {.steps = 2, .enabled = false});
    step(model, rank.rank() + 1);
    disabled.step();
    say("disabled", std::to_string(model.unwrap()->value()));
  }
  say_error("refused", [&] { LocalSGD wrong(model.data_parallel(), {.steps = 0}); });
}

void timings(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Net(), {.timing_sample_rate = 5});
  DataParallel& data_parallel = model.data_parallel();
  say("before", data_parallel.last_timings().has_value());
  std::string iterations;
  bool sane = true;
  for (int i = 0; i < 22; ++i) {
    data_parallel.zero_grad();
    auto [output, side] = model(input_of(rank.rank(), i), true);
    (output.pow(2).mean() + side.pow(2).mean()).backward();
    const auto seen = data_parallel.last_timings();
    if (!seen) continue;
    iterations += std::to_string(seen->iteration) + " ";
    sane = sane && seen->forward_compute > 0 && seen->backward_compute > 0 &&
           seen->communication > 0 && seen->overlap >= 0 && seen->overlap <= seen->communication &&
           seen->backward_compute < 60 && seen->communication < 60;
  }
  say("iterations", iterations);
  say("sane", sane);
}

void alone(const Arguments&) {
  const Rank rank;
  auto model = rank.prepare(Line(), {.find_unused_parameters = true, .static_graph = true});
  {
    const JoinUnevenInputs join({&model.data_parallel()});
    LocalSGD local(model.data_parallel(), {.steps = 1});
    step(model, 2);
    local.step();
  }
  say("value", std::to_string(model.unwrap()->value()));
  say("timings", model.data_parallel().last_timings().has_value());
  say("buckets", std::to_string(model.data_parallel().bucket_order().size()));
  say("side_group", static_cast<bool>(make_side_group(rank.group, "x", {})));
  abort_process_group(rank.group);
  say_error("refused", [&] { rank.prepare(Line(), {.bucket_cap_mb = 0}); });
}

}  // namespace muster
