// Tells specs apart that come with one idempotency key. Hashes are journaled and compared after
// upgrades, so what is hashed is ours: protobuf promises no bytes that stay the same between its
// versions. A field that a spec does not set adds nothing, so that a new one changes no hash. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// All set fields in the order of their numbers. A field is its number (4 bytes), how many values
// follow (8), and the values: numbers as 8 bytes, little-endian and sign-extended; texts and messages
// behind their length (8). Of a map, the entries in the order of their keys, each its key and value.
std::string CanonicalBytes(const google::protobuf::Message& message);

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t HashBytes(std::string_view bytes);
// Of the canonical bytes.
uint64_t HashSpec(const v1::JobSpec& spec);
// As 0.2.0 journaled it: of protobuf's own bytes, maps in order.
uint64_t HashSpecAs020(const v1::JobSpec& spec);

}  // namespace muster::coordinator
