// Tensors on their way to the trackers: copied on the training thread, turned into histograms and
// pictures on the writer thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "muster/tracking/tracker.h"
#include "tracking/tracker_set.h"

namespace muster {

// Waits for the device and copies the tensor; the counting and encoding happen later. Nothing is
// done where nobody listens. Throws std::invalid_argument for what histogram_of and image_of
// refuse.
void log_histogram(TrackerSet& trackers, std::string name, const at::Tensor& values,
                   const LogPlace& place);
void log_image(TrackerSet& trackers, std::string name, const at::Tensor& image, ImageLayout layout,
               const LogPlace& place);

}  // namespace muster
