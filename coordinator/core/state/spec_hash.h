// Distinguishes specs that come with the same idempotency key. Hashes are journaled and compared
// after upgrades, so they cover our own encoding: protobuf does not promise the same bytes in all
// its versions. A field that a spec does not set adds nothing, so that a new field changes no hash.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// All set fields in the order of their numbers. A field is its number (4 bytes), how many values follow (8),
// and the values: numbers as 8 bytes, little-endian and sign-extended; texts and messages behind their length
// (8). A map is written as its entries in the order of their keys, each as key and value.
std::string CanonicalBytes(const google::protobuf::Message& message);

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
uint64_t HashBytes(std::string_view bytes);
// The hash of the canonical bytes.
uint64_t HashSpec(const v1::JobSpec& spec);
// The hash that 0.2.0 journaled: over protobuf's own bytes, maps in order.
uint64_t HashSpecAs020(const v1::JobSpec& spec);

}  // namespace muster::coordinator
