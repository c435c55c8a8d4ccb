#include "coordinator/periodic/object_mark.h"

#include <optional>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/object_blobs.h"

namespace muster::coordinator {

absl::Status CheckObjectMark(Objects& objects, ObjectNames& names, const std::string& prefix) {
  ASSIGN_OR_RETURN(const std::optional<NamedObject> mark, names.Find(kStoreMark));
  if (!mark.has_value()) {
    const NamedObject made{.key = NewObjectKey(prefix, kStoreMark),
                           .bytes = std::string_view(kStoreMarkBytes).size()};
    RETURN_IF_ERROR(objects.Put(made.key, std::string_view(kStoreMarkBytes)));
    return names.Name(kStoreMark, made);
  }
  const absl::Status there = objects.Head(mark->key).status();
  if (!absl::IsNotFound(there)) return there;
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1641",
       .what = common::StrCat(objects.Name(),
                              " is not the store that this cluster's checkpoints are in"),
       .why = common::StrCat("it has no object ", mark->key),
       .fix =
           "give every coordinator of the cluster the same --objects, and mount a shared directory "
           "before the coordinator starts"});
}

}  // namespace muster::coordinator
