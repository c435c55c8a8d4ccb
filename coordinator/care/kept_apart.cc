#include "coordinator/care/kept_apart.h"

#include <vector>

#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr Note kNotes[] = {Note::kNotify, Note::kLived};

absl::Status CopyNotes(const std::shared_ptr<SharedState>& from,
                       const std::shared_ptr<SharedState>& to) {
  ASSIGN_OR_RETURN(const std::unique_ptr<NoteStore> read, OpenNotes(from));
  ASSIGN_OR_RETURN(const std::unique_ptr<NoteStore> written, OpenNotes(to));
  for (const Note note : kNotes) {
    const absl::StatusOr<std::string> text = read->Read(note);
    if (absl::IsNotFound(text.status())) continue;
    RETURN_IF_ERROR(text.status());
    RETURN_IF_ERROR(written->Write(note, *text));
  }
  return absl::OkStatus();
}

absl::Status CheckPart(const absl::StatusOr<AuditPart>& part, const OnDamage& found) {
  absl::Status fault = part.status();
  if (fault.ok() && !part->damaged.empty())
    fault = absl::DataLossError(StrCat("the audit is damaged: ", part->damaged.front()));
  if (fault.ok() || found == nullptr) return fault;
  found(coordinator::DamageOf("audit", fault));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CopyAudit(const std::shared_ptr<SharedState>& from,
                                   const std::shared_ptr<SharedState>& to, const OnDamage& found) {
  ASSIGN_OR_RETURN(const std::unique_ptr<AuditStore> read, OpenAuditStore(from));
  ASSIGN_OR_RETURN(const std::unique_ptr<AuditStore> written, OpenAuditStore(to));
  ASSIGN_OR_RETURN(const AuditStore::End end, written->Recover());
  ASSIGN_OR_RETURN(const std::vector<uint64_t> parts, read->Parts());
  uint64_t last = end.head.number();
  for (const uint64_t first : parts) {
    const absl::StatusOr<AuditPart> part = read->Read(first);
    RETURN_IF_ERROR(CheckPart(part, found));
    if (!part.ok()) continue;
    std::vector<const v1::AuditEntry*> entries;
    for (const v1::AuditEntry& entry : part->entries) {
      if (entry.number() > last) entries.push_back(&entry);
    }
    if (entries.empty()) continue;
    RETURN_IF_ERROR(written->Append(entries));
    last = entries.back()->number();
  }
  return last;
}

}  // namespace

absl::StatusOr<uint64_t> CopyNotesAndAudit(const std::shared_ptr<SharedState>& from,
                                           const std::shared_ptr<SharedState>& to,
                                           const OnDamage& found) {
  RETURN_IF_ERROR(CopyNotes(from, to));
  return CopyAudit(from, to, found);
}

absl::Status LeaveTheOthers(const std::string& stage, const std::string& data_dir,
                            const OnDamage& found) {
  const std::unique_ptr<ReplicaHome> home = ReplicaHomeOf(ConfigOf(stage));
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica, home->Open());
    if (replica->Log().empty()) return absl::OkStatus();
  }
  OfACopy log;
  RETURN_IF_ERROR(
      CopyNotesAndAudit(ShareState(ConfigOf(stage), {.log = &log, .archive_dir = data_dir}),
                        ShareState(ConfigOf(data_dir)), found)
          .status());
  ASSIGN_OR_RETURN(const std::unique_ptr<Replica> replica, home->Open());
  return replica->Leave();
}

}  // namespace muster::coordinator
