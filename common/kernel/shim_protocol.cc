#include "common/kernel/shim_protocol.h"

#include "common/hash/crc32c.h"

#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

namespace muster::common {
namespace {

constexpr char kLaunchMagic[] = "muster-launch";
constexpr char kExitMagic[] = "muster-exit";
constexpr int kOomAtLimit = 2;  // older readers see: out of memory

// Launch file: fields in a fixed order, numbers as 8 bytes, texts as length and bytes.
class Writer {
 public:
  void Number(uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_.append(text);
  }
  void Texts(const std::vector<std::string>& texts) {
    Number(texts.size());
    for (const std::string& text : texts) Text(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  uint64_t Number() {
    uint64_t value = 0;
    if (rest_.size() < sizeof value) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string Text() {
    const uint64_t size = Number();
    if (size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    const uint64_t count = Number();
    for (uint64_t i = 0; ok_ && i < count; ++i) texts.push_back(Text());
    return texts;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void WriteAccount(const LaunchAccount& account, Writer* out) {
  for (const uint64_t number : {uint64_t{account.is_other}, uint64_t{account.uid},
                                uint64_t{account.gid}, uint64_t{account.groups.size()}}) {
    out->Number(number);
  }
  for (const uint32_t group : account.groups) out->Number(group);
}

void ReadAccount(Reader* in, LaunchAccount* account) {
  account->is_other = in->Number() != 0;
  account->uid = static_cast<uint32_t>(in->Number());
  account->gid = static_cast<uint32_t>(in->Number());
  const uint64_t groups = in->Number();
  account->groups.clear();
  for (uint64_t i = 0; in->ok() && i < groups; ++i) {
    account->groups.push_back(static_cast<uint32_t>(in->Number()));
  }
}

void WriteSandbox(const LaunchSandbox& sandbox, Writer* out) {
  for (const bool flag : {sandbox.drops_capabilities, sandbox.filters_calls, sandbox.has_own_domain,
                          sandbox.has_own_mounts}) {
    out->Number(flag ? 1 : 0);
  }
  out->Text(sandbox.temporary_dir);
  for (const auto* dirs : {&sandbox.kept_dirs, &sandbox.hidden_dirs, &sandbox.shown_dirs}) {
    out->Texts(*dirs);
  }
}

void ReadSandbox(Reader* in, LaunchSandbox* sandbox) {
  for (bool* flag : {&sandbox->drops_capabilities, &sandbox->filters_calls,
                     &sandbox->has_own_domain, &sandbox->has_own_mounts}) {
    *flag = in->Number() != 0;
  }
  sandbox->temporary_dir = in->Text();
  for (auto* dirs : {&sandbox->kept_dirs, &sandbox->hidden_dirs, &sandbox->shown_dirs}) {
    *dirs = in->Texts();
  }
}

void WriteContainer(const LaunchContainer& container, Writer* out) {
  for (const std::string* text :
       {&container.runtime, &container.image_root, &container.directory}) {
    out->Text(*text);
  }
  out->Number(container.shm_bytes);
  out->Texts(container.sources);
}

void ReadContainer(Reader* in, LaunchContainer* container) {
  for (std::string* text : {&container->runtime, &container->image_root, &container->directory}) {
    *text = in->Text();
  }
  container->shm_bytes = in->Number();
  container->sources = in->Texts();
}

void Append(std::string* text, const char* format, auto... values) {
  char line[256];
  const int length = std::snprintf(line, sizeof line, format, values...);
  text->append(line, std::min<size_t>(length, sizeof line - 1));
}

// "name rest of the line" → rest, when the line starts with `name`.
bool Rest(std::string_view line, std::string_view name, std::string* rest) {
  if (line.substr(0, name.size()) != name || line.size() < name.size() + 1) return false;
  *rest = line.substr(name.size() + 1);
  return true;
}

bool DecodeExitLine(const std::string& line, ExitRecord* record) {
  RankExitRecord exit;
  int oom = 0, stopped = 0, stage = 0;
  if (std::sscanf(line.c_str(),
                  "rank %" SCNu32 " pid %d code %d signal %d oom %d stopped %d errno %d stage %d"
                  " since_start_us %" SCNd64 " wall_ms %" SCNd64,
                  &exit.rank, &exit.pid, &exit.exit_code, &exit.signal, &oom, &stopped,
                  &exit.exec_errno, &stage, &exit.since_start_us, &exit.wall_ms) == 10) {
    exit.out_of_memory = oom != 0;
    exit.memory_limit = oom == kOomAtLimit;
    exit.stopped = stopped != 0;
    exit.exec_stage = static_cast<ExecStage>(stage);
    record->exits.push_back(exit);
    return true;
  }
  StreamEndRecord stream;
  char name[8] = {};
  if (std::sscanf(line.c_str(), "stream %" SCNu32 " %7s end %" SCNu64 " dropped %" SCNu64,
                  &stream.rank, name, &stream.end, &stream.dropped) == 4) {
    stream.stream = std::strcmp(name, "stderr") == 0 ? Stream::kStderr : Stream::kStdout;
    record->streams.push_back(stream);
    return true;
  }
  return std::sscanf(line.c_str(), "job %" SCNu64, &record->job) == 1 ||
         std::sscanf(line.c_str(), "attempt %" SCNu32, &record->attempt) == 1 ||
         Rest(line, "mark", &record->mark) || Rest(line, "how", &record->how) ||
         Rest(line, "failure", &record->failure);
}

const char* StreamName(Stream stream) { return stream == Stream::kStdout ? "stdout" : "stderr"; }

// Version 2 had no checksum.
bool CheckSum(std::string_view* bytes) {
  Reader in(*bytes);
  if (in.Text() != kLaunchMagic) return false;
  const uint64_t version = in.Number();
  if (!in.ok() || version < kShimVersionMin || version > kShimVersion) return false;
  if (version == 2) return true;
  if (bytes->size() < sizeof(uint64_t)) return false;
  const size_t size = bytes->size() - sizeof(uint64_t);
  if (Reader(bytes->substr(size)).Number() != Crc32c(bytes->substr(0, size))) return false;
  *bytes = bytes->substr(0, size);
  return true;
}

}  // namespace

std::string EncodeShimLaunch(const ShimLaunch& launch) {
  Writer out;
  out.Text(kLaunchMagic);
  out.Number(kShimVersion);
  out.Number(launch.job);
  out.Number(launch.attempt);
  for (const std::string* text : {&launch.mark, &launch.attempt_dir, &launch.spool_dir,
                                  &launch.socket_path, &launch.cgroup_dir, &launch.freezer_dir}) {
    out.Text(*text);
  }
  for (const uint64_t number :
       {uint64_t{launch.held_ports}, launch.spool_quota_bytes, uint64_t{launch.block_when_full},
        uint64_t{launch.no_new_privs}, uint64_t{launch.term_grace_ms},
        static_cast<uint64_t>(launch.fence_mono_ms), uint64_t{launch.spool_patience_ms}}) {
    out.Number(number);
  }
  out.Number(launch.ranks.size());
  for (const RankLaunch& rank : launch.ranks) {
    out.Number(rank.rank);
    out.Number(rank.local_rank);
    out.Text(rank.program);
    out.Text(rank.workdir);
    out.Texts(rank.argv);
    out.Texts(rank.env);
    out.Texts(rank.limit_dirs);
    out.Number(rank.limits_memory ? 1 : 0);
  }
  out.Texts(launch.limit_dirs);
  WriteAccount(launch.account, &out);
  WriteSandbox(launch.sandbox, &out);
  WriteContainer(launch.container, &out);
  out.Number(launch.sandbox.has_own_ipc ? 1 : 0);
  out.Number(launch.sandbox.has_own_processes ? 1 : 0);
  out.Text(launch.secrets_dir);
  out.Texts(launch.container.places);
  out.Text(launch.rendezvous_program);
  out.Text(launch.rendezvous_settings);
  std::string bytes = out.Take();
  Writer sum;
  sum.Number(Crc32c(bytes));
  return bytes + sum.Take();
}

bool DecodeShimLaunch(std::string_view bytes, ShimLaunch* launch) {
  if (!CheckSum(&bytes)) return false;
  Reader in(bytes);
  in.Text();  // the magic
  const uint64_t version = in.Number();
  launch->job = in.Number();
  launch->attempt = static_cast<uint32_t>(in.Number());
  for (std::string* text : {&launch->mark, &launch->attempt_dir, &launch->spool_dir,
                            &launch->socket_path, &launch->cgroup_dir, &launch->freezer_dir}) {
    *text = in.Text();
  }
  launch->held_ports = static_cast<uint32_t>(in.Number());
  launch->spool_quota_bytes = in.Number();
  launch->block_when_full = in.Number() != 0;
  launch->no_new_privs = in.Number() != 0;
  launch->term_grace_ms = static_cast<uint32_t>(in.Number());
  launch->fence_mono_ms = static_cast<int64_t>(in.Number());
  if (version >= 4) launch->spool_patience_ms = static_cast<uint32_t>(in.Number());
  const uint64_t ranks = in.Number();
  if (!in.ok() || ranks > kRanksPerShimMax) return false;
  launch->ranks.clear();
  for (uint64_t i = 0; in.ok() && i < ranks; ++i) {
    RankLaunch& rank = launch->ranks.emplace_back();
    rank.rank = static_cast<uint32_t>(in.Number());
    rank.local_rank = static_cast<uint32_t>(in.Number());
    rank.program = in.Text();
    rank.workdir = in.Text();
    rank.argv = in.Texts();
    rank.env = in.Texts();
    if (version < 5) continue;
    rank.limit_dirs = in.Texts();
    rank.limits_memory = in.Number() != 0;
  }
  if (version >= 5) launch->limit_dirs = in.Texts();
  if (version >= 6) {
    ReadAccount(&in, &launch->account);
    ReadSandbox(&in, &launch->sandbox);
  }
  if (version >= 7) ReadContainer(&in, &launch->container);
  if (version >= 8) {
    launch->sandbox.has_own_ipc = in.Number() != 0;
    launch->sandbox.has_own_processes = in.Number() != 0;
    launch->secrets_dir = in.Text();
    launch->container.places = in.Texts();
  }
  if (version >= 9) {
    launch->rendezvous_program = in.Text();
    launch->rendezvous_settings = in.Text();
  }
  return in.ok() && in.at_end();
}

std::string BundlePath(const LaunchContainer& container, uint32_t rank) {
  return container.directory + "/" + std::to_string(rank);
}

std::vector<std::string> RuntimeWords(const LaunchContainer& container, uint32_t rank,
                                      std::string_view mark) {
  const std::string bundle = BundlePath(container, rank);
  // "rootless": where the runtime may not create cgroups, it leaves the rank in its current ones. Its warnings
  // go to the log, the reason of a failure also to stderr.
  return {container.runtime,
          "--root",
          container.directory + "/run",
          "--log",
          bundle + "/log",
          "--rootless=true",
          "run",
          "--detach",
          "--pid-file",
          bundle + "/pid",
          "--bundle",
          bundle,
          "muster-" + std::string(mark) + "-" + std::to_string(rank)};
}

std::string SpoolPath(const std::string& spool_dir, uint32_t rank, Stream stream) {
  return spool_dir + "/rank-" + std::to_string(rank) + "." + StreamName(stream);
}

bool SignalReachesGroup(int signal) {
  switch (signal) {
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
    case SIGKILL:
    case SIGSTOP:
    case SIGTSTP:
    case SIGCONT:
      return true;
    default:
      return false;
  }
}

std::string EncodeExitRecord(const ExitRecord& record) {
  std::string text;
  Append(&text, "%s %" PRIu32 "\njob %" PRIu64 "\nattempt %" PRIu32 "\n", kExitMagic, kShimVersion,
         record.job, record.attempt);
  text += "mark " + record.mark + "\n";
  for (const RankExitRecord& exit : record.exits) {
    Append(&text,
           "rank %" PRIu32
           " pid %d code %d signal %d oom %d stopped %d errno %d stage %d"
           " since_start_us %" PRId64 " wall_ms %" PRId64 "\n",
           exit.rank, exit.pid, exit.exit_code, exit.signal,
           exit.memory_limit ? kOomAtLimit : int{exit.out_of_memory}, int{exit.stopped},
           exit.exec_errno, static_cast<int>(exit.exec_stage), exit.since_start_us, exit.wall_ms);
  }
  for (const StreamEndRecord& stream : record.streams) {
    Append(&text, "stream %" PRIu32 " %s end %" PRIu64 " dropped %" PRIu64 "\n", stream.rank,
           StreamName(stream.stream), stream.end, stream.dropped);
  }
  if (!record.failure.empty()) text += "failure " + record.failure + "\n";
  text += "how " + record.how + "\nend\n";
  return text;
}

bool DecodeExitRecord(std::string_view text, ExitRecord* record) {
  *record = ExitRecord{};
  bool first = true;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    if (newline == std::string_view::npos) return false;
    const std::string line(text.substr(0, newline));
    text.remove_prefix(newline + 1);
    if (first) {
      uint32_t version = 0;
      const std::string format = std::string(kExitMagic) + " %" SCNu32;
      if (std::sscanf(line.c_str(), format.c_str(), &version) != 1) return false;
      first = false;
    } else if (line == "end") {
      return text.empty();
    } else {
      // An unknown line comes from a newer shim; the known facts still hold.
      DecodeExitLine(line, record);
    }
  }
  return false;
}

}  // namespace muster::common
