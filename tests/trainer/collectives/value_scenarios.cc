// Every function of Collectives on every dtype it supports, and on empty, ragged, 0-d, undefined
// and non-contiguous tensors.
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "collectives/scenarios.h"
#include "muster/values/nested.h"

namespace muster {
namespace {

void gathers(Collectives& c) {
  const int world = c.world_size();
  const std::vector<at::ScalarType> types = {
      at::kFloat,        at::kDouble, at::kHalf,         at::kBFloat16, at::kLong,
      at::kInt,          at::kShort,  at::kChar,         at::kByte,     at::kBool,
      at::kComplexFloat, at::kUInt16, at::kFloat8_e4m3fn};
  const std::vector<std::vector<int64_t>> shapes = {{},     {3},       {2, 3}, {0, 4},
                                                    {2, 0}, {1, 2, 3}, {300},  {700, 700}};
  for (const at::ScalarType type : types) {
    Tensors own;
    std::vector<Tensors> all(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      own.push_back(of_rank(c.rank(), shapes[i], type));
      for (int rank = 0; rank < world; ++rank) {
        const at::Tensor other = of_rank(rank, shapes[i], type);
        all[i].push_back(other.dim() == 0 ? other.view({1}) : other);
      }
    }
    const Tensors gathered = c.gather(own);
    for (size_t i = 0; i < shapes.size(); ++i) {
      const at::Tensor expected = at::cat(all[i]);
      CHECK_THAT(gathered[i].sizes() == expected.sizes());
      CHECK_THAT(gathered[i].scalar_type() == type);
      CHECK_THAT(same(gathered[i].view({-1}).view(at::kByte), expected.view({-1}).view(at::kByte)));
    }
  }
  // Non-contiguous, requiring a gradient, undefined; the result aliases nothing.
  const at::Tensor wide = of_rank(c.rank(), {3, 2}).t();
  const at::Tensor parameter = of_rank(c.rank(), {2}).requires_grad_();
  const Tensors gathered = c.gather({wide, parameter, at::Tensor()});
  CHECK_THAT(same(gathered[0].narrow(0, 2 * c.rank(), 2), wide.contiguous()));
  CHECK_THAT(!gathered[1].requires_grad() && !gathered[1].is_alias_of(parameter));
  CHECK_THAT(!gathered[2].defined());
  CHECK_THAT(c.gather({}).empty());
}

void gathers_ragged(Collectives& c) {
  const int world = c.world_size();
  const auto expected = [&](const std::function<at::Tensor(int)>& of) {
    Tensors all;
    for (int rank = 0; rank < world; ++rank) all.push_back(of(rank));
    return at::cat(all);
  };
  // The last rank has the most, rank 0 none of the first.
  const auto rows = [](int rank) { return of_rank(rank, {rank, 3}); };
  const auto bools = [](int rank) { return of_rank(rank, {5 - rank}).gt(1); };
  const auto none = [](int) { return at::empty({0, 2}, at::kLong); };
  const Tensors all = c.gather_ragged({rows(c.rank()), bools(c.rank()), none(c.rank()),
                                       at::Tensor(), at::scalar_tensor(c.rank(), at::kLong)});
  CHECK_THAT(same(all[0], expected(rows)));
  CHECK_THAT(same(all[1], expected(bools)));
  CHECK_THAT(same(all[2], expected(none)));
  CHECK_THAT(!all[3].defined());
  CHECK_THAT(same(all[4], at::arange(world)));
}

void reduces(Collectives& c) {
  const int world = c.world_size();
  const auto values = [&](at::ScalarType type) {
    Tensors all;
    for (int rank = 0; rank < world; ++rank) all.push_back(of_rank(rank, {7}).to(type));
    return at::stack(all);
  };
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong,
                                    at::kInt, at::kShort, at::kChar, at::kByte}) {
    const at::Tensor all = values(type);
    const at::Tensor own = all[c.rank()];
    const at::Tensor exact = all.to(at::kDouble);
    CHECK_THAT(same(c.reduce({own}, Reduction::sum)[0], exact.sum(0).to(type)));
    // Together with one that is too large to be sent with the comparison of the calls.
    CHECK_THAT(same(c.reduce({own, at::zeros({400})}, Reduction::sum)[0], exact.sum(0).to(type)));
    CHECK_THAT(same(c.reduce({at::zeros({400}), own}, Reduction::min)[1], exact.amin(0).to(type)));
    CHECK_THAT(same(c.reduce({own}, Reduction::max)[0], exact.amax(0).to(type)));
    CHECK_THAT(same(c.reduce({own}, Reduction::min)[0], exact.amin(0).to(type)));
    if (at::isFloatingType(type)) {
      CHECK_THAT(
          at::allclose(c.reduce({own}, Reduction::mean)[0].to(at::kDouble), exact.mean(0), 0.01));
      CHECK_THAT(at::allclose(c.reduce({own}, Reduction::sum, 0.25)[0].to(at::kDouble),
                              exact.sum(0) * 0.25, 0.01));
    } else {
      CHECK_THAT(error_of([&] {
                   c.reduce({own}, Reduction::mean);
                 }).starts_with("invalid_argument reduce: the mean of int") ||
                 type == at::kByte);
      CHECK_THAT(error_of([&] {
                   c.reduce({own}, Reduction::sum, 0.5);
                 }).starts_with("invalid_argument reduce: a scale of "));
    }
    CHECK_THAT(same(own, values(type)[c.rank()]));  // the input is unchanged
  }
  const at::Tensor is_first = at::full({2}, c.rank() == 0, at::kBool);
  CHECK_THAT(same(c.reduce({is_first}, Reduction::sum)[0], at::ones({2}, at::kBool)));
  CHECK_THAT(same(c.reduce({is_first}, Reduction::min)[0], at::full({2}, world == 1, at::kBool)));
  CHECK_THAT(
      same(c.reduce({is_first, at::zeros({400})}, Reduction::max)[0], at::ones({2}, at::kBool)));
  const at::Tensor complex = at::complex(at::ones({2}), at::full({2}, c.rank() + 1.0f));
  const at::Tensor total = c.reduce({complex}, Reduction::sum)[0];
  CHECK_THAT(at::imag(total)[0].item<float>() == world * (world + 1) / 2);
  CHECK_THAT(
      error_of([&] { c.reduce({complex}, Reduction::max); }).starts_with("invalid_argument"));

  // Many at once: packed and not, of several dtypes, without elements, undefined.
  Tensors mixed = {at::scalar_tensor(c.rank()),
                   of_rank(c.rank(), {50'000}),
                   at::empty({0, 3}),
                   at::Tensor(),
                   of_rank(c.rank(), {2, 2}).t(),
                   at::full({3}, c.rank(), at::kLong)};
  const Tensors sums = c.reduce(mixed, Reduction::sum);
  const float triangle = static_cast<float>(world) * static_cast<float>(world - 1) / 2;
  CHECK_THAT(sums[0].dim() == 0 && sums[0].item<float>() == triangle);
  CHECK_THAT(sums[1][10].item<float>() == 5.0f * static_cast<float>(world) + triangle);
  CHECK_THAT(sums[2].sizes() == mixed[2].sizes() && !sums[3].defined());
  CHECK_THAT(same(sums[4], of_rank(0, {2, 2}).t() * world + triangle));
  CHECK_THAT(sums[5][0].item<float>() == triangle && sums[5].scalar_type() == at::kLong);
}

void packs(Collectives& c) {
  const int world = c.world_size();
  const double triangle = world * (world - 1) / 2.0;
  Tensors numbers;
  for (int i = 0; i < 20; ++i) numbers.push_back(at::scalar_tensor(c.rank() + i, at::kFloat));
  numbers.push_back(at::scalar_tensor(int64_t{1} << 40, at::kLong));
  numbers.push_back(at::full({1, 1}, true, at::kBool));
  PackedReduction sums = c.start_reduce(numbers, Reduction::sum);
  PackedReduction means = c.start_reduce(numbers, Reduction::mean);
  // Other collectives run between start and finish.
  const at::Tensor other = c.reduce({at::ones({3})}, Reduction::sum)[0];
  CHECK_THAT(other[0].item<float>() == static_cast<float>(world));
  const std::vector<double> mean = means.finish();
  const std::vector<double> sum = sums.finish();
  for (int i = 0; i < 20; ++i) {
    CHECK_THAT(sum[i] == triangle + i * world);
    CHECK_THAT(mean[i] == (triangle + i * world) / world);
  }
  CHECK_THAT(sum[20] == static_cast<double>(world) * static_cast<double>(int64_t{1} << 40));
  CHECK_THAT(sum[21] == world);
  CHECK_THAT(c.reduce_packed({at::scalar_tensor(c.rank())}, Reduction::max)[0] == world - 1);
  CHECK_THAT(c.reduce_packed({}, Reduction::sum).empty());
  c.start_reduce({at::scalar_tensor(1)}, Reduction::sum);  // dropped
  c.wait();
  CHECK_THAT(error_of([&] {
               c.start_reduce({at::ones({2})}, Reduction::sum);
             }).starts_with("invalid_argument"));
}

void pads(Collectives& c) {
  const int world = c.world_size();
  const int64_t own = c.rank() + 1;
  const at::Tensor behind = c.pad_across_processes({at::ones({own, 2})}, 0, 7)[0];
  CHECK_THAT(behind.sizes() == at::IntArrayRef({world, 2}));
  CHECK_THAT(same(behind.narrow(0, 0, own), at::ones({own, 2})));
  CHECK_THAT(same(behind.narrow(0, own, world - own), at::full({world - own, 2}, 7.0)));
  const at::Tensor before =
      c.pad_across_processes({at::ones({2, own}, at::kLong)}, -1, -100, true)[0];
  CHECK_THAT(same(before.narrow(1, 0, world - own), at::full({2, world - own}, -100, at::kLong)));
  CHECK_THAT(before.scalar_type() == at::kLong);
  // No such dimension, undefined, bool, several at once.
  const Tensors mixed = c.pad_across_processes(
      {at::scalar_tensor(1), at::Tensor(), at::ones({own}, at::kBool), at::ones({3, own})}, 1);
  CHECK_THAT(mixed[0].dim() == 0 && !mixed[1].defined() && mixed[2].size(0) == own);
  CHECK_THAT(mixed[3].size(1) == world);
  CHECK_THAT(error_of([&] {
               c.pad_across_processes({at::ones({1}, at::kLong)}, 0, 0.5);
             }).find("pad_index 0.5 cannot be represented in dtype int64") != std::string::npos);
}

void broadcasts(Collectives& c) {
  const int last = c.world_size() - 1;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kBool, at::kShort}) {
    const Tensors own = {of_rank(c.rank(), {2, 3}, type), of_rank(c.rank(), {}, type),
                         at::empty({0}, type), at::Tensor(), of_rank(c.rank(), {3, 2}, type).t()};
    const Tensors received = c.broadcast(own, last);
    CHECK_THAT(same(received[0], of_rank(last, {2, 3}, type)));
    CHECK_THAT(same(received[1], of_rank(last, {}, type)));
    CHECK_THAT(received[2].numel() == 0 && !received[3].defined());
    CHECK_THAT(same(received[4], of_rank(last, {3, 2}, type).t()));
    CHECK_THAT(same(own[0], of_rank(c.rank(), {2, 3}, type)));
  }
  CHECK_THAT(error_of([&] {
               c.broadcast({at::ones({1})}, 9);
             }).starts_with("invalid_argument broadcast: there is no rank 9"));
  CHECK_THAT(error_of([&] { c.broadcast_object("x", -1); }).starts_with("invalid_argument"));
}

void objects(Collectives& c) {
  const int world = c.world_size();
  const std::string own(static_cast<size_t>(c.rank()) * 3, static_cast<char>('a' + c.rank()));
  const std::vector<std::string> all = c.gather_object(own);
  CHECK_THAT(all.size() == static_cast<size_t>(world) && all[0].empty());
  CHECK_THAT(all[static_cast<size_t>(c.rank())] == own);
  std::vector<std::string> items(static_cast<size_t>(c.rank()), "of rank");
  items.push_back(std::string("\0 last", 6));
  const std::vector<std::string> joined = c.gather_object(items);
  CHECK_THAT(joined.size() == static_cast<size_t>(world * (world + 1) / 2));
  CHECK_THAT(joined[0] == items.back());
  const int last = world - 1;
  CHECK_THAT(c.broadcast_object(own, last) ==
             std::string(static_cast<size_t>(last) * 3, static_cast<char>('a' + last)));
  const auto list = c.broadcast_object_list(
      c.rank() == last ? std::vector<std::string>{"", "two"} : std::vector<std::string>{}, last);
  CHECK_THAT((list == std::vector<std::string>{"", "two"}));
  CHECK_THAT(c.any_rank(c.rank() == last) && !c.any_rank(false) && c.any_rank(true));
  c.wait();
}

void scatters(Collectives& c) {
  const int from = c.world_size() - 1;
  const auto batch_of = [](int64_t samples) {
    return ScatterBatch{.tensors = {at::arange(samples * 2, at::kFloat).view({samples, 2}),
                                    at::arange(samples, at::kLong), at::Tensor(),
                                    at::scalar_tensor(0.5, at::kHalf), at::arange(samples).gt(2)},
                        .note = "epoch 3"};
  };
  for (const int64_t samples : {6, 6, 7, 1, 0}) {
    const ScatterBatch whole = batch_of(samples);
    const auto share = c.scatter(c.rank() == from ? &whole : nullptr, from);
    const SplitRange range = split_range(samples, c.rank(), c.world_size());
    CHECK_THAT(share && share->batch_size == samples && share->note == "epoch 3");
    CHECK_THAT(share->begin == range.begin && share->end == range.end);
    for (size_t i = 0; i < whole.tensors.size(); ++i) {
      if (i == 2) {
        CHECK_THAT(!share->tensors[i].defined());
      } else {
        CHECK_THAT(
            same(share->tensors[i], slice_tensors(whole.tensors[i], range.begin, range.end)));
      }
    }
  }
  CHECK_THAT(!c.scatter(nullptr, from));
  // Errors of the scattering rank reach all ranks.
  const ScatterBatch uneven{.tensors = {at::ones({2}), at::ones({3})}};
  const std::string refused =
      error_of([&] { c.scatter(c.rank() == from ? &uneven : nullptr, from); });
  CHECK_THAT(refused.find("tensor 1 has 3 samples") != std::string::npos);
  if (c.world_size() > 1) {
    const std::string failure = error_of([&] {
      if (c.rank() == from) return c.scatter_failure("images.bin: sample 7 is cut", from);
      c.scatter(nullptr, from);
    });
    CHECK_THAT((c.rank() == from) == (failure == "no error"));
    CHECK_THAT(c.rank() == from || failure.find("sample 7 is cut") != std::string::npos);
  }
  // Batches still arrive afterwards.
  const ScatterBatch last = batch_of(4);
  CHECK_THAT(c.scatter(c.rank() == from ? &last : nullptr, from)->batch_size == 4);
}

// Maxima and minima of signed and infinite numbers propagate NaN from any rank, in tensors sent
// with the comparison, through shared memory and through sockets.
void extremes(Collectives& c) {
  const int world = c.world_size();
  const double inf = std::numeric_limits<double>::infinity();
  const auto of = [&](int rank, int64_t size, at::ScalarType type) {
    at::Tensor values = at::arange(size, at::kDouble).remainder(97) * (rank % 2 == 0 ? 0.25 : -0.5);
    values = values + rank - 11;
    values[size / 2] = std::nan("");
    if (size > 4) values[0] = rank == 0 ? -inf : 1.0;
    if (size > 4) values[1] = rank == world - 1 ? inf : -1.0;
    // One of each rank's own.
    if (size > 40) values[20 + rank] = std::nan("");
    return values.to(type);
  };
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const int64_t size : {1, 9, 300, 70'000, 1'200'000}) {
      Tensors all;
      for (int rank = 0; rank < world; ++rank) all.push_back(of(rank, size, type));
      for (const Reduction reduction : {Reduction::max, Reduction::min}) {
        const at::Tensor rows = at::stack(all);
        const at::Tensor expected =
            reduction == Reduction::max ? at::amax(rows, 0) : at::amin(rows, 0);
        const at::Tensor found = c.reduce({of(c.rank(), size, type)}, reduction)[0];
        CHECK_THAT(at::allclose(found, expected, 0, 0, /*equal_nan=*/true));
        CHECK_THAT(found.isnan()[size / 2].item<bool>());
      }
    }
  }
  // One rank's alone.
  for (int broken = 0; broken < world; ++broken) {
    const at::Tensor own = torch::tensor({c.rank() == broken ? std::nan("") : 1.0, 2.0 - c.rank()});
    for (const Reduction reduction : {Reduction::max, Reduction::min}) {
      CHECK_THAT(c.reduce({own}, reduction)[0][0].isnan().item<bool>());
      CHECK_THAT(std::isnan(c.reduce_packed({own[0], own[1]}, reduction)[0]));
    }
    CHECK_THAT(c.reduce_packed({own[0], own[1]}, Reduction::max)[1] == 2.0);
    CHECK_THAT(c.reduce_packed({own[0], own[1]}, Reduction::min)[1] == 3.0 - world);
    CHECK_THAT(c.reduce({own}, Reduction::min, 2.0)[0][1].item<double>() == 2 * (3.0 - world));
  }
}

}  // namespace

Scenarios value_scenarios() {
  return {{"extremes", extremes},     {"gathers", gathers}, {"gathers_ragged", gathers_ragged},
          {"reduces", reduces},       {"packs", packs},     {"pads", pads},
          {"broadcasts", broadcasts}, {"objects", objects}, {"scatters", scatters}};
}

}  // namespace muster
