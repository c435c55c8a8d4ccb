// Values that hold tensors: types, order, and each helper on edge cases.
#include "muster/values/nested.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <unordered_map>

#include "muster/base/errors.h"

namespace muster {
namespace {

struct Batch {
  at::Tensor images;
  std::map<std::string, std::vector<at::Tensor>> extras;
  std::vector<std::string> names;
  int64_t epoch = 0;
  auto fields() { return std::tie(images, extras, names, epoch); }
};

struct OnlyPlain {
  int64_t number = 0;
  auto fields() { return std::tie(number); }
};
struct OnlyConst {
  at::Tensor tensor;
  auto fields() const { return std::tie(tensor); }
};

static_assert(Nested<at::Tensor> && Nested<const at::Tensor&> && Nested<Batch>);
static_assert(Nested<std::vector<std::array<at::Tensor, 2>>>);
static_assert(Nested<std::tuple<at::Tensor, std::string, std::optional<at::Tensor>>>);
static_assert(Nested<std::map<std::string, std::pair<at::Tensor, double>>>);
static_assert(Nested<torch::data::Example<>> && Nested<torch::data::TensorExample>);
static_assert(Nested<torch::data::Example<std::vector<at::Tensor>, at::Tensor>>);
static_assert(!Nested<int> && !Nested<std::string> && !Nested<std::vector<double>>);
static_assert(!Nested<OnlyPlain> && !Nested<OnlyConst> && !Nested<std::tuple<int, double>>);
static_assert(!Nested<std::unordered_map<std::string, at::Tensor>>);
static_assert(!Nested<std::tuple<at::Tensor, std::unordered_map<std::string, at::Tensor>>>);

at::Tensor row(double value, int64_t size = 2) { return at::full({size}, value, at::kFloat); }

Batch example_batch() {
  return {.images = at::arange(12, at::kFloat).view({4, 3}),
          .extras = {{"b", {row(2, 4), at::Tensor()}}, {"a", {row(1, 4)}}},
          .names = {"x", "y"},
          .epoch = 7};
}

std::vector<double> values_of(const at::Tensor& tensor) {
  const at::Tensor own = tensor.to(at::kDouble).contiguous();
  return {own.const_data_ptr<double>(), own.const_data_ptr<double>() + own.numel()};
}

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Nested, FlattensInAFixedOrderAndComesBack) {
  const Batch batch = example_batch();
  const std::vector<at::Tensor> tensors = flatten_tensors(batch);
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_TRUE(tensors[0].is_same(batch.images));
  EXPECT_TRUE(tensors[1].is_same(batch.extras.at("a")[0]));  // sorted keys, not insertion order
  EXPECT_TRUE(tensors[2].is_same(batch.extras.at("b")[0]));
  EXPECT_FALSE(tensors[3].defined());
  const Batch back = with_tensors(batch, {row(5), row(6), row(7), row(8)});
  EXPECT_EQ(values_of(back.extras.at("b")[1]), values_of(row(8)));
  EXPECT_EQ(back.names, batch.names);
  EXPECT_EQ(back.epoch, 7);
  EXPECT_TRUE(batch.images.size(0) == 4);  // the old value is unchanged
  EXPECT_EQ(error_of([&] { with_tensors(batch, {row(1)}); }),
            "with_tensors: the structure holds 4 tensors, 1 were given");
}

TEST(Nested, MapsEveryKindOfValueAndLeavesPlainPartsAlone) {
  const auto twice = [](const at::Tensor& tensor) { return tensor * 2; };
  const auto tuple =
      map_tensors(std::tuple(row(1), std::string("name"), std::optional<at::Tensor>(), 3), twice);
  EXPECT_EQ(values_of(std::get<0>(tuple)), values_of(row(2)));
  EXPECT_EQ(std::get<1>(tuple), "name");
  EXPECT_FALSE(std::get<2>(tuple).has_value());
  EXPECT_EQ(std::get<3>(tuple), 3);
  const auto example = map_tensors(torch::data::Example<>(row(1), at::tensor(int64_t{4})), twice);
  EXPECT_EQ(example.target.item<int64_t>(), 8);
  EXPECT_EQ(values_of(map_tensors(torch::data::TensorExample(row(3)), twice).data),
            values_of(row(6)));
  const auto array = map_tensors(std::array<at::Tensor, 2>{row(1), at::Tensor()}, twice);
  EXPECT_FALSE(array[1].defined());
}

TEST(Nested, FindsTheBatchSizeSkippingTensorsWithoutDimensions) {
  EXPECT_EQ(find_batch_size(example_batch()), 4);
  EXPECT_EQ(find_batch_size(std::pair(at::scalar_tensor(1.0), row(1, 5))), 5);
  EXPECT_EQ(find_batch_size(at::empty({0, 3})), 0);
  EXPECT_NE(error_of([] { find_batch_size(std::vector<at::Tensor>()); }).find("none of the 0"),
            std::string::npos);
  EXPECT_NE(error_of([] { find_batch_size(at::scalar_tensor(1.0)); }).find("none of the 1"),
            std::string::npos);
}

TEST(Nested, SlicesAsPythonDoes) {
  const Batch part = slice_tensors(example_batch(), 1, 3);
  EXPECT_EQ(values_of(part.images), (std::vector<double>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(part.extras.at("a")[0].size(0), 2);
  EXPECT_EQ(slice_tensors(row(1, 5), 3, 100).size(0), 2);
  EXPECT_EQ(slice_tensors(row(1, 5), -2, 5).size(0), 2);
  EXPECT_EQ(slice_tensors(row(1, 5), 4, 2).size(0), 0);
  EXPECT_EQ(slice_tensors(at::scalar_tensor(2.0), 0, 1).dim(), 0);
}

TEST(Nested, ConcatenatesAlongADimension) {
  const Batch batch = example_batch();
  const Batch both = concatenate(std::vector<Batch>{batch, slice_tensors(batch, 0, 1)});
  EXPECT_EQ(both.images.size(0), 5);
  EXPECT_FALSE(both.extras.at("b")[1].defined());
  EXPECT_EQ(concatenate(std::vector<at::Tensor>{row(1), row(2)}, 0).size(0), 4);
  EXPECT_EQ(concatenate(std::vector{at::zeros({2, 1}), at::ones({2, 3})}, 1).size(1), 4);
  EXPECT_EQ(values_of(concatenate(std::vector{at::scalar_tensor(1.0), at::scalar_tensor(2.0)})),
            (std::vector<double>{1, 2}));
}

TEST(Nested, NamesWhatCannotBeConcatenated) {
  EXPECT_EQ(error_of([] { concatenate(std::vector<at::Tensor>()); }),
            "concatenate: there is nothing to concatenate");
  const std::string count = error_of([] {
    concatenate(std::vector<std::vector<at::Tensor>>{{row(1)}, {row(1), row(2)}});
  });
  EXPECT_EQ(count, "concatenate: value 0 holds 1 tensors, value 1 holds 2");
  const std::string dims = error_of([] { concatenate(std::vector{row(1), at::zeros({1, 2})}); });
  EXPECT_NE(dims.find("tensor 0 differs"), std::string::npos) << dims;
  const std::string shapes = error_of([] {
    concatenate(std::vector{at::zeros({1, 3}), at::zeros({1, 2})});
  });
  EXPECT_NE(shapes.find("concatenate: tensor 0: "), std::string::npos) << shapes;
  EXPECT_NE(error_of([] {
              concatenate(std::vector{row(1), row(1)}, 4);
            }).find("tensor 0: "),
            std::string::npos);
}

TEST(Nested, ConvertsOnlyHalfPrecisionToFloat32) {
  const auto converted =
      convert_to_fp32(std::vector{at::zeros(1, at::kHalf), at::zeros(1, at::kBFloat16),
                                  at::zeros(1, at::kDouble), at::zeros(1, at::kLong)});
  const at::ScalarType expected[] = {at::kFloat, at::kFloat, at::kDouble, at::kLong};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(converted[i].scalar_type(), expected[i]);
}

TEST(Nested, SendsToADevice) {
  const Batch batch = send_to_device(example_batch(), at::Device("meta"));
  EXPECT_TRUE(batch.images.is_meta() && batch.extras.at("a")[0].is_meta());
  EXPECT_FALSE(batch.extras.at("b")[1].defined());
}

TEST(Nested, TravelsAsStructureAndTensors) {
  const Batch batch = example_batch();
  const auto like = nested_from_structure<Batch>(nested_structure(batch));
  EXPECT_EQ(like.names, batch.names);
  EXPECT_EQ(like.epoch, 7);
  ASSERT_EQ(like.extras.size(), 2U);
  EXPECT_EQ(like.extras.at("b").size(), 2U);
  EXPECT_FALSE(like.images.defined());
  EXPECT_TRUE(with_tensors(like, flatten_tensors(batch)).images.is_same(batch.images));

  using Mixed = std::tuple<std::optional<at::Tensor>, std::optional<at::Tensor>,
                           torch::data::Example<>, std::pair<std::vector<double>, at::Tensor>>;
  Mixed mixed;
  std::get<1>(mixed) = row(1);
  std::get<3>(mixed).first = {0.5, 2.5};
  const auto same = nested_from_structure<Mixed>(nested_structure(mixed));
  EXPECT_FALSE(std::get<0>(same).has_value());
  EXPECT_TRUE(std::get<1>(same).has_value());
  EXPECT_EQ(std::get<3>(same).first, std::get<3>(mixed).first);
}

TEST(Nested, RefusesTheStructureOfAnotherType) {
  const std::string structure = nested_structure(example_batch());
  EXPECT_NE(error_of([&] { nested_from_structure<at::Tensor>(structure); }).find("same type"),
            std::string::npos);
  // Truncated anywhere, it is an error and never a crash.
  for (size_t size = 0; size < structure.size(); ++size) {
    EXPECT_NE(error_of([&] {
                nested_from_structure<Batch>(structure.substr(0, size));
              }).find("same type"),
              std::string::npos)
        << size;
  }
  const std::string huge(8, '\xff');
  EXPECT_NE(
      error_of([&] { nested_from_structure<std::vector<at::Tensor>>(huge); }).find("more than"),
      std::string::npos);
}

TEST(SplitBetweenProcesses, GivesEveryItemOnceAndEvenly) {
  for (int64_t length = 0; length < 12; ++length) {
    for (int world = 1; world <= 5; ++world) {
      int64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const SplitRange range = split_range(length, rank, world);
        EXPECT_EQ(range.begin, next);
        const int64_t size = range.end - range.begin;
        EXPECT_EQ(size + range.padding, (length + world - 1) / world);
        EXPECT_TRUE(range.padding == 0 || range.padding == 1);
        next = range.end;
      }
      EXPECT_EQ(next, length);
    }
  }
  EXPECT_THROW(split_range(3, 2, 2), std::invalid_argument);
  EXPECT_THROW(split_range(-1, 0, 2), std::invalid_argument);
}

TEST(SplitBetweenProcesses, SplitsListsTensorsAndMaps) {
  const std::vector<std::string> names = {"a", "b", "c"};
  EXPECT_EQ(split_between_processes(names, 1, 2), std::vector<std::string>{"c"});
  EXPECT_EQ(split_between_processes(names, 1, 2, true), (std::vector<std::string>{"c", "c"}));
  EXPECT_TRUE(split_between_processes(std::vector<int>(), 0, 2, true).empty());
  const at::Tensor numbers = at::arange(5);
  EXPECT_EQ(values_of(split_between_processes(numbers, 1, 2)), (std::vector<double>{3, 4}));
  EXPECT_EQ(values_of(split_between_processes(numbers, 1, 2, true)),
            (std::vector<double>{3, 4, 4}));
  using Lists = std::map<std::string, std::vector<int>>;
  EXPECT_EQ(split_between_processes(Lists{{"a", {1, 2, 3}}, {"b", {4, 5, 6}}}, 0, 2),
            (Lists{{"a", {1, 2}}, {"b", {4, 5}}}));
  EXPECT_THROW(split_between_processes(Lists{{"a", {1}}, {"b", {}}}, 0, 2), std::invalid_argument);
  const auto tensors = split_between_processes(
      std::map<std::string, at::Tensor>{{"x", numbers}, {"y", at::zeros({5, 2})}}, 0, 2);
  EXPECT_EQ(tensors.at("y").size(0), 3);
  EXPECT_THROW(split_between_processes(std::pair(numbers, at::zeros({4})), 0, 2),
               std::invalid_argument);
  // More ranks than items: ranks without an item get the last one.
  EXPECT_EQ(values_of(split_between_processes(at::arange(2), 3, 4, true)), std::vector<double>{1});
}

}  // namespace
}  // namespace muster
