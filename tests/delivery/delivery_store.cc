#include "tests/delivery/delivery_store.h"

#include <string>

#include "coordinator/logs/log_merge.h"
#include "tests/delivery/broken.h"

namespace muster::delivery {

Content ReadStream(const coordinator::LogReader& reader, const coordinator::LogKey& key,
                   bool has_end) {
  const std::string name =
      "rank " + std::to_string(key.rank) + " stream " + std::to_string(key.stream);
  v1::StreamLogsRequest request;
  request.set_attempt(static_cast<int32_t>(key.attempt));
  coordinator::LogMerge merge(reader, key.job, request);
  const absl::Status looked = merge.Discover();
  Expect(looked.ok() || !has_end, "cannot look for streams");
  Content content;
  bool ended = false;
  while (const auto record = merge.Next()) {
    if (record->rank() != key.rank || record->stream() != key.stream) continue;
    Expect(!ended, name + " has a record behind its end");
    content.Drop(record->dropped());
    Expect(record->damaged() == 0, name + " has damage");
    Expect(record->offset() == content.bytes.size(),
           name + " is read at " + std::to_string(record->offset()) + " instead of " +
               std::to_string(content.bytes.size()));
    content.bytes += record->data();
    ended = record->end();
  }
  Expect(merge.Trouble().ok() || !has_end, name + " cannot be read");
  Expect(ended || !has_end, name + " has no end for a reader");
  return content;
}

}  // namespace muster::delivery
