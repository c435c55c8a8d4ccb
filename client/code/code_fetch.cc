#include "client/code/code_fetch.h"

#include <algorithm>

#include "client/connection/connection.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/digest.h"

namespace muster::client {

using common::StrCat;

CodeFetch::CodeFetch(Connection& connection, const v1::JobRecord& record)
    : connection_(connection), job_(std::to_string(record.id())), code_(record.spec().code()) {}

absl::Status CodeFetch::Differs(const std::string& what) const {
  return common::MakeProblem(absl::StatusCode::kDataLoss,
                             {.code = "JC1717",
                              .what = StrCat("the coordinator has other bytes of ", what,
                                             " of job ", job_, " than the job names"),
                              .fix = "run muster-coordinator check there"});
}

absl::StatusOr<std::string> CodeFetch::Read(const std::string& sha256, uint64_t offset,
                                            uint64_t size) const {
  v1::PullObjectRequest request;
  request.set_job(job_);
  request.set_sha256(sha256);
  request.set_offset(offset);
  std::string bytes;
  RETURN_IF_ERROR(connection_.PullObject(request, [&](const v1::BlobChunk& chunk) {
    bytes.append(chunk.data(), 0, size - bytes.size());
    return bytes.size() < size;
  }));
  if (bytes.size() < size) return Differs(StrCat("object ", sha256.substr(0, 12)));
  return bytes;
}

absl::StatusOr<tree::Manifest> CodeFetch::Manifest() const {
  if (code_.manifest_bytes() > tree::kManifestBytesMax) return Differs("the manifest");
  ASSIGN_OR_RETURN(const std::string bytes, Read(code_.tree(), 0, code_.manifest_bytes()));
  if (tree::Hex(tree::DigestOf(bytes)) != code_.tree()) return Differs("the manifest");
  return tree::Decode(bytes);
}

absl::StatusOr<tree::Placement> CodeFetch::Placement(const tree::Manifest& manifest) const {
  // 40 bytes per object, 12 per file, neither more than there are entries.
  if (code_.placement_bytes() > 64 + 52 * uint64_t{manifest.entries.size()})
    return Differs("the placement");
  const auto identity = tree::FromHex(code_.tree());
  ASSIGN_OR_RETURN(const std::string bytes, Read(code_.placement(), 0, code_.placement_bytes()));
  if (!identity.has_value() || tree::Hex(tree::DigestOf(bytes)) != code_.placement())
    return Differs("the placement");
  return tree::DecodePlacement(bytes, manifest, *identity);
}

absl::StatusOr<std::string> CodeFetch::File(const tree::Manifest& manifest,
                                            const tree::Placement& placement,
                                            const tree::Entry& file) const {
  if (file.size == 0) return std::string();
  const tree::Place& place = placement.places[static_cast<size_t>(&file - manifest.entries.data())];
  ASSIGN_OR_RETURN(std::string bytes,
                   Read(tree::Hex(placement.objects[place.object].name), place.offset, file.size));
  if (tree::DigestOf(bytes) != file.content) return Differs(common::Printable(file.path));
  return bytes;
}

}  // namespace muster::client
