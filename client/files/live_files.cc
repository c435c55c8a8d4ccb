#include "client/files/live_files.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/outputs.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kSentBytes = 32 * 1024;  // of one message
constexpr size_t kSaidBytesMax = 4'096;   // of standard error
constexpr size_t kListBytesMax = 16 << 20;
constexpr int kNothingThere = 3;  // exit codes of the scripts
constexpr int kChanged = 4;
constexpr int kIsDirectory = 5;

// Uses only POSIX shell, and options that coreutils and busybox have in common.
constexpr std::string_view kKindScript =
    R"(if [ -d "$1" ]; then echo d; elif [ -e "$1" ]; then echo f; fi)";
constexpr std::string_view kListScript =
    R"([ -e "$1" ] || exit 3
exec find -H "$1" -type f -exec sh -c '
for file; do
  size=$(stat -c %s -- "$file") && hash=$(head -c "$size" -- "$file" | sha256sum) || exit
  printf "%s %s %s\n" "$size" "${hash%% *}" "$file"
done' sh {} +)";
constexpr std::string_view kReadScript =
    R"([ -f "$1" ] || exit 3
tail -c "+$2" -- "$1" | head -c "$3")";
constexpr std::string_view kStoreScript =
    R"([ ! -d "$1" ] || exit 5
mkdir -p -- "${1%/*}" || exit
part=$(mktemp -- "${1%/*}/.muster-cp.XXXXXXXX") || exit
trap 'rm -f -- "$part"' EXIT
cat >"$part" || exit
hash=$(sha256sum <"$part") && [ "${hash%% *}" = "$2" ] || exit 4
chmod "$3" -- "$part" && mv -f -- "$part" "$1")";

// The path as an argument that cannot be taken for an option.
std::string Word(const std::string& path) { return path.empty() ? "." : StrCat("./", path); }

std::string LastLine(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return common::Printable(text.substr(text.rfind('\n') + 1));
}

// "12 HASH ./out/model.pt"
std::optional<v1::CheckpointFile> ParseEntry(std::string_view line) {
  v1::CheckpointFile file;
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size);
  if (error != std::errc() || !line.substr(end - line.data()).starts_with(' ')) return std::nullopt;
  line.remove_prefix(end - line.data() + 1);
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string hash(line.substr(0, space));
  line.remove_prefix(space + 1);
  if (!common::IsSha256Hex(hash) || !line.starts_with("./")) return std::nullopt;
  const auto path = common::CleanOutput(line.substr(2));
  if (!path || path->empty() || *path != line.substr(2)) return std::nullopt;
  file.set_size(size);
  file.set_sha256(hash);
  file.set_path(*path);
  return file;
}

// False: the call is over.
bool SendFile(ExecCall& call, int fd) {
  std::string bytes(kSentBytes, '\0');
  v1::ExecInput message;
  for (ssize_t count; (count = read(fd, bytes.data(), bytes.size())) > 0;) {
    message.set_stdin(bytes.data(), static_cast<size_t>(count));
    if (!call.Write(message)) return false;
  }
  message.set_stdin_end(true);
  return call.Write(message);
}

}  // namespace

LiveFiles::LiveFiles(Open open, std::string job, uint32_t rank)
    : open_(std::move(open)), job_(std::move(job)), rank_(rank) {}

absl::Status LiveFiles::Failed(const std::string& what, const std::string& why) const {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1723",
       .what = StrCat("rank ", rank_, " of ", common::Printable(job_), ": ", what),
       .why = why,
       .fix = StrCat("try by hand: jobctl exec ", common::Printable(job_), " --rank ", rank_,
                     " -- ls -l")});
}

absl::Status LiveFiles::Run(const std::string& what, std::string_view script,
                            const std::vector<std::string>& words, int input,
                            const TakeBytes& output, int* exit_code) {
  v1::ExecStart start;
  start.set_job(job_);
  start.set_rank(rank_);
  start.set_stdin(input >= 0);
  for (const char* word : {"sh", "-c"}) start.add_command(word);
  start.add_command(std::string(script));
  start.add_command("sh");
  for (const std::string& word : words) start.add_command(word);
  const std::unique_ptr<ExecCall> call = open_(start);
  if (input >= 0) SendFile(*call, input);
  std::string said;
  std::optional<v1::ExecEnded> ended;
  v1::ExecOutput message;
  bool wanted = true;
  while (wanted && call->Read(&message)) {
    if (message.has_started()) node_ = common::Printable(message.started().node());
    if (message.has_ended()) ended = message.ended();
    said.append(message.stderr(), 0, kSaidBytesMax - std::min(said.size(), kSaidBytesMax));
    wanted = message.stdout().empty() || output(message.stdout());
  }
  if (!wanted) {
    call->Cancel();
    call->Finish().IgnoreError();
    return absl::OkStatus();
  }
  const absl::Status status = call->Finish();
  if (!ended) return status.ok() ? Failed(what, "the stream ended before the command") : status;
  *exit_code = ended->exit_code();
  if (!ended->problem().empty()) return Failed(what, common::Printable(ended->problem()));
  if (ended->signal() != 0) return Failed(what, StrCat("killed by signal ", ended->signal()));
  const bool is_known = *exit_code >= kNothingThere && *exit_code <= kIsDirectory;
  if (*exit_code == 0 || (is_known && said.empty())) return absl::OkStatus();
  return Failed(what, said.empty() ? StrCat("exit code ", *exit_code) : LastLine(said));
}

absl::StatusOr<LiveFiles::Kind> LiveFiles::KindOf(const std::string& path) {
  std::string answer;
  int exit_code = 0;
  RETURN_IF_ERROR(Run(
      StrCat("cannot look at \"", common::Printable(path), "\""), kKindScript, {Word(path)}, -1,
      [&](std::string_view bytes) {
        answer.append(bytes.substr(0, 2));
        return true;
      },
      &exit_code));
  return answer.starts_with('d') ? Kind::kDirectory : answer.empty() ? Kind::kNone : Kind::kFile;
}

absl::StatusOr<std::vector<v1::CheckpointFile>> LiveFiles::List(const std::string& path) {
  const std::string what = StrCat("cannot list \"", common::Printable(path), "\"");
  std::string text;
  int exit_code = 0;
  RETURN_IF_ERROR(Run(
      what, kListScript, {Word(path)}, -1,
      [&](std::string_view bytes) {
        text.append(bytes);
        return text.size() <= kListBytesMax;
      },
      &exit_code));
  if (text.size() > kListBytesMax)
    return Failed(what, "it holds too many files; copy its parts one by one");
  std::vector<v1::CheckpointFile> files;
  if (exit_code == kNothingThere) return files;
  for (std::string_view left = text; !left.empty();) {
    const size_t end = std::min(left.find('\n'), left.size());
    std::optional<v1::CheckpointFile> file = ParseEntry(left.substr(0, end));
    if (!file || !common::LiesIn(file->path(), path)) {
      return Failed(what, StrCat("a name that cannot be copied: ",
                                 common::Printable(left.substr(0, std::min<size_t>(end, 200)))));
    }
    files.push_back(*std::move(file));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path() < b.path(); });
  return files;
}

ReadFrom LiveFiles::Read(const std::string& path, uint64_t size) {
  return [this, path, size](uint64_t offset, const TakeBytes& take) -> absl::Status {
    if (offset >= size) return absl::OkStatus();
    const std::string what = StrCat("cannot read \"", common::Printable(path), "\"");
    int exit_code = 0;
    RETURN_IF_ERROR(Run(what, kReadScript, {Word(path), StrCat(offset + 1), StrCat(size - offset)},
                        -1, take, &exit_code));
    return exit_code == kNothingThere ? Failed(what, "it is gone") : absl::OkStatus();
  };
}

absl::Status LiveFiles::Store(int fd, const std::string& path, const std::string& sha256,
                              bool is_executable) {
  const std::string what = StrCat("cannot write \"", common::Printable(path), "\"");
  int exit_code = 0;
  RETURN_IF_ERROR(Run(
      what, kStoreScript, {Word(path), sha256, is_executable ? "755" : "644"}, fd,
      [](std::string_view) { return true; }, &exit_code));
  if (exit_code == kIsDirectory) return Failed(what, "it is a directory there");
  if (exit_code == kChanged) return Failed(what, "the file changed while it was sent");
  return exit_code == 0 ? absl::OkStatus() : Failed(what, StrCat("exit code ", exit_code));
}

}  // namespace muster::client
