// TensorBoard's event-file messages, each serialized as one Event. Pure. Sources:
// tensorboard/compat/proto/{event,summary,tensor}.proto, plugins/hparams/plugin_data.proto and
// api.proto; field numbers as there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "muster/tracking/tracker.h"

namespace muster {

// When and at which step something was logged.
struct EventPlace {
  int64_t step = 0;
  double wall_time = 0;  // Unix time in seconds
};

// The first event of each file.
std::string file_version_event(double wall_time);

std::string scalars_event(std::span<const ScalarValue> values, const EventPlace& place);
std::string histogram_event(std::string_view tag, const HistogramData& histogram,
                            const EventPlace& place);
// png: the encoded image.
std::string image_event(std::string_view tag, const ImageData& image, std::string_view png,
                        const EventPlace& place);
std::string text_event(std::string_view tag, std::string_view text, const EventPlace& place);

// The HParams plug-in's three events. A session is one run with its settings.
std::string experiment_event(const TrackerConfig& config,
                             const std::map<std::string, double>& metrics, double wall_time);
std::string session_start_event(const TrackerConfig& config, double wall_time);
std::string session_end_event(double wall_time);

}  // namespace muster
