// The C++ side of operations.py: the same calls on the same values, printed in the same lines
// "name dtype [shape] values" or "name text|text".
#include <cstdio>

#include "collectives/collectives.h"
#include "muster/values/nested.h"

namespace muster {
namespace {

using Tensors = std::vector<at::Tensor>;

void show(const std::string& name, const at::Tensor& tensor) {
  std::string text =
      name + " " + std::string(c10::getDtypeNames(tensor.scalar_type()).first) + " [";
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    text += (dim ? ", " : "") + std::to_string(tensor.size(dim));
  }
  text += "]";
  const at::Tensor values = tensor.to(at::kDouble).contiguous();
  for (int64_t i = 0; i < values.numel(); ++i) {
    char number[40];
    std::snprintf(number, sizeof(number), " %.9g", values.const_data_ptr<double>()[i]);
    text += number;
  }
  std::printf("%s\n", text.c_str());
}

void show(const std::string& name, const std::vector<std::string>& items) {
  std::string text = name;
  for (const std::string& item : items) text += "|" + item;
  std::printf("%s\n", text.c_str());
}

at::Tensor numbers(at::IntArrayRef shape, double start, at::ScalarType type = at::kFloat) {
  const at::Tensor flat = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (flat * 0.25 + start).to(type).reshape(shape);
}

std::vector<std::string> letters(int count) {
  std::vector<std::string> items;
  for (int i = 0; i < count; ++i) items.push_back(std::string(1, static_cast<char>('a' + i)));
  return items;
}

void gather_and_reduce(Collectives& c) {
  const double rank = c.rank();
  using Metrics = std::map<std::string, Tensors>;
  const Metrics metrics = {{"a", {numbers({2, 3}, rank), numbers({}, rank)}},
                           {"b", {numbers({3}, rank, at::kLong), numbers({0, 4}, rank)}}};
  const auto gathered = with_tensors(metrics, c.gather(flatten_tensors(metrics)));
  for (const auto& [key, tensors] : gathered) {
    for (const at::Tensor& tensor : tensors) show("gather " + key, tensor);
  }
  show("gather bool", c.gather({numbers({3}, rank).gt(0.3)})[0]);
  show("gather bfloat16", c.gather({numbers({3}, rank, at::kBFloat16)})[0]);
  show("gather_object", c.gather_object({"rank" + std::to_string(c.rank()), std::string("x y")}));
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor value = numbers({5}, rank * 3.3, type);
    show("reduce mean", c.reduce({value}, Reduction::mean)[0]);
    show("reduce sum", c.reduce({value}, Reduction::sum)[0]);
    show("reduce max", c.reduce({value}, Reduction::max)[0]);
    show("reduce scaled", c.reduce({value}, Reduction::sum, 0.5)[0]);
  }
  show("reduce long", c.reduce({numbers({5}, 4 - rank, at::kLong)}, Reduction::sum)[0]);
  show("reduce 0-d", c.reduce({numbers({}, rank)}, Reduction::mean)[0]);
}

void pad_and_broadcast(Collectives& c) {
  const int64_t own = c.rank() + 1;
  const auto pad = [&](const char* name, const at::Tensor& tensor, int64_t dim, int64_t index,
                       bool first) {
    const at::Tensor padded = c.pad_across_processes({tensor}, dim, index, first)[0];
    show(std::string("pad ") + name, padded);
    return padded;
  };
  show("pad gathered", c.gather({pad("rows", numbers({own, 2}, own), 0, 0, false)})[0]);
  pad("rows first", numbers({own, 2}, own), 0, 9, true);
  pad("columns", numbers({2, own}, own), 1, -1, false);
  pad("last, first", numbers({2, own}, own, at::kLong), -1, -100, true);
  pad("scalar", numbers({}, own), 0, 0, false);
  pad("no such dimension", numbers({own}, own), 3, 0, false);
  for (const int from : {0, 1}) {
    show("broadcast", c.broadcast({numbers({2, 2}, own), numbers({}, own, at::kLong)}, from)[0]);
    show("broadcast_object_list",
         c.broadcast_object_list({"of " + std::to_string(c.rank()), std::string("b")}, from));
  }
}

void split(Collectives& c) {
  for (const bool padding : {false, true}) {
    for (const int length : {1, 2, 3, 5, 8}) {
      const auto part = [&](const auto& value) {
        return split_between_processes(value, c.rank(), c.world_size(), padding);
      };
      show("split list", part(letters(length)));
      show("split tensor", part(numbers({length}, 1)));
      show("split rows", part(numbers({length, 2}, 1, at::kLong)));
      using Lists = std::map<std::string, std::vector<std::string>>;
      show("split dict", part(Lists{{"x", letters(length)}}).at("x"));
      const std::map<std::string, at::Tensor> tensors = {{"y", numbers({length, 1}, 2)},
                                                         {"z", numbers({length}, 3)}};
      show("split dict of tensors", part(tensors).at("y"));
      show("split dict of tensors", part(tensors).at("z"));
    }
  }
}

void alone() {
  show("concatenate", concatenate(Tensors{numbers({2, 2}, 0), numbers({1, 2}, 5)}));
  show("concatenate dim 1", concatenate(Tensors{numbers({2, 2}, 0), numbers({2, 1}, 5)}, 1));
  using Item = std::pair<at::Tensor, std::map<std::string, at::Tensor>>;
  const Item joined = concatenate(std::vector<Item>{{numbers({1}, 0), {{"k", numbers({2}, 1)}}},
                                                    {numbers({2}, 2), {{"k", numbers({1}, 3)}}}});
  show("concatenate nested", joined.first);
  show("concatenate nested", joined.second.at("k"));
  show("find_batch_size", at::scalar_tensor(find_batch_size(joined), at::kLong));
  show("slice_tensors", slice_tensors(joined, 1, 5).second.at("k"));
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kDouble, at::kLong}) {
    show("convert_to_fp32", convert_to_fp32(numbers({3}, 0, type)));
  }
  for (int64_t batch = 1; batch <= 9; ++batch) {
    for (int64_t ranks = 1; ranks <= 4; ++ranks) {
      show("pad_input_tensors", pad_input_tensors(numbers({batch, 2}, 1), batch, ranks));
    }
  }
}

}  // namespace
}  // namespace muster

int main() {
  using namespace muster;
  at::set_num_threads(1);
  const Topology topology = Topology::from_environment();
  Collectives c(
      make_process_group(topology, at::kCPU, {std::chrono::seconds(30), std::chrono::seconds(30)}),
      topology, at::kCPU, /*debug=*/false);
  gather_and_reduce(c);
  pad_and_broadcast(c);
  split(c);
  alone();
  c.wait();
  return 0;
}
