// identity: a few `key=value` lines, the last one a checksum of the others.
#include "worker/membership/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/crc32c.h"
#include "common/kernel/process.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

std::string FirstLine(const std::string& path) {
  absl::StatusOr<std::string> text = common::ReadFile(path, 4096);
  if (!text.ok()) return "";
  return text->substr(0, text->find('\n'));
}

std::map<std::string, std::string> ReadPairs(const std::string& text) {
  std::map<std::string, std::string> pairs;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    const size_t equals = text.find('=', at);
    if (equals < end)
      pairs[text.substr(at, equals - at)] = text.substr(equals + 1, end - equals - 1);
    at = end + 1;
  }
  return pairs;
}

uint64_t Number(const std::string& text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

constexpr std::string_view kSumKey = "sum=";

std::string SumLine(std::string_view lines) {
  return absl::StrFormat("%s%08x\n", kSumKey, common::Crc32c(lines));
}

// Empty if the file is intact.
std::string FindDamage(const std::string& text, std::map<std::string, std::string>& pairs) {
  const size_t sum = text.rfind(common::StrCat("\n", kSumKey));
  if (sum != std::string::npos) {
    const std::string_view lines = std::string_view(text).substr(0, sum + 1);
    return text.substr(sum + 1) == SumLine(lines) ? "" : "its checksum is wrong";
  }
  // From an older version, unless it has fields that only newer ones write.
  const bool older = text.starts_with("incarnation=") && text.back() == '\n';
  for (const char* key : {"incarnation", "epoch", "machine_id"}) {
    if (!older || !pairs.contains(key)) return "it is truncated";
  }
  return "";
}

// Why the stored identity is not this worker's, or empty. A file from an older version has fewer
// fields.
std::string FindStranger(const std::map<std::string, std::string>& kept, const Identity& here) {
  const auto differs = [&kept](const std::string& key, const std::string& value) {
    const auto found = kept.find(key);
    return found != kept.end() && found->second != value;
  };
  if (differs("machine_id", here.machine_id)) return "it belongs to another machine";
  if (differs("node", here.node)) return common::StrCat("it belongs to node ", kept.at("node"));
  // Device numbers may change when a machine reboots or a container restarts.
  const bool same_boot = !differs("boot_id", here.boot_id) && !differs("container", here.container);
  if (differs("state_dir", here.state_dir) || differs("inode", common::StrCat(here.inode)) ||
      (same_boot && differs("device", common::StrCat(here.device)))) {
    return common::StrCat("the state directory is a copy of ",
                          kept.contains("state_dir") ? kept.at("state_dir") : "another one");
  }
  return "";
}

// Where the state is stored, as this process sees it.
absl::Status FillPlace(const Paths& paths, Identity* identity) {
  struct stat info {};
  if (stat(paths.StateDir().c_str(), &info) != 0) return common::ErrnoStatus(paths.StateDir());
  identity->device = info.st_dev;
  identity->inode = info.st_ino;
  std::error_code error;
  identity->state_dir = std::filesystem::canonical(paths.StateDir(), error).string();
  if (error) identity->state_dir = paths.StateDir();
  std::replace(identity->state_dir.begin(), identity->state_dir.end(), '\n', '?');
  return absl::OkStatus();
}

}  // namespace

std::string BootId() { return FirstLine("/proc/sys/kernel/random/boot_id"); }
std::string ContainerId() {
  struct stat space {};
  common::ProcessStat first;
  if (stat("/proc/self/ns/pid", &space) != 0 || !common::ReadProcessStat(1, &first)) return "";
  return common::StrCat(space.st_ino, "-", first.start_time);
}

std::string MachineId() { return FirstLine("/etc/machine-id"); }

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

absl::Status SaveIdentity(const Paths& paths, const Identity& identity) {
  // Fields that older versions do not write come first, so that a truncated file is not mistaken
  // for theirs.
  const std::string lines = common::StrCat(
      "state_dir=", identity.state_dir, "\nnode=", identity.node, "\ndevice=", identity.device,
      "\ninode=", identity.inode, "\nincarnation=", identity.incarnation,
      "\nepoch=", identity.highest_epoch, "\nboot_id=", identity.boot_id,
      "\ncontainer=", identity.container, "\nmachine_id=", identity.machine_id, "\n");
  return common::WriteFileDurably(paths.Identity(), lines + SumLine(lines));
}

absl::StatusOr<LoadedIdentity> LoadIdentity(const Paths& paths, const std::string& node,
                                            int64_t wall_us) {
  LoadedIdentity loaded;
  Identity& identity = loaded.identity;
  identity.boot_id = BootId();
  identity.container = ContainerId();
  identity.machine_id = MachineId();
  identity.node = node;
  RETURN_IF_ERROR(FillPlace(paths, &identity));
  std::map<std::string, std::string> pairs;
  if (common::Exists(paths.Identity())) {
    ASSIGN_OR_RETURN(const std::string text, common::ReadFile(paths.Identity(), 64 * 1024));
    pairs = ReadPairs(text);
    loaded.why_new = FindDamage(text, pairs);
    if (loaded.why_new.empty()) loaded.why_new = FindStranger(pairs, identity);
  } else {
    loaded.why_new = "there was none";
  }
  loaded.kept = loaded.why_new.empty() && Number(pairs["incarnation"]) != 0;
  if (loaded.kept) {
    identity.incarnation = Number(pairs["incarnation"]);
    identity.highest_epoch = Number(pairs["epoch"]);
    const auto is_another = [&pairs](const char* key, const std::string& now) {
      return !pairs[key].empty() && !now.empty() && pairs[key] != now;
    };
    loaded.new_boot = is_another("boot_id", identity.boot_id);
    loaded.new_container = is_another("container", identity.container);
  } else {
    identity.incarnation = static_cast<uint64_t>(wall_us);
  }
  RETURN_IF_ERROR(SaveIdentity(paths, identity));
  return loaded;
}

void SaveContact(const Paths& paths, int64_t mono_ms) {
  // Not synced: after a power failure the boot id already shows that every attempt is dead.
  const auto file = common::OpenRegular(paths.Contact(), O_WRONLY | O_CREAT | O_NOFOLLOW);
  if (!file.ok()) return;
  char text[24] = {};
  std::to_chars(text, text + sizeof text - 1, mono_ms);
  [[maybe_unused]] const ssize_t written = pwrite(file->get(), text, sizeof text, 0);
}

int64_t LoadContact(const Paths& paths) {
  absl::StatusOr<std::string> text = common::ReadFile(paths.Contact(), 64);
  return text.ok() ? static_cast<int64_t>(Number(*text)) : 0;
}

}  // namespace muster::worker
