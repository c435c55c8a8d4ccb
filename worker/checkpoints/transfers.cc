// transfers: one part or one fetch at a time.
#include "worker/checkpoints/transfers.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/log.h"
#include "common/outputs.h"
#include "common/text/strings.h"
#include "worker/base/descriptor_budget.h"
#include "worker/checkpoints/checkpoint_directory.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;
constexpr size_t kHashBytes = 1 << 20;
constexpr size_t kCopyBytes = 64 << 20;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// DATA_LOSS if its size is not `size`. CANCELLED if `progress` returns false. `path`: for messages.
absl::StatusOr<std::string> HashFile(int file, const std::string& path, uint64_t size,
                                     const std::function<bool()>& progress) {
  common::Sha256 hash;
  std::vector<char> buffer(kHashBytes);
  uint64_t total = 0;
  while (true) {
    const ssize_t count = read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(common::StrCat("cannot read ", path));
    if (count == 0 || total > size) break;
    hash.Update({buffer.data(), static_cast<size_t>(count)});
    total += static_cast<uint64_t>(count);
    if (!progress()) return absl::CancelledError("the worker is stopping");
  }
  if (total != size) {
    return absl::DataLossError(common::StrCat(path, " changed while it was read"));
  }
  return hash.FinishHex();
}

// Makes a durable copy of `from` if its bytes are the file's; otherwise leaves no copy.
bool CopyChecked(int from, const v1::CheckpointFile& file, const std::string& target,
                 const std::function<bool()>& progress) {
  common::UniqueFd to(open(target.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!to.valid()) return false;
  // Verifies the copy, which no other process can open, instead of the bytes as they are read.
  uint64_t left = file.size();
  ssize_t count = 1;
  while (left > 0 && count > 0 && progress()) {
    count =
        copy_file_range(from, nullptr, to.get(), nullptr, std::min<uint64_t>(left, kCopyBytes), 0);
    if (count > 0) left -= static_cast<uint64_t>(count);
  }
  const bool is_whole = left == 0 && lseek(to.get(), 0, SEEK_SET) == 0;
  const auto hash = is_whole ? HashFile(to.get(), target, file.size(), progress) : std::string();
  if (hash.ok() && *hash == file.sha256() && fsync(to.get()) == 0) return true;
  unlink(target.c_str());
  return false;
}

// The part that an upload is about, without its files.
v1::CheckpointPartReady PartOf(const UploadAction& action) {
  v1::CheckpointPartReady ready;
  ready.set_job(action.key.job);
  ready.set_attempt(action.key.attempt);
  ready.set_step(action.step);
  ready.set_part(action.part);
  ready.set_parts(action.parts);
  return ready;
}

v1::CheckpointFile FileOf(const std::string& path, const Blob& blob, uint32_t part) {
  v1::CheckpointFile file;
  file.set_path(path);
  file.set_size(blob.size);
  file.set_sha256(blob.sha256);
  file.set_part(part);
  return file;
}

// Opens a regular file below `directory`, on the same file system and not through a link: other
// jobs' directories are searched too, and the target of a link may hang.
common::UniqueFd OpenBelow(const std::string& directory, const std::string& path) {
  const common::UniqueFd root(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  open_how how{};
  how.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  common::UniqueFd file(
      static_cast<int>(syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
  struct stat info {};
  const bool regular = file.valid() && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode);
  return regular ? std::move(file) : common::UniqueFd();
}

// Acts as the account only for this: a call to the coordinator may start threads and connections,
// which would keep the account.
absl::StatusOr<std::vector<StepFile>> ListStepFilesAs(const RankAccount& account,
                                                      const std::string& directory) {
  const ActAs acting(account);
  return ListStepFiles(directory);
}

absl::StatusOr<common::UniqueFd> OpenAs(const RankAccount& account, const std::string& path) {
  const ActAs acting(account);
  return common::OpenRegular(path, O_RDONLY | O_NOFOLLOW);
}

// Only this process has written anything below `directory`, and no other account can reach it.
absl::Status HandOver(const std::string& directory, const common::LaunchAccount& account) {
  const auto give = [&account](const std::string& path) {
    if (lchown(path.c_str(), account.uid, account.gid) == 0) return absl::OkStatus();
    return common::ErrnoStatus(common::StrCat("cannot hand over ", path));
  };
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    RETURN_IF_ERROR(give(entry->path().string()));
  }
  if (error) return absl::InternalError(common::StrCat(directory, ": ", error.message()));
  return give(directory);
}

// The directory is closed to all other accounts while it is filled; otherwise a rank could redirect
// the writes of a worker that runs as root.
absl::Status TakeBack(const std::string& directory) {
  if (lchown(directory.c_str(), geteuid(), getegid()) == 0 && chmod(directory.c_str(), 0700) == 0)
    return absl::OkStatus();
  return common::ErrnoStatus(common::StrCat("cannot close ", directory));
}

}  // namespace

Transfers::Transfers(Paths paths, PortRange ports, JobThreads* threads,
                     std::function<void(Input)> result)
    : paths_(std::move(paths)), ports_(ports), threads_(threads), result_(std::move(result)) {}

Transfers::~Transfers() { Shutdown(); }

void Transfers::Shutdown() {
  stopping_ = true;
  uploads_client_.Stop();
  fetch_client_.Stop();
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [key, cancelled] : fetches_) *cancelled = true;
  for (auto& [key, server] : serving_) server->Stop();
}

void Transfers::SetRoute(const Route& route) {
  uploads_client_.SetRoute(route);
  fetch_client_.SetRoute(route);
}

void Transfers::Upload(const UploadAction& action) {
  threads_->Post(action.key, Work::kUpload, [this, action] { UploadNow(action); });
}

void Transfers::UploadNow(const UploadAction& action) {
  const std::string record = paths_.UploadRecord(action.key, action.step, action.part);
  v1::CheckpointPartReady ready;
  std::string left_out;
  // Uploaded before a restart of this worker: nothing is hashed again.
  if (auto known = Recorded(action)) {
    ready = *std::move(known);
  } else {
    absl::StatusOr<v1::CheckpointPartReady> sent =
        action.step == common::kOutputsStep ? SendOutputs(action, &left_out) : HashAndSend(action);
    if (stopping_) return;
    if (!sent.ok()) {
      return result_(
          UploadFailedInput{action.key, action.step, action.part, MessageOf(sent.status())});
    }
    ready = *std::move(sent);
    if (absl::Status kept = common::WriteFileDurably(record, ready.SerializeAsString());
        !kept.ok()) {
      common::LogWarning(common::StrCat("upload record not kept reason=\"", MessageOf(kept), "\""));
    }
  }
  result_(UploadDoneInput{std::move(ready), std::move(left_out)});
}

std::optional<v1::CheckpointPartReady> Transfers::Recorded(const UploadAction& action) const {
  const auto known = common::ReadFile(paths_.UploadRecord(action.key, action.step, action.part));
  v1::CheckpointPartReady ready;
  // The rank can write there too.
  if (!known.ok() || !ready.ParseFromString(*known) || ready.job() != action.key.job ||
      ready.attempt() != action.key.attempt || ready.step() != action.step ||
      ready.part() != action.part || ready.parts() != action.parts ||
      static_cast<size_t>(ready.files_size()) > kCheckpointFilesMax) {
    return std::nullopt;
  }
  for (const v1::CheckpointFile& file : ready.files()) {
    if (!CheckRelativePath(file.path()).ok() || !common::IsSha256Hex(file.sha256())) {
      return std::nullopt;
    }
  }
  return ready;
}

absl::StatusOr<v1::CheckpointPartReady> Transfers::HashAndSend(const UploadAction& action) {
  const std::string directory =
      common::StrCat(paths_.CheckpointsDir(action.key), "/", StepName(action.step));
  const RankAccount account = ReadAccount(paths_.Account(action.key));
  ASSIGN_OR_RETURN(const std::vector<StepFile> files, ListStepFilesAs(account, directory));
  const auto progress = [&] {
    result_(UploadProgressInput{action.key});
    return !stopping_;
  };
  v1::CheckpointPartReady ready = PartOf(action);
  for (const StepFile& file : files) {
    if (stopping_) return absl::CancelledError("the worker is stopping");
    const std::string path = directory + "/" + file.path;
    ASSIGN_OR_RETURN(const common::UniqueFd opened, OpenAs(account, path));
    const auto sha256 = HashFile(opened.get(), path, file.size, progress);
    if (absl::IsDataLoss(sha256.status())) {
      return absl::DataLossError(
          common::StrCat(MessageOf(sha256.status()), "; fix: rename only finished directories"));
    }
    RETURN_IF_ERROR(sha256.status());
    const Blob blob{*sha256, file.size};
    RETURN_IF_ERROR(uploads_client_.Upload(opened.get(), blob, action.key, progress));
    *ready.add_files() = FileOf(file.path, blob, action.part);
    progress();
  }
  return ready;
}

absl::StatusOr<v1::CheckpointPartReady> Transfers::SendOutputs(const UploadAction& action,
                                                               std::string* left_out) {
  v1::CheckpointPartReady ready = PartOf(action);
  const absl::StatusOr<OutputTree> tree =
      OutputTree::Open(paths_, action.key, action.spec, ReadAccount(paths_.Account(action.key)));
  if (!tree.ok()) {
    *left_out = MessageOf(tree.status());
    return ready;
  }
  LeftOut others;
  ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                   tree->Find(action.spec.outputs(), action.quota_bytes, &others));
  for (const std::string& path : paths) {
    auto file = SendOutput(*tree, action, path);
    // A process that outlived the ranks may still write.
    if (absl::IsDataLoss(file.status())) file = SendOutput(*tree, action, path);
    if (stopping_) return absl::CancelledError("the worker is stopping");
    if (absl::IsDataLoss(file.status())) {
      others.Add(path, "it changed while it was read");
    } else if (absl::IsFailedPrecondition(file.status())) {
      others.Add(path, MessageOf(file.status()));
    } else {
      RETURN_IF_ERROR(file.status());
      *ready.add_files() = *std::move(file);
    }
  }
  *left_out = others.Text();
  return ready;
}

absl::StatusOr<v1::CheckpointFile> Transfers::SendOutput(const OutputTree& tree,
                                                         const UploadAction& action,
                                                         const std::string& path) {
  const auto progress = [&] {
    result_(UploadProgressInput{action.key});
    return !stopping_;
  };
  ASSIGN_OR_RETURN(const common::UniqueFd opened, tree.OpenFile(path));
  struct stat info {};
  if (fstat(opened.get(), &info) != 0) return absl::FailedPreconditionError("cannot be inspected");
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  const auto sha256 = HashFile(opened.get(), path, size, progress);
  if (absl::IsInternal(sha256.status()))  // a disk or a network file system that fails
    return absl::FailedPreconditionError(MessageOf(sha256.status()));
  RETURN_IF_ERROR(sha256.status());
  const Blob blob{*sha256, size};
  const absl::Status sent = uploads_client_.Upload(opened.get(), blob, action.key, progress);
  // The coordinator's refusals are about the attempt, not about this file.
  if (absl::IsFailedPrecondition(sent)) return absl::AbortedError(MessageOf(sent));
  RETURN_IF_ERROR(sent);
  progress();
  return FileOf(path, blob, action.part);
}

void Transfers::Fetch(const AttemptKey& key, const v1::LaunchAttempt& launch) {
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    fetches_[key] = cancelled;
  }
  threads_->Post(key, Work::kFetch, [this, key, launch, cancelled] {
    const absl::Status status = FetchNow(key, launch, *cancelled);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      fetches_.erase(key);
    }
    if (!stopping_)
      result_(FetchedInput{key, status.ok() ? "" : MessageOf(status), absl::IsDataLoss(status)});
  });
}

void Transfers::CancelFetch(const AttemptKey& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (auto found = fetches_.find(key); found != fetches_.end()) *found->second = true;
}

// An older coordinator sends them with the launch.
absl::StatusOr<v1::CheckpointFiles> Transfers::ResumeFiles(const AttemptKey& key,
                                                           const v1::LaunchAttempt& launch,
                                                           const PeerServer* own,
                                                           const std::atomic<bool>& cancelled) {
  if (!launch.resume_files().empty()) {
    v1::CheckpointFiles all;
    *all.mutable_files() = launch.resume_files();
    return all;
  }
  v1::ListResumeFilesRequest request;
  request.set_job(key.job);
  request.set_step(launch.resume_step());
  request.set_attempt(launch.resume_attempt());
  request.set_for_attempt(key.attempt);
  if (own != nullptr) {
    request.set_group_rank(launch.part().group_rank());
    request.set_serves_port(own->port());
    request.set_serves_secret(own->secret());
  }
  return fetch_client_.ListResumeFiles(request, launch.resume_file_count(),
                                       [&] { return cancelled.load(); });
}

absl::Status Transfers::FetchNow(const AttemptKey& key, const v1::LaunchAttempt& launch,
                                 const std::atomic<bool>& cancelled) {
  if (cancelled) return absl::CancelledError("stopped");
  const std::string target = paths_.ResumeStep(key, launch.resume_step());
  const std::string building = target + ".tmp";
  const RankAccount account = ReadAccount(paths_.Account(key));
  if (account.ids.is_other) RETURN_IF_ERROR(TakeBack(paths_.ResumeDir(key)));
  RETURN_IF_ERROR(common::RemoveTree(building));
  const auto arriving = std::make_shared<ArrivingFiles>(BudgetOfThisProcess().served_files);
  const std::shared_ptr<PeerServer> own = ServeOthers(key, launch, cancelled, arriving);
  const auto files = ResumeFiles(key, launch, own.get(), cancelled);
  absl::Status status = files.status();
  if (status.ok()) {
    PeerSource peer(files->from(), cancelled);
    status = FetchAll({.key = key,
                       .launch = launch,
                       .account = account,
                       .cancelled = cancelled,
                       .arriving = own == nullptr ? nullptr : arriving.get(),
                       .peer = peer},
                      files->files(), building);
  }
  if (own != nullptr) own->FetchEnded();
  if (!files.ok()) return status;
  if (status.ok()) status = common::SyncDirectory(building);
  if (status.ok() && account.ids.is_other) status = HandOver(building, account.ids);
  if (status.ok() && rename(building.c_str(), target.c_str()) != 0) {
    status = common::ErrnoStatus(common::StrCat("cannot rename ", building));
  }
  if (status.ok() && account.ids.is_other) {
    if (lchown(paths_.ResumeDir(key).c_str(), account.ids.uid, account.ids.gid) != 0)
      status = common::ErrnoStatus(common::StrCat("cannot hand over ", paths_.ResumeDir(key)));
  }
  if (status.ok()) return common::SyncDirectory(paths_.ResumeDir(key));
  common::RemoveTree(building).IgnoreError();  // never leave half a directory
  return status;
}

absl::Status Transfers::FetchAll(
    const Fetching& fetching, const google::protobuf::RepeatedPtrField<v1::CheckpointFile>& files,
    const std::string& building) {
  RETURN_IF_ERROR(common::MakeDirectories(building));
  for (const v1::CheckpointFile& file : files) {
    const absl::Status status = FetchFile(fetching, file, building + "/" + file.path());
    if (!status.ok())
      return absl::Status(status.code(), common::StrCat(file.path(), ": ", MessageOf(status)));
  }
  return absl::OkStatus();
}

absl::Status Transfers::FetchFile(const Fetching& fetching, const v1::CheckpointFile& file,
                                  const std::string& target) {
  RETURN_IF_ERROR(CheckRelativePath(file.path()));
  if (!common::IsSha256Hex(file.sha256())) {
    return absl::InvalidArgumentError("its SHA-256 is not 64 hex digits");
  }
  RETURN_IF_ERROR(common::MakeDirectories(fs::path(target).parent_path().string()));
  if (fetching.cancelled) return absl::CancelledError("stopped");
  if (TakeLocal(fetching.key, file, target, fetching.account, fetching.launch)) {
    if (fetching.arriving == nullptr) return absl::OkStatus();
    const common::UniqueFd taken(open(target.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (fetching.arriving->Begin(file.sha256(), file.size(), taken.get()))
      fetching.arriving->Advance(file.sha256(), file.size());
    return absl::OkStatus();
  }
  common::UniqueFd fd(open(target.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return common::ErrnoStatus("cannot create it");
  RETURN_IF_ERROR(FetchInto(fetching, {file.sha256(), file.size()}, fd.get()));
  if (fsync(fd.get()) != 0) return common::ErrnoStatus("cannot fsync it");
  return common::SyncDirectory(fs::path(target).parent_path().string());
}

absl::Status Transfers::FetchInto(const Fetching& fetching, const Blob& blob, int fd) {
  ArrivingFiles* const arriving = fetching.arriving;
  const bool is_served = arriving != nullptr && arriving->Begin(blob.sha256, blob.size, fd);
  const auto progress = [&](uint64_t bytes) {
    if (arriving != nullptr) arriving->Step();
    if (is_served) arriving->Advance(blob.sha256, bytes);
  };
  if (fetching.peer.MayHave(blob)) {
    const absl::Status fetched = fetching.peer.Fetch(blob, fd, progress);
    if (fetched.ok() || fetching.cancelled || !fetching.peer.written().ok()) return fetched;
    if (is_served) arriving->Restart(blob.sha256);
    if (lseek(fd, 0, SEEK_SET) != 0) return common::ErrnoStatus("cannot begin it once more");
  }
  return fetch_client_.Download(
      blob, fetching.key, fd, [&] { return fetching.cancelled.load(); }, progress);
}

std::shared_ptr<PeerServer> Transfers::ServeOthers(const AttemptKey& key,
                                                   const v1::LaunchAttempt& launch,
                                                   const std::atomic<bool>& cancelled,
                                                   const std::shared_ptr<ArrivingFiles>& arriving) {
  if (!launch.gang_spans_nodes() || !launch.resume_files().empty()) return nullptr;
  StopServing(key);
  std::shared_ptr<PeerServer> server = PeerServer::Start(ports_, arriving);
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(serving_, [](const auto& each) { return each.second->IsOver(); });
  // A cancelled attempt may be deleted already.
  if (server == nullptr || stopping_ || cancelled) return nullptr;
  return serving_[key] = std::move(server);
}

void Transfers::StopServing(const AttemptKey& key) {
  std::shared_ptr<PeerServer> server;  // ends after the lock
  std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = serving_.find(key); found != serving_.end()) {
    found->second->Stop();
    server = std::move(found->second);
    serving_.erase(found);
  }
}

bool Transfers::TakeLocal(const AttemptKey& own, const v1::CheckpointFile& file,
                          const std::string& target, const RankAccount& account,
                          const v1::LaunchAttempt& launch) {
  const absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(paths_.Attempts());
  if (!names.ok()) return false;
  for (const std::string& name : *names) {
    const auto key = ParseKey(name);
    if (!key) continue;
    for (const std::string& directory : {paths_.CheckpointsDir(*key), paths_.ResumeDir(*key)}) {
      const std::string below = directory.substr(paths_.Attempts().size() + 1);
      const std::string path =
          common::StrCat(below, "/", StepName(launch.resume_step()), "/", file.path());
      const common::UniqueFd found = OpenBelow(paths_.Attempts(), path);
      struct stat info {};
      if (!found.valid() || fstat(found.get(), &info) != 0 ||
          static_cast<uint64_t>(info.st_size) != file.size()) {
        continue;
      }
      // A link to another account's file would still belong to that account.
      if (account.ids.is_other && info.st_uid != account.ids.uid) continue;
      const auto progress = [this] { return !stopping_; };
      // Nothing of this job's earlier attempts runs. Another job's ranks may still write after the
      // check, which would also change a hard link.
      if (key->job != own.job) {
        if (CopyChecked(found.get(), file, target, progress)) return true;
        continue;
      }
      const auto hash = HashFile(found.get(), path, file.size(), progress);
      const std::string same = common::StrCat("/proc/self/fd/", found.get());
      if (hash.ok() && *hash == file.sha256() &&
          linkat(AT_FDCWD, same.c_str(), AT_FDCWD, target.c_str(), AT_SYMLINK_FOLLOW) == 0) {
        return true;
      }
    }
  }
  return false;
}

FetchObject Transfers::ObjectFetcher() {
  return [this](const Blob& blob, const AttemptKey& key, int fd,
                const std::function<bool()>& cancelled,
                const std::function<void(uint64_t)>& progress) {
    return fetch_client_.Download(blob, key, fd, cancelled, progress);
  };
}

void Transfers::DeleteTree(const AttemptKey& key, const std::string& path, Work lane) {
  threads_->Post(key, lane, [this, key, path] {
    if (path == paths_.AttemptDir(key)) StopServing(key);
    if (absl::Status removed = common::RemoveTree(path); !removed.ok()) {
      common::LogWarning(common::StrCat("not removed reason=\"", MessageOf(removed), "\""));
    }
  });
}

}  // namespace muster::worker
