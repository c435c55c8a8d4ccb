// The code that travels with jobs: what is missing of it, and its objects for people. What arrives:
// code_push.cc.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/problem.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "coordinator/core/owner.h"
#include "coordinator/identity/directory.h"
#include "coordinator/rpc/code_gate.h"
#include "coordinator/rpc/code_push.h"
#include "coordinator/rpc/handlers.h"
#include "coordinator/rpc/hiding.h"
#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {
namespace {

using common::MakeProblem;
using common::StrCat;

constexpr int kPreparedMax = 50'000;  // objects of one request

absl::StatusOr<std::vector<CodeObject>> ReadNames(const v1::PrepareObjectsRequest& request) {
  if (request.objects_size() > kPreparedMax) {
    return MakeProblem(absl::StatusCode::kInvalidArgument,
                       {.code = "JC1705",
                        .what = StrCat("the request names ", request.objects_size(),
                                       " objects; the limit is ", kPreparedMax),
                        .fix = "ask again for the rest"});
  }
  std::vector<CodeObject> objects;
  objects.reserve(static_cast<size_t>(request.objects_size()));
  for (const v1::ObjectName& name : request.objects()) {
    ASSIGN_OR_RETURN(objects.emplace_back(), ReadCodeObject(name.sha256(), name.size()));
  }
  return objects;
}

// From where a missing object has to be sent: less than its size, as that would say that it is here.
uint64_t GoOnAt(const std::map<std::string, uint64_t>& arrived, const CodeObject& object) {
  const auto found = arrived.find(object.sha256);
  return found == arrived.end() ? 0 : std::min(found->second, object.size - 1);
}

absl::StatusOr<v1::PrepareObjectsResponse> Prepare(Daemon& daemon, const Caller& caller,
                                                   const std::string& project,
                                                   const std::vector<CodeObject>& objects) {
  ASSIGN_OR_RETURN(const std::vector<bool> here, CodeIsHere(daemon, project, objects));
  std::map<std::string, uint64_t> arrived;
  for (const BlobStore::Partial& partial : daemon.blobs.Partials(project))
    arrived[partial.sha256] = partial.bytes;
  std::set<std::string> missing;
  uint64_t needed = 0;
  v1::PrepareObjectsResponse response;
  for (size_t i = 0; i < objects.size(); ++i) {
    response.add_offsets(here[i] ? objects[i].size : GoOnAt(arrived, objects[i]));
    if (!here[i] && missing.insert(objects[i].sha256).second)
      needed += CodeStore::Charge(objects[i].size);
  }
  ASSIGN_OR_RETURN(const uint64_t used,
                   CodeBytesUsed(daemon, project, [&](const std::string& sha256) {
                     return missing.contains(sha256);
                   }));
  RETURN_IF_ERROR(CheckCodeQuota(daemon, project, used, needed));
  const uint64_t begun =
      daemon.uploads.BegunBy(OwnerKey(caller), [&](const CodeUploads::Object& object) {
        return object.project == project && missing.contains(object.sha256);
      });
  RETURN_IF_ERROR(CheckGiverQuota(daemon, caller, needed, begun + needed));
  response.set_used_bytes(used);
  response.set_quota_bytes(daemon.code_quota_bytes);
  return response;
}

absl::Status NotItsCode(const v1::JobRecord& job, const std::string& sha256) {
  return MakeProblem(absl::StatusCode::kNotFound,
                     {.code = "JC1706",
                      .what = StrCat("the code of job ", job.name(), " has no object ",
                                     common::Printable(sha256.substr(0, 64))),
                      .fix = "jobctl show prints which code the job has"});
}

absl::Status CheckMaySeeCode(Daemon& daemon, const Caller& caller, const v1::JobRecord& job) {
  if (MaySeeCode(daemon, caller, job)) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kPermissionDenied,
                     {.code = "JC1706",
                      .what = StrCat("the code of job ", job.name(), " is for project ",
                                     ProjectName(job.spec().project()), ", and ", caller.principal,
                                     " is not a member of it"),
                      .fix = "ask the job's owner, or an administrator for a membership"});
}

}  // namespace

void PrepareObjects(Daemon& daemon, const Caller& caller, const v1::PrepareObjectsRequest& request,
                    Answer<v1::PrepareObjectsResponse> answer) {
  const absl::Status may = daemon.directory.CheckProject(request.project(), caller.principal);
  if (!may.ok()) return answer(may);
  absl::StatusOr<std::vector<CodeObject>> objects = ReadNames(request);
  if (!objects.ok()) return answer(objects.status());
  daemon.files.Post([&daemon, caller, answer = std::move(answer), objects = *std::move(objects),
                     project = ProjectName(request.project())] {
    answer(Prepare(daemon, caller, project, objects));
  });
}

void PullObject(Daemon& daemon, const Caller& caller, const v1::PullObjectRequest& request,
                std::shared_ptr<Sink<v1::BlobChunk>> sink) {
  FindJob(daemon, caller, request.job(),
          [&daemon, caller, request, sink](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return sink->Close(found.status());
            const std::shared_ptr<const v1::JobRecord> job = found->record;
            const absl::Status may = CheckMaySeeCode(daemon, caller, *job);
            if (!may.ok()) return sink->Close(may);
            daemon.code_gate.Check(
                daemon, job->id(), request.sha256(),
                [&daemon, job, request, sink](const absl::StatusOr<bool>& is_its_code) {
                  if (!is_its_code.ok()) return sink->Close(is_its_code.status());
                  if (!*is_its_code) return sink->Close(NotItsCode(*job, request.sha256()));
                  SendBlob(daemon, request.sha256(), request.offset(), sink);
                });
          });
}

}  // namespace muster::coordinator
