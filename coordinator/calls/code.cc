// The code that travels with jobs: which of its objects are missing, and its objects for people. Uploads:
// code_push.cc.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/calls/blob_answers.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/hiding.h"
#include "coordinator/code/code_push.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/gates/code_gate.h"
#include "coordinator/identity/directory.h"

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

// The offset from which a missing object must be sent: less than its size, which would mean that it is here.
uint64_t GoOnAt(const std::map<std::string, uint64_t>& arrived, const CodeObject& object) {
  const auto found = arrived.find(object.sha256);
  return found == arrived.end() ? 0 : std::min(found->second, object.size - 1);
}

absl::StatusOr<v1::PrepareObjectsResponse> Prepare(JobStores& stores, JobCode& job_code,
                                                   Process& process, const Caller& caller,
                                                   const std::string& project,
                                                   const std::vector<CodeObject>& objects) {
  ASSIGN_OR_RETURN(const std::vector<bool> here,
                   CodeIsHere(stores, job_code, process, project, objects));
  std::map<std::string, uint64_t> arrived;
  for (const Blobs::Partial& partial : stores.blobs.Partials(project))
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
                   CodeBytesUsed(stores, job_code, project, [&](const std::string& sha256) {
                     return missing.contains(sha256);
                   }));
  RETURN_IF_ERROR(CheckCodeQuota(job_code, project, used, needed));
  const uint64_t begun =
      job_code.uploads.BegunBy(OwnerKey(caller), [&](const CodeUploads::Object& object) {
        return object.project == project && missing.contains(object.sha256);
      });
  RETURN_IF_ERROR(CheckGiverQuota(job_code, caller, needed, begun + needed));
  response.set_used_bytes(used);
  response.set_quota_bytes(job_code.quota_bytes);
  return response;
}

absl::Status NotItsCode(const v1::JobRecord& job, const std::string& sha256) {
  return MakeProblem(absl::StatusCode::kNotFound,
                     {.code = "JC1706",
                      .what = StrCat("the code of job ", job.name(), " has no object ",
                                     common::Printable(sha256.substr(0, 64))),
                      .fix = "jobctl show prints which code the job has"});
}

absl::Status CheckMaySeeCode(Access& access, const Caller& caller, const v1::JobRecord& job) {
  if (MaySeeCode(access, caller, job)) return absl::OkStatus();
  return MakeProblem(absl::StatusCode::kPermissionDenied,
                     {.code = "JC1706",
                      .what = StrCat("the code of job ", job.name(), " is for project ",
                                     ProjectName(job.spec().project()), ", and ", caller.principal,
                                     " is not a member of it"),
                      .fix = "ask the job's owner, or an administrator for a membership"});
}

}  // namespace

void PrepareObjects(JobStores& stores, JobCode& job_code, Access& access, Process& process,
                    const Caller& caller, const v1::PrepareObjectsRequest& request,
                    Answer<v1::PrepareObjectsResponse> answer) {
  const absl::Status may = access.directory.CheckProject(request.project(), caller.principal);
  if (!may.ok()) return answer(may);
  absl::StatusOr<std::vector<CodeObject>> objects = ReadNames(request);
  if (!objects.ok()) return answer(objects.status());
  process.files.Post([&stores, &job_code, &process, caller, answer = std::move(answer),
                      objects = *std::move(objects), project = ProjectName(request.project())] {
    answer(Prepare(stores, job_code, process, caller, project, objects));
  });
}
MUSTER_HANDLER(PrepareObjects)

void PullObject(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates, Access& access,
                Process& process, const Caller& caller, const v1::PullObjectRequest& request,
                std::shared_ptr<Sink<v1::BlobChunk>> sink) {
  FindJob(jobs, process, caller, request.job(),
          [&jobs, &stores, &job_code, &gates, &access, &process, caller, request,
           sink](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return sink->Close(found.status());
            const std::shared_ptr<const v1::JobRecord> job = found->record;
            const absl::Status may = CheckMaySeeCode(access, caller, *job);
            if (!may.ok()) return sink->Close(may);
            gates.code.Check(
                jobs, job_code, process, job->id(), request.sha256(),
                [&stores, &process, job, request, sink](const absl::StatusOr<bool>& is_its_code) {
                  if (!is_its_code.ok()) return sink->Close(is_its_code.status());
                  if (!*is_its_code) return sink->Close(NotItsCode(*job, request.sha256()));
                  SendBlob(stores, process,
                           {.sha256 = request.sha256(), .offset = request.offset()}, sink);
                });
          });
}
MUSTER_HANDLER(PullObject)

}  // namespace muster::coordinator
