// Histograms and images of tensors, compared with SummaryWriter's.
#include "tracking/tensor_values.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/child_process.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"
#include "tracking/histogram.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// One line of hexadecimal numbers per tensor, which Python reads without rounding.
Json summary_writer_histograms(const std::vector<at::Tensor>& tensors) {
  const TemporaryDirectory directory;
  {
    std::ofstream file(directory / "values");
    file << std::hexfloat;
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor values = tensor.to(at::kDouble).reshape({-1});
      for (int64_t i = 0; i < values.numel(); ++i) file << values[i].item<double>() << " ";
      file << "\n";
    }
  }
  ChildProcess child({TestPython(), TestSource("tests/trainer/tracking/read_trackers.py"),
                      "histograms", directory / "values"},
                     {{"OMP_NUM_THREADS", "1"}});
  const ChildResult result =
      child.wait(std::chrono::steady_clock::now() + std::chrono::seconds(60));
  if (result.output.find("No module named") != std::string::npos) return nullptr;
  if (result.exit_code != 0) throw std::runtime_error(result.output);
  return Json::parse(result.output.substr(result.output.find("{\"histograms\"")))["histograms"];
}

TEST(Histogram, HasSummaryWritersBuckets) {
  torch::manual_seed(1);
  const std::vector<at::Tensor> tensors = {
      torch::randn({40, 50}),
      torch::randn({1000}, at::kBFloat16),
      torch::rand({500}, at::kHalf),
      torch::zeros({3}),
      torch::full({2, 2}, -7.5),
      torch::tensor({3.0}),
      torch::arange(-20, 400).to(at::kLong),
      torch::randint(0, 2, {64}).to(at::kBool),
      torch::tensor({1e-13, -1e-13, 1e-12, -1e-12, 1.1e-12, 5e19, -5e19}, at::kDouble),
      torch::tensor(default_histogram_edges(), at::kDouble),  // each edge opens its bucket
  };
  const Json expected = summary_writer_histograms(tensors);
  if (expected.is_null()) GTEST_SKIP() << "no Python with torch and tensorboard";
  ASSERT_EQ(expected.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const HistogramData found = histogram_of(tensors[i]);
    EXPECT_EQ(Json(found.bucket_limits), expected[i]["limits"]) << i;
    EXPECT_EQ(Json(found.bucket_counts), expected[i]["counts"]) << i;
    EXPECT_EQ(found.min, expected[i]["min"]);
    EXPECT_EQ(found.max, expected[i]["max"]);
    EXPECT_EQ(found.num, expected[i]["num"]);
    const double sum = expected[i]["sum"], squares = expected[i]["sum_squares"];
    EXPECT_NEAR(found.sum, sum, 1e-12 * squares + 1e-9) << i;  // summed in a different order
    EXPECT_NEAR(found.sum_squares, squares, 1e-12 * squares) << i;
  }
}

TEST(Histogram, CountsWhatIsNotFiniteApart) {
  const HistogramData found = histogram_of(torch::tensor({1.0f, NAN, INFINITY, -INFINITY, 2.0f}));
  EXPECT_EQ(found.num, 2);
  EXPECT_EQ(found.not_finite, 3);
  EXPECT_EQ(found.sum, 3);
  EXPECT_EQ(found.max, 2);
  const HistogramData none = histogram_of(torch::full({4}, NAN));
  EXPECT_EQ(none.num, 0);
  EXPECT_EQ(none.bucket_limits.size(), none.bucket_counts.size());
  EXPECT_EQ(histogram_of(torch::empty({0, 3})).num, 0);
}

TEST(Histogram, CountsWhatIsBeyondTheLastBucketInIt) {
  const HistogramData found = histogram_of(torch::tensor({-1e30, 1e30}, at::kDouble));
  EXPECT_EQ(found.bucket_counts[1], 1);
  EXPECT_EQ(found.bucket_counts.back(), 1);
  EXPECT_EQ(found.max, 1e30);
}

TEST(Histogram, TakesAnyStridesAndRefusesComplexNumbers) {
  const at::Tensor matrix = torch::arange(12, at::kFloat).reshape({3, 4});
  EXPECT_EQ(histogram_of(matrix.t().select(0, 1)).sum, 1 + 5 + 9);
  EXPECT_THROW(histogram_of(torch::zeros({2}, at::kComplexFloat)), std::invalid_argument);
  EXPECT_THROW(histogram_of(at::Tensor()), std::invalid_argument);
}

TEST(Image, TakesBothLayoutsBytesAndFloats) {
  const at::Tensor bytes = torch::arange(24, at::kByte).reshape({2, 4, 3});  // H, W, C
  const ImageData image = image_of(bytes, ImageLayout::hwc);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.width, 4);
  EXPECT_EQ(image.channels, 3);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(image.pixels[i], i);
  EXPECT_EQ(image_of(bytes.permute({2, 0, 1})).pixels, image.pixels);
  EXPECT_EQ(image_of(bytes.to(at::kDouble) / 255 + 1e-6, ImageLayout::hwc).pixels, image.pixels);
  // As in SummaryWriter: clipped to 0..255 and truncated, not rounded.
  EXPECT_EQ(image_of(torch::tensor({{-1.0f, 0.5f, 2.0f, NAN}})).pixels,
            (std::vector<uint8_t>{0, 127, 255, 0}));
}

TEST(Image, RefusesOtherShapesAndTypes) {
  EXPECT_THROW(image_of(torch::zeros({5, 2, 2})), std::invalid_argument);
  EXPECT_THROW(image_of(torch::zeros({1, 3, 2, 2})), std::invalid_argument);
  EXPECT_THROW(image_of(torch::zeros({3, 2, 2}, at::kInt)), std::invalid_argument);
  EXPECT_THROW(image_of(torch::zeros({3, 0, 2})), std::invalid_argument);
  EXPECT_THROW(image_of(at::Tensor()), std::invalid_argument);
}

// Records what it receives.
class LastTracker : public Tracker {
 public:
  std::string name() const override { return "last"; }
  void scalars(std::span<const ScalarValue>, int64_t, double) override {}
  void histogram(std::string_view, const HistogramData& data, int64_t, double) override {
    histogram_data = data;
  }
  void image(std::string_view, const ImageData& data, int64_t, double) override {
    image_data = data;
  }
  HistogramData histogram_data;
  ImageData image_data;
};

TEST(TensorValues, AreThoseOfTheMomentOfTheCall) {
  auto tracker = std::make_shared<LastTracker>();
  TrackerSet set({.log_with = {tracker}});
  set.start("run");
  at::Tensor weights = torch::ones({3, 1, 2}).requires_grad_();
  log_histogram(set, "weights", weights, {1});
  log_image(set, "picture", weights, ImageLayout::chw, {1});
  {
    const at::NoGradGuard no_grad;
    weights.zero_();  // the optimizer steps before the writer thread looks
  }
  EXPECT_THROW(log_image(set, "no", torch::zeros({9, 9, 9}), ImageLayout::chw, {1}),
               std::invalid_argument);
  set.finish();
  EXPECT_EQ(tracker->histogram_data.sum, 6);
  EXPECT_EQ(tracker->image_data.pixels, std::vector<uint8_t>(6, 255));
  EXPECT_EQ(tracker->image_data.channels, 3);
}

}  // namespace
}  // namespace muster
