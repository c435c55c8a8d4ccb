// Logs tensors to the trackers: copied on the training thread, converted to histograms and images
// on the writer thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "muster/tracking/tracker.h"
#include "tracking/tracker_set.h"

namespace muster {

// Waits for the device and copies the tensor; counting and encoding happen later. Does nothing if
// no tracker listens. Throws std::invalid_argument for tensors that histogram_of and image_of
// reject.
void log_histogram(TrackerSet& trackers, std::string name, const at::Tensor& values,
                   const LogPlace& place);
void log_image(TrackerSet& trackers, std::string name, const at::Tensor& image, ImageLayout layout,
               const LogPlace& place);

}  // namespace muster
