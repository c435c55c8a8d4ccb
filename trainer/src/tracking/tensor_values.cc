// Converts tensors to the trackers' plain values; see muster/tracking/tracker.h and
// tensor_values.h.
#include "tracking/tensor_values.h"

#include <torch/types.h>

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "tracking/histogram.h"

namespace muster {
namespace {

// A host copy. ATen kernels run on the training thread only: on the writer thread they would start
// their own worker threads.
at::Tensor host_copy(const at::Tensor& tensor) {
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  return copy.copy_(tensor.detach());
}

void check_histogram(const at::Tensor& values) {
  if (values.defined() && !values.is_complex()) return;
  throw std::invalid_argument(
      "a histogram needs a tensor of integers, floating-point numbers or bools" +
      std::string(values.defined() ? ", not a complex one" : ""));
}

void check_image(const at::Tensor& image, ImageLayout layout) {
  const bool shape = image.defined() && (image.dim() == 2 || image.dim() == 3);
  const int64_t channels =
      !shape || image.dim() == 2 ? 1 : image.size(layout == ImageLayout::chw ? 0 : 2);
  const bool type =
      image.defined() && (image.scalar_type() == at::kByte || image.is_floating_point());
  if (shape && type && channels >= 1 && channels <= 4 && image.numel() > 0) return;
  std::ostringstream text;
  text << "an image must be uint8 or floating-point, of shape "
       << (layout == ImageLayout::chw ? "[C, H, W]" : "[H, W, C]")
       << " with 1 to 4 channels or [H, W], not ";
  if (image.defined()) {
    text << image.scalar_type() << " of shape " << image.sizes();
  } else {
    text << "an undefined tensor";
  }
  throw std::invalid_argument(text.str());
}

HistogramData histogram_on_host(const at::Tensor& values) {
  HistogramBuilder builder;
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, values.scalar_type(), "histogram",
                             [&] {
                               const scalar_t* value = values.const_data_ptr<scalar_t>();
                               for (int64_t i = 0; i < values.numel(); ++i) {
                                 builder.add(static_cast<double>(value[i]));
                               }
                             });
  return std::move(builder).finish();
}

uint8_t pixel_of(uint8_t value) { return value; }
template <typename Number>
uint8_t pixel_of(Number value) {
  // As SummaryWriter does: scaled in 32 bits, clipped, truncated. NaN fails both comparisons.
  const float scaled = static_cast<float>(value) * 255.0f;
  return scaled >= 255.0f ? 255 : scaled > 0.0f ? static_cast<uint8_t>(scaled) : 0;
}

ImageData image_on_host(const at::Tensor& image, ImageLayout layout) {
  const bool planes = image.dim() == 3 && layout == ImageLayout::chw;
  const int64_t channels = image.dim() == 2 ? 1 : image.size(planes ? 0 : 2);
  const int64_t height = image.size(planes ? 1 : 0);
  const int64_t width = image.size(planes ? 2 : 1);
  ImageData data{static_cast<int>(height), static_cast<int>(width), static_cast<int>(channels), {}};
  data.pixels.resize(static_cast<size_t>(height * width * channels));
  const int64_t channel_stride = planes ? height * width : 1;
  const int64_t pixel_stride = planes ? 1 : channels;
  AT_DISPATCH_FLOATING_TYPES_AND3(
      at::kByte, at::kHalf, at::kBFloat16, image.scalar_type(), "image", [&] {
        const scalar_t* value = image.const_data_ptr<scalar_t>();
        auto pixel = data.pixels.begin();
        for (int64_t i = 0; i < height * width; ++i) {
          for (int64_t c = 0; c < channels; ++c) {
            *pixel++ = pixel_of(value[i * pixel_stride + c * channel_stride]);
          }
        }
      });
  return data;
}

}  // namespace

HistogramData histogram_of(const at::Tensor& values) {
  check_histogram(values);
  return histogram_on_host(values.detach().to(at::kCPU).contiguous());
}

ImageData image_of(const at::Tensor& image, ImageLayout layout) {
  check_image(image, layout);
  return image_on_host(image.detach().to(at::kCPU).contiguous(), layout);
}

void log_histogram(TrackerSet& trackers, std::string name, const at::Tensor& values,
                   const LogPlace& place) {
  check_histogram(values);
  if (!trackers.listens(place)) return;
  at::Tensor copy = host_copy(values);
  const size_t bytes = copy.nbytes();
  trackers.histogram(
      std::move(name), [copy = std::move(copy)] { return histogram_on_host(copy); }, bytes, place);
}

void log_image(TrackerSet& trackers, std::string name, const at::Tensor& image, ImageLayout layout,
               const LogPlace& place) {
  check_image(image, layout);
  if (!trackers.listens(place)) return;
  at::Tensor copy = host_copy(image);
  const size_t bytes = copy.nbytes();
  trackers.image(
      std::move(name), [copy = std::move(copy), layout] { return image_on_host(copy, layout); },
      bytes, place);
}

}  // namespace muster
