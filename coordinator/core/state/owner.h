// The owner of a record as one text, for comparisons and look-ups: the owner's name, followed by
// the person's id (User.id) if there is one, which another person who gets the name later does not
// have. It is never shown. Pure.
#pragma once

#include <string>
#include <string_view>

#include "coordinator/core/state/input.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Owner {
  std::string name;  // "user:alice", "uid:1000"
  std::string id;    // empty: none
};

// "user:alice#5f0c…", "uid:1000". No name has a '#'.
std::string OwnerKey(std::string_view name, std::string_view id);
std::string OwnerKey(const Caller& caller);
std::string OwnerKey(const v1::JobRecord& job);
Owner OwnerOfKey(std::string_view key);

}  // namespace muster::coordinator
