#include "coordinator/code/code_push.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/code/job_code.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/identity/directory.h"
#include "coordinator/stores/shortage.h"
#include "tree/digest.h"
#include "tree/manifest.h"

namespace muster::coordinator {
namespace {

using common::HumanBytes;
using common::MakeProblem;
using common::StrCat;

constexpr std::string_view kSendAgain =
    "ask PrepareObjects where to continue, and send the objects as it answers";

absl::Status BadPush(absl::StatusCode code, std::string what) {
  return MakeProblem(code,
                     {.code = "JC1705", .what = std::move(what), .fix = std::string(kSendAgain)});
}

}  // namespace

absl::StatusOr<CodeObject> ReadCodeObject(const std::string& sha256, uint64_t size) {
  tree::Digest digest;
  if (sha256.size() != digest.bytes.size()) {
    return BadPush(absl::StatusCode::kInvalidArgument,
                   StrCat("an object's name has ", sha256.size(), " bytes, not the ",
                          digest.bytes.size(), " of a SHA-256"));
  }
  std::copy(sha256.begin(), sha256.end(), digest.bytes.begin());
  if (size >= 1 && size <= tree::kTreeBytesMax) return CodeObject{tree::Hex(digest), size};
  return BadPush(absl::StatusCode::kInvalidArgument,
                 StrCat("object ", tree::Hex(digest), " has ", size, " bytes; an object has 1 to ",
                        tree::kTreeBytesMax));
}

absl::StatusOr<std::vector<bool>> CodeIsHere(JobStores& stores, JobCode& job_code, Process& process,
                                             const std::string& project,
                                             const std::vector<CodeObject>& objects) {
  ASSIGN_OR_RETURN(std::vector<bool> here,
                   job_code.store.Use(project, objects, process.clock.Read().lived_ms));
  // An object that a repair has set aside must be uploaded again.
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!here[i]) continue;
    const absl::StatusOr<uint64_t> size = stores.blobs.Size(objects[i].sha256);
    here[i] = size.ok() && *size == objects[i].size;
  }
  return here;
}

absl::StatusOr<uint64_t> CodeBytesUsed(JobStores& stores, JobCode& job_code,
                                       const std::string& project,
                                       const std::function<bool(const std::string&)>& except) {
  // In this order, so that what becomes whole in between is counted twice instead of not at all.
  const std::map<std::string, uint64_t> under_way = job_code.uploads.UnderWay(project);
  ASSIGN_OR_RETURN(uint64_t used, job_code.store.UsedBytes(project));
  for (const auto& [sha256, size] : under_way) {
    if (!except(sha256)) used += CodeStore::Charge(size);
  }
  for (const Blobs::Partial& partial : stores.blobs.Partials(project)) {
    if (!except(partial.sha256) && !under_way.contains(partial.sha256))
      used += CodeStore::Charge(partial.bytes);
  }
  return used;
}

absl::Status CheckCodeQuota(const JobCode& job_code, const std::string& project, uint64_t used,
                            uint64_t needed) {
  const uint64_t quota = job_code.quota_bytes;
  if (quota == 0 || needed == 0 || (used <= quota && needed <= quota - used))
    return absl::OkStatus();
  return MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1701",
       .what = StrCat("the code needs ", HumanBytes(needed), " more, and project ", project,
                      " uses ", HumanBytes(used), " of its ", HumanBytes(quota)),
       .fix = "leave out what the job does not need (.musterignore), or remove old jobs (jobctl "
              "rm): what no job uses goes a day later; an operator raises --code-quota"});
}

absl::Status CheckGiverQuota(JobCode& job_code, const Caller& caller, uint64_t needed,
                             uint64_t begun) {
  const uint64_t quota = job_code.person_quota_bytes;
  if (quota == 0 || needed == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t whole, job_code.store.GivenBytes(OwnerKey(caller)));
  const uint64_t used = whole + begun - needed;
  if (used <= quota && needed <= quota - used) return absl::OkStatus();
  return MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1701",
       .what = StrCat("the code needs ", HumanBytes(needed), " more, and ", caller.principal,
                      " has brought ", HumanBytes(used), " of the ", HumanBytes(quota),
                      " that one person may"),
       .fix = "leave out what the job does not need (.musterignore), or remove old jobs (jobctl "
              "rm): what no job uses goes a day later; an operator raises --person-code-quota"});
}

// Pure: on gRPC's thread.
absl::Status CodePush::Check(const v1::ObjectChunk& chunk) {
  const auto refuse = [](std::string what) {
    return BadPush(absl::StatusCode::kInvalidArgument, std::move(what));
  };
  if (chunk.data().size() > common::kObjectChunkBytesMax) {
    return refuse(StrCat("a chunk has ", chunk.data().size(), " bytes; the limit is ",
                         common::kObjectChunkBytesMax));
  }
  if (!has_begun_) {
    has_begun_ = true;
    project_ = ProjectName(chunk.project());
  } else if (!chunk.project().empty() && chunk.project() != project_) {
    return refuse("a stream brings the objects of one project");
  }
  if (!current_.has_value()) RETURN_IF_ERROR(CheckFirst(chunk));
  const Current& current = *current_;
  const bool is_other =
      !chunk.sha256().empty() &&
      chunk.sha256() != std::string_view(reinterpret_cast<const char*>(
                                             tree::FromHex(current.name.sha256)->bytes.data()),
                                         tree::Digest().bytes.size());
  if (is_other) {
    return refuse(StrCat("another object follows ", current.position, " of the ", current.size,
                         " bytes of ", current.name.sha256));
  }
  // Later chunks of an object need not state their offset.
  if (chunk.offset() != current.position && chunk.offset() != 0) {
    return refuse(StrCat("a chunk of ", current.name.sha256, " is at ", chunk.offset(),
                         ", but byte ", current.position, " is next"));
  }
  if (chunk.data().size() > current.size - current.position) {
    return refuse(
        StrCat("object ", current.name.sha256, " has ", current.size, " bytes, and more arrived"));
  }
  return absl::OkStatus();
}

absl::Status CodePush::CheckFirst(const v1::ObjectChunk& chunk) {
  // Checked each time: a membership may end while objects arrive.
  RETURN_IF_ERROR(access_.directory.CheckProject(project_, caller_.principal));
  ASSIGN_OR_RETURN(const CodeObject object, ReadCodeObject(chunk.sha256(), chunk.size()));
  if (chunk.offset() >= object.size) {
    return BadPush(absl::StatusCode::kInvalidArgument,
                   StrCat("object ", object.sha256, " has ", object.size,
                          " bytes and cannot begin at ", chunk.offset()));
  }
  current_.emplace(Current{.name = {.project = project_, .sha256 = object.sha256},
                           .size = object.size,
                           .position = chunk.offset(),
                           .upload = nullptr});
  return absl::OkStatus();
}

void CodePush::Take(v1::ObjectChunk chunk, Next next) {
  const bool is_first = !current_.has_value();
  if (const absl::Status checked = Check(chunk); !checked.ok()) {
    // Not claimed yet.
    if (is_first) current_.reset();
    return next(checked);
  }
  const auto kept = std::make_shared<const v1::ObjectChunk>(std::move(chunk));
  if (!is_first) {
    return process_.files.Post(
        [self = shared_from_this(), kept, next = std::move(next)] { self->Write(*kept, next); });
  }
  job_code_.uploads.Claim(
      current_->name, current_->size, [self = shared_from_this(), kept, next = std::move(next)] {
        self->process_.files.Post([self, kept, next] { self->Open(kept, next); });
      });
}

void CodePush::Open(Chunk chunk, Next next) {
  const CodeObject object{.sha256 = current_->name.sha256, .size = current_->size};
  const auto here = CodeIsHere(stores_, job_code_, process_, project_, {object});
  if (!here.ok()) return next(Told(here.status()));
  if (here->front()) return Write(*chunk, next);
  if (const absl::Status opened = OpenUpload(); !opened.ok()) return next(Told(opened));
  CatchUp(std::move(chunk), std::move(next));
}

absl::Status CodePush::OpenUpload() {
  RETURN_IF_ERROR(CheckRoom());
  ASSIGN_OR_RETURN(current_->upload, stores_.blobs.OpenUpload({.owner = project_,
                                                               .sha256 = current_->name.sha256,
                                                               .size = current_->size,
                                                               .offset = current_->position}));
  return absl::OkStatus();
}

absl::Status CodePush::CheckRoom() {
  ASSIGN_OR_RETURN(const uint64_t used,
                   CodeBytesUsed(stores_, job_code_, project_, [this](const std::string& sha256) {
                     return sha256 == current_->name.sha256;
                   }));
  RETURN_IF_ERROR(CheckCodeQuota(job_code_, project_, used, CodeStore::Charge(current_->size)));
  // What concurrent streams have begun counts, and what becomes whole meanwhile counts twice.
  const uint64_t needed = CodeStore::Charge(current_->size);
  const uint64_t begun = job_code_.uploads.Begin(current_->name, OwnerKey(caller_), needed);
  absl::Status may = CheckGiverQuota(job_code_, caller_, needed, begun);
  if (!may.ok()) job_code_.uploads.Interrupt(current_->name, 0);
  return may;
}

// One piece per turn: other streams' bytes are written in between.
void CodePush::CatchUp(Chunk chunk, Next next) {
  const absl::StatusOr<bool> caught_up = current_->upload->CatchUp();
  if (!caught_up.ok()) return next(Told(caught_up.status()));
  if (*caught_up) return Write(*chunk, next);
  process_.files.Post([self = shared_from_this(), chunk = std::move(chunk),
                       next = std::move(next)] { self->CatchUp(chunk, next); });
}

void CodePush::Write(const v1::ObjectChunk& chunk, const Next& next) {
  if (current_->upload != nullptr) {
    if (const absl::Status written = current_->upload->Append(chunk.data()); !written.ok())
      return next(Told(written));
  }
  current_->position += chunk.data().size();
  done_.set_bytes(done_.bytes() + chunk.data().size());
  if (current_->position < current_->size) return next(absl::OkStatus());
  if (const absl::Status committed = Commit(); !committed.ok()) return next(Told(committed));
  done_.set_objects(done_.objects() + 1);
  ReleaseCurrent();
  next(absl::OkStatus());
}

absl::Status CodePush::Commit() {
  if (current_->upload == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(current_->upload->Commit());
  return job_code_.store.Add(project_, {.sha256 = current_->name.sha256, .size = current_->size},
                             OwnerKey(caller_), process_.clock.Read().lived_ms);
}

absl::Status CodePush::Told(const absl::Status& status) const {
  if (!common::CodeOf(status).empty()) return status;
  const std::string object =
      StrCat("object ", current_->name.sha256, " of ", HumanBytes(current_->size));
  if (absl::IsResourceExhausted(status)) {
    return MakeProblem(absl::StatusCode::kResourceExhausted,
                       {.code = "JC1605",
                        .what = StrCat(object, " cannot be stored: the coordinator's disk is full"),
                        .why = std::string(status.message()),
                        .fix = "free some space there, then submit again: what has arrived stays "
                               "for a day"});
  }
  // UNAVAILABLE would mean that the coordinator cannot be reached.
  const absl::StatusCode code = IsShortage(status) ? absl::StatusCode::kAborted : status.code();
  return BadPush(code, StrCat(object, " cannot be taken: ", std::string(status.message())));
}

void CodePush::ReleaseCurrent() {
  if (!current_.has_value()) return;
  const CodeUploads::Object name = current_->name;
  const bool is_part = current_->upload != nullptr && current_->position < current_->size;
  job_code_.uploads.Interrupt(name, is_part ? CodeStore::Charge(current_->position) : 0);
  // Its file is closed before another stream may open it.
  current_.reset();
  job_code_.uploads.Release(name);
}

void CodePush::End(Totals totals) {
  process_.files.Post([self = shared_from_this(), totals = std::move(totals)] {
    absl::Status status;
    if (self->current_.has_value()) {
      const Current& current = *self->current_;
      status = BadPush(absl::StatusCode::kInvalidArgument,
                       StrCat("the stream ended after ", current.position, " of the ", current.size,
                              " bytes of ", current.name.sha256));
    } else if (!self->has_begun_) {
      status = BadPush(absl::StatusCode::kInvalidArgument, "a stream without objects");
    }
    self->ReleaseCurrent();
    if (!status.ok()) return totals(status);
    totals(self->done_);
  });
}

}  // namespace muster::coordinator
