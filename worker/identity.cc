// identity: a few `key=value` lines.
#include "worker/identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <string_view>

#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"

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

}  // namespace

std::string BootId() { return FirstLine("/proc/sys/kernel/random/boot_id"); }
std::string MachineId() { return FirstLine("/etc/machine-id"); }

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

absl::Status SaveIdentity(const Paths& paths, const Identity& identity) {
  return common::WriteFileDurably(
      paths.Identity(),
      common::StrCat("incarnation=", identity.incarnation, "\nepoch=", identity.highest_epoch,
                     "\nboot_id=", identity.boot_id, "\nmachine_id=", identity.machine_id, "\n"));
}

absl::StatusOr<LoadedIdentity> LoadIdentity(const Paths& paths, int64_t wall_us) {
  LoadedIdentity loaded;
  loaded.identity.boot_id = BootId();
  loaded.identity.machine_id = MachineId();
  Identity& identity = loaded.identity;
  std::map<std::string, std::string> pairs;
  if (common::Exists(paths.Identity())) {
    ASSIGN_OR_RETURN(const std::string text, common::ReadFile(paths.Identity(), 64 * 1024));
    pairs = ReadPairs(text);
  }
  identity.incarnation = Number(pairs["incarnation"]);
  identity.highest_epoch = Number(pairs["epoch"]);
  loaded.new_boot = pairs["boot_id"] != identity.boot_id;
  // A copied state directory (a cloned machine) must not speak with the first one's voice.
  const bool same_machine = pairs["machine_id"] == identity.machine_id;
  if (identity.incarnation == 0 || !same_machine) {
    identity.incarnation = static_cast<uint64_t>(wall_us);
    if (!same_machine) loaded.new_boot = true;
  }
  RETURN_IF_ERROR(SaveIdentity(paths, identity));
  return loaded;
}

void SaveContact(const Paths& paths, int64_t mono_ms) {
  // Not synced: after a power cut the boot id already says that every attempt is dead.
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
