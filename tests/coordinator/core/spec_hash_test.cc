// What tells specs of one idempotency key apart.
#include "coordinator/core/state/spec_hash.h"

#include <gtest/gtest.h>

#include <set>

#include "common/problem.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/state/apply.h"

namespace muster::coordinator {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

v1::JobSpec Small() {
  v1::JobSpec spec;
  spec.add_command("true");
  spec.set_workdir("/");
  spec.set_priority(-1);
  (*spec.mutable_env())["B"] = "2";
  (*spec.mutable_env())["A"] = "1";
  spec.mutable_shape()->set_processes(3);
  spec.mutable_shape()->mutable_device()->set_kind("cpu");
  return spec;
}

// Sets a field, or adds a value to it, that no other call has set.
void Put(Message& message, const FieldDescriptor* field) {
  const google::protobuf::Reflection& set = *message.GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? set.AddBool(&message, field, true) : set.SetBool(&message, field, true);
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? set.AddInt32(&message, field, -7) : set.SetInt32(&message, field, -7);
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? set.AddInt64(&message, field, -7) : set.SetInt64(&message, field, -7);
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? set.AddUInt32(&message, field, 7) : set.SetUInt32(&message, field, 7);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? set.AddUInt64(&message, field, 7) : set.SetUInt64(&message, field, 7);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? set.AddDouble(&message, field, 0.5) : set.SetDouble(&message, field, 0.5);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return many ? set.AddFloat(&message, field, 0.5F) : set.SetFloat(&message, field, 0.5F);
    case FieldDescriptor::CPPTYPE_ENUM:
      return many ? set.AddEnumValue(&message, field, 1) : set.SetEnumValue(&message, field, 1);
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? set.AddString(&message, field, "x") : set.SetString(&message, field, "x");
    case FieldDescriptor::CPPTYPE_MESSAGE:
      many ? set.AddMessage(&message, field) : set.MutableMessage(&message, field);
      return;
  }
}

TEST(SpecHash, TheBytesAreWhatTheHeaderSays) {
  v1::JobSpec spec;
  spec.add_command("ab");
  spec.set_priority(-2);
  const std::string expected = std::string("\2\0\0\0", 4) + std::string("\1\0\0\0\0\0\0\0", 8) +
                               std::string("\2\0\0\0\0\0\0\0ab", 10) + std::string("\6\0\0\0", 4) +
                               std::string("\1\0\0\0\0\0\0\0", 8) +
                               "\xfe\xff\xff\xff\xff\xff\xff\xff";
  EXPECT_EQ(CanonicalBytes(spec), expected);
}

// Journals contain it: a change of the hash must still recognize this one.
TEST(SpecHash, AHashThatWasJournaledStaysWhatItIs) {
  EXPECT_EQ(HashSpec(Small()), 10875095326792417623u);
  EXPECT_EQ(HashSpecAs020(Small()), 15601543764670487125u);
}

TEST(SpecHash, EveryFieldCounts) {
  std::set<std::string> seen = {CanonicalBytes(v1::JobSpec())};
  const google::protobuf::Descriptor& fields = *v1::JobSpec::descriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    v1::JobSpec spec;
    Put(spec, fields.field(i));
    EXPECT_TRUE(seen.insert(CanonicalBytes(spec)).second) << fields.field(i)->name();
    if (!fields.field(i)->is_repeated()) continue;
    Put(spec, fields.field(i));
    EXPECT_TRUE(seen.insert(CanonicalBytes(spec)).second) << fields.field(i)->name();
  }
}

TEST(SpecHash, AMapIsItsEntriesInTheOrderOfTheirKeys) {
  v1::JobSpec by_env, by_labels;
  for (int i = 99; i >= 0; --i) {
    (*by_env.mutable_env())["name" + std::to_string(i)] = std::to_string(i);
    (*by_labels.mutable_labels())["name" + std::to_string(99 - i)] = std::to_string(99 - i);
  }
  // One of them is read natively, the other by reflection.
  EXPECT_EQ(CanonicalBytes(by_env).substr(4), CanonicalBytes(by_labels).substr(4));
}

TEST(SpecHash, ARetryAfterAnUpgradeIsTheSameJob) {
  ClusterState state;
  SubmitInput input;
  *input.request.mutable_spec() = Small();
  input.request.set_queue_anyway(true);
  input.request.set_idempotency_key("nightly");
  for (const v1::Event& fact : DecideOn(state, input, Now()).facts) {
    v1::Event older = fact;
    older.mutable_job_submitted()->mutable_record()->set_spec_hash(HashSpecAs020(Small()));
    Apply(state, older, Now());
  }
  EXPECT_TRUE(DecideOn(state, input, Now()).reply.submit.existed());
  input.request.mutable_spec()->set_priority(1);
  EXPECT_EQ(common::CodeOf(DecideOn(state, input, Now()).reply.status), "JC1205");
}

}  // namespace
}  // namespace muster::coordinator
