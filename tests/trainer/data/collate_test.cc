// Collating samples into batches, and tensors as datasets.
#include "muster/data/collate.h"

#include <gtest/gtest.h>

#include "muster/data/data_loader.h"

namespace muster {
namespace {

template <typename Error, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Collate, StacksTensorsAndTurnsNumbersIntoTensors) {
  using Sample = std::tuple<at::Tensor, int, float, double, bool, uint8_t>;
  std::vector<Sample> samples;
  for (int i = 0; i < 3; ++i) samples.emplace_back(at::full({2}, i), i, i / 2.f, i / 4., i > 0, i);
  const auto [tensor, whole, single, twice, flag, small] = default_collate(samples);
  EXPECT_TRUE(tensor.equal(at::tensor({0, 0, 1, 1, 2, 2}, at::kLong).view({3, 2})));
  EXPECT_TRUE(whole.equal(at::tensor({0, 1, 2}, at::kLong)));
  EXPECT_TRUE(single.equal(at::tensor({0.f, 0.5f, 1.f})));
  EXPECT_TRUE(twice.equal(at::tensor({0., 0.25, 0.5}, at::kDouble)));
  EXPECT_TRUE(flag.equal(at::tensor({0, 1, 1}, at::kLong).to(at::kBool)));
  EXPECT_EQ(small.scalar_type(), at::kLong);
}

struct Boxes {
  at::Tensor image;
  std::vector<at::Tensor> levels;
  auto fields() { return std::tie(image, levels); }
};

TEST(Collate, KeepsTheFormOfContainersExamplesAndStructs) {
  const std::vector<std::map<std::string, std::vector<int>>> maps = {{{"a", {1, 2}}, {"b", {3}}},
                                                                     {{"a", {4, 5}}, {"b", {6}}}};
  const auto map = default_collate(maps);
  EXPECT_TRUE(map.at("a")[1].equal(at::tensor({2, 5}, at::kLong)));
  EXPECT_TRUE(map.at("b")[0].equal(at::tensor({3, 6}, at::kLong)));
  const std::vector<torch::data::Example<at::Tensor, int>> examples = {{at::ones({1}), 7},
                                                                       {at::zeros({1}), 8}};
  EXPECT_TRUE(default_collate(examples).target.equal(at::tensor({7, 8}, at::kLong)));
  const std::vector<Boxes> structs = {{at::ones({2}), {at::ones({1})}},
                                      {at::zeros({2}), {at::zeros({1})}}};
  const Boxes boxes = default_collate(structs);
  EXPECT_EQ(boxes.image.sizes(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(boxes.levels.at(0).sizes(), (std::vector<int64_t>{2, 1}));
  const std::vector<std::pair<std::string, std::array<float, 2>>> named = {{"x", {1, 2}}};
  EXPECT_EQ(default_collate(named).first, std::vector<std::string>{"x"});
}

TEST(Collate, NamesTheSampleThatDoesNotFit) {
  const std::vector<at::Tensor> shapes = {at::ones({2}), at::ones({2}), at::ones({3})};
  const std::string shape = message_of<std::invalid_argument>([&] { default_collate(shapes); });
  EXPECT_NE(shape.find("its sample 2 has Float [3]"), std::string::npos) << shape;
  const std::vector<at::Tensor> dtypes = {at::ones({2}), at::ones({2}, at::kLong)};
  EXPECT_THROW(default_collate(dtypes), std::invalid_argument);
  const std::vector<std::vector<int>> lengths = {{1, 2}, {1}};
  EXPECT_THROW(default_collate(lengths), std::invalid_argument);
  const std::vector<std::map<std::string, int>> keys = {{{"a", 1}}, {{"b", 1}}};
  const std::string key = message_of<std::invalid_argument>([&] { default_collate(keys); });
  EXPECT_NE(key.find("no key 'a'"), std::string::npos) << key;
}

TEST(Collate, SkipsATensorThatNoSampleHas) {
  EXPECT_FALSE(stack_samples({at::Tensor(), at::Tensor()}).defined());
  EXPECT_THROW(stack_samples({at::Tensor(), at::ones({1})}), std::invalid_argument);
}

TEST(TensorDataset, GivesBatchesInTheFormThatItWasGiven) {
  const at::Tensor images = at::arange(24, at::kFloat).view({4, 2, 3});
  const at::Tensor labels = at::arange(4);
  DataLoader two(TensorDataset(images, labels), {.batch_size = 3});
  for (auto& [batch_images, batch_labels] : two) {
    EXPECT_TRUE(batch_images.equal(images.index_select(0, batch_labels)));
    batch_images.zero_();  // a copy: the dataset keeps its own
  }
  EXPECT_EQ(images.sum().item<float>(), 276);
  DataLoader one(TensorDataset{labels}, {.batch_size = 4});
  for (at::Tensor& batch : one) EXPECT_TRUE(batch.equal(labels));
  DataLoader named(TensorDataset(std::map<std::string, at::Tensor>{{"x", images}}),
                   {.batch_size = 4});
  for (auto& batch : named) EXPECT_TRUE(batch.at("x").equal(images));
  DataLoader structs(TensorDataset(Boxes{images, {labels, at::Tensor()}}), {.batch_size = 2});
  EXPECT_EQ((*structs.begin()).levels[0].numel(), 2);
  EXPECT_FALSE((*structs.begin()).levels[1].defined());
}

TEST(TensorDataset, GathersEveryKindOfTensor) {
  const std::vector<int64_t> indices = {4, 0, 4};
  const at::Tensor base = at::randn({5, 6, 7});
  const at::Tensor rows = at::tensor({4, 0, 4}, at::kLong);
  for (const at::Tensor& tensor :
       {base, base.transpose(1, 2), base.to(at::kBool), base.to(at::kBFloat16), at::empty({5, 0}),
        at::randn({5}), at::complex(base, base).conj(), at::randn({5, 1 << 18})}) {
    EXPECT_TRUE(gather_rows(tensor, indices).equal(tensor.index_select(0, rows)));
  }
  EXPECT_EQ(gather_rows(at::empty({0, 3}), {}).sizes(), (std::vector<int64_t>{0, 3}));
}

TEST(TensorDataset, RefusesTensorsOfDifferentLength) {
  EXPECT_THROW(TensorDataset(at::ones({2}), at::ones({3})), std::invalid_argument);
  EXPECT_THROW((TensorDataset{at::scalar_tensor(1)}), std::invalid_argument);
}

}  // namespace
}  // namespace muster
