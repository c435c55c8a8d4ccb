#include "coordinator/store_parts/sample_buckets.h"

#include <string>
#include <utility>

namespace muster::coordinator {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

enum class Extreme { kLowest, kHighest };

template <typename Value>
bool IsBeyond(Extreme extreme, Value now, Value known) {
  return extreme == Extreme::kLowest ? now < known : now > known;
}

// Texts and lists have no extremes.
void DropTexts(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    const bool is_key = field->name() == "device";
    if (field->is_repeated()) reflection.ClearField(&message, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && !is_key && !field->is_repeated()) {
      reflection.ClearField(&message, field);
    }
  }
}

// Folds one number of `now` into `known`. Samples hold only these types of numbers.
void FoldField(const Message& now, Message& known, const FieldDescriptor* field, Extreme extreme) {
  const Reflection& from = *now.GetReflection();
  const Reflection& to = *known.GetReflection();
  const bool is_first = field->has_presence() && !to.HasField(known, field);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      if (const auto value = from.GetUInt32(now, field);
          is_first || IsBeyond(extreme, value, to.GetUInt32(known, field))) {
        to.SetUInt32(&known, field, value);
      }
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (const auto value = from.GetUInt64(now, field);
          is_first || IsBeyond(extreme, value, to.GetUInt64(known, field))) {
        to.SetUInt64(&known, field, value);
      }
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      if (const auto value = from.GetInt64(now, field);
          is_first || IsBeyond(extreme, value, to.GetInt64(known, field))) {
        to.SetInt64(&known, field, value);
      }
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      if (const auto value = from.GetFloat(now, field);
          is_first || IsBeyond(extreme, value, to.GetFloat(known, field))) {
        to.SetFloat(&known, field, value);
      }
      break;
    default:
      break;
  }
}

void Fold(const Message& now, Message& known, Extreme extreme) {
  const Descriptor& type = *now.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* field = type.field(i);
    if (field->is_repeated()) continue;
    if (field->has_presence() && !now.GetReflection()->HasField(now, field)) continue;
    FoldField(now, known, field, extreme);
  }
}

uint32_t SampleKeyOf(const v1::RankSample& sample) { return sample.rank(); }
const std::string& SampleKeyOf(const v1::DeviceSample& sample) { return sample.device(); }

// The sample of the same rank or device. The search starts at `hint`, where it usually is because
// batches keep their order; `hint` then points after it.
template <typename List, typename Sample>
Sample* FindSample(List& list, const Sample& sample, int& hint) {
  for (int i = 0; i < list.size(); ++i) {
    const int at = (hint + i) % list.size();
    if (SampleKeyOf(list[at]) != SampleKeyOf(sample)) continue;
    hint = at + 1;
    return &list[at];
  }
  return nullptr;
}

// `lowest` and `highest` have the same samples as `last`, in the same order.
template <typename List>
void FoldList(const List& now, List& last, List& lowest, List& highest) {
  int hint = 0;
  for (const auto& sample : now) {
    if (auto* known = FindSample(last, sample, hint)) {
      *known = sample;
      Fold(sample, lowest[hint - 1], Extreme::kLowest);
      Fold(sample, highest[hint - 1], Extreme::kHighest);
      continue;
    }
    *last.Add() = sample;
    for (List* list : {&lowest, &highest}) {
      auto& added = *list->Add();
      added = sample;
      DropTexts(added);
    }
  }
}

}  // namespace

std::optional<v1::SampleBucket> SampleBuckets::Add(const v1::SampleBatch& batch) {
  const int64_t number = batch.time_ms() / rule_.bucket_ms;
  std::optional<v1::SampleBucket> before;
  if (IsOpen() && number != number_) before = Take();
  number_ = number;
  bucket_.set_tier(rule_.tier);
  bucket_.set_batches(bucket_.batches() + 1);
  v1::SampleBatch& last = *bucket_.mutable_last();
  last.set_job(batch.job());
  last.set_attempt(batch.attempt());
  last.set_node(batch.node());
  last.set_time_ms(batch.time_ms());
  last.set_interval_ms(batch.interval_ms());
  v1::SampleBatch& lowest = *bucket_.mutable_min();
  v1::SampleBatch& highest = *bucket_.mutable_max();
  FoldList(batch.ranks(), *last.mutable_ranks(), *lowest.mutable_ranks(), *highest.mutable_ranks());
  FoldList(batch.devices(), *last.mutable_devices(), *lowest.mutable_devices(),
           *highest.mutable_devices());
  return before;
}

std::optional<v1::SampleBucket> SampleBuckets::Take() {
  if (!IsOpen()) return std::nullopt;
  return std::exchange(bucket_, {});
}

}  // namespace muster::coordinator
