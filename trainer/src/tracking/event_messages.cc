// TensorBoard's messages, field by field; see event_messages.h.
#include "tracking/event_messages.h"

#include "tracking/proto_writer.h"

namespace muster {
namespace {

// Event
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSourceMetadata = 10;
// Summary.Value
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4, kHisto = 5, kTensor = 8, kMetadata = 9;
// DataType of tensors, DataClass of series
constexpr int kFloatTensor = 1, kStringTensor = 7, kTensorSeries = 2;

std::string event_of(const ProtoWriter& summary, const EventPlace& place) {
  ProtoWriter event;
  event.number(kWallTime, place.wall_time).integer(kStep, place.step).message(kSummary, summary);
  return event.str();
}

std::string event_of_value(const ProtoWriter& value, const EventPlace& place) {
  return event_of(ProtoWriter().message(1, value), place);
}

ProtoWriter plugin_metadata(std::string_view plugin, std::string_view content) {
  ProtoWriter data;
  data.bytes(1, plugin).bytes(2, content);
  ProtoWriter metadata;
  metadata.message(1, data).integer(4, kTensorSeries);
  return metadata;
}

// A 1-D tensor without its elements.
ProtoWriter tensor_of(int type, int64_t elements) {
  const ProtoWriter shape = ProtoWriter().message(2, ProtoWriter().integer(1, elements));
  ProtoWriter tensor;
  tensor.integer(1, type).message(2, shape);
  return tensor;
}

// google.protobuf.Value. The plug-in supports numbers, strings and bools.
ProtoWriter value_of(const ConfigValue& config) {
  ProtoWriter value;
  if (const auto* flag = std::get_if<bool>(&config)) {
    value.integer(4, *flag);
  } else if (const auto* whole = std::get_if<int64_t>(&config)) {
    value.number(2, static_cast<double>(*whole));
  } else if (const auto* number = std::get_if<double>(&config)) {
    value.number(2, *number);
  } else {
    value.bytes(3, std::get<std::string>(config));
  }
  return value;
}

int64_t type_of(const ConfigValue& config) {
  if (std::holds_alternative<std::string>(config)) return 1;
  return std::holds_alternative<bool>(config) ? 2 : 3;
}

// `which`: 2 experiment, 3 session_start_info, 4 session_end_info of HParamsPluginData. The plug-in
// reads only the metadata; the empty tensor makes it a series.
std::string hparams_event(std::string_view tag, int which, const ProtoWriter& content,
                          double wall_time) {
  ProtoWriter data;
  data.integer(1, 0).message(which, content);
  ProtoWriter value;
  value.bytes(kTag, tag)
      .message(kTensor, tensor_of(kFloatTensor, 0))
      .message(kMetadata, plugin_metadata("hparams", data.str()));
  return event_of_value(value, {0, wall_time});
}

}  // namespace

std::string file_version_event(double wall_time) {
  ProtoWriter event;
  event.number(kWallTime, wall_time)
      .bytes(kFileVersion, "brain.Event:2")
      .message(kSourceMetadata, ProtoWriter().bytes(1, "muster"));
  return event.str();
}

std::string scalars_event(std::span<const ScalarValue> values, const EventPlace& place) {
  ProtoWriter summary;
  ProtoWriter value;
  for (const ScalarValue& scalar : values) {
    value.clear();
    value.bytes(kTag, scalar.name).number32(kSimpleValue, static_cast<float>(scalar.value));
    summary.message(1, value);
  }
  return event_of(summary, place);
}

std::string histogram_event(std::string_view tag, const HistogramData& histogram,
                            const EventPlace& place) {
  ProtoWriter histo;
  histo.number(1, histogram.min)
      .number(2, histogram.max)
      .number(3, histogram.num)
      .number(4, histogram.sum)
      .number(5, histogram.sum_squares)
      .packed(6, histogram.bucket_limits)
      .packed(7, histogram.bucket_counts);
  return event_of_value(ProtoWriter().bytes(kTag, tag).message(kHisto, histo), place);
}

std::string image_event(std::string_view tag, const ImageData& image, std::string_view png,
                        const EventPlace& place) {
  ProtoWriter message;
  message.integer(1, image.height).integer(2, image.width).integer(3, image.channels).bytes(4, png);
  return event_of_value(ProtoWriter().bytes(kTag, tag).message(kImage, message), place);
}

std::string text_event(std::string_view tag, std::string_view text, const EventPlace& place) {
  ProtoWriter tensor = tensor_of(kStringTensor, 1);
  tensor.bytes(8, text);
  ProtoWriter value;
  value.bytes(kTag, tag).message(kTensor, tensor).message(kMetadata, plugin_metadata("text", ""));
  return event_of_value(value, place);
}

std::string experiment_event(const TrackerConfig& config,
                             const std::map<std::string, double>& metrics, double wall_time) {
  ProtoWriter experiment;
  for (const auto& [name, value] : config) {
    experiment.message(4, ProtoWriter().bytes(1, name).integer(4, type_of(value)));
  }
  for (const auto& [name, value] : metrics) {
    experiment.message(5, ProtoWriter().message(1, ProtoWriter().bytes(2, name)));
  }
  return hparams_event("_hparams_/experiment", 2, experiment, wall_time);
}

std::string session_start_event(const TrackerConfig& config, double wall_time) {
  ProtoWriter session;
  for (const auto& [name, value] : config) {
    session.message(1, ProtoWriter().bytes(1, name).message(2, value_of(value)));
  }
  session.number(5, wall_time);
  return hparams_event("_hparams_/session_start_info", 3, session, wall_time);
}

std::string session_end_event(double wall_time) {
  constexpr int kSuccess = 1;
  ProtoWriter session;
  session.integer(1, kSuccess).number(2, wall_time);
  return hparams_event("_hparams_/session_end_info", 4, session, wall_time);
}

}  // namespace muster
