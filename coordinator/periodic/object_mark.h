// Whether --objects names the store that the cluster's blobs are in. The first leader that has a store puts an object
// there, and the state names it as it names blobs (kStoreMark); in another store there is none.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/stores/object_names.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator {

// FAILED_PRECONDITION (JC1641): it is another store. Other errors: no verdict. `prefix`: of our keys, with a slash at its
// end. May be slow.
absl::Status CheckObjectMark(Objects& objects, ObjectNames& names, const std::string& prefix);

}  // namespace muster::coordinator
