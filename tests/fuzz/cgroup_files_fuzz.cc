// What the kernel tells of cgroups, and what a container may have put in its place. Input: a piece
// that is /proc/PID/cgroup; a piece that is a cgroup's file of memory events; the rest is
// /proc/PID/mountinfo.
#include "common/files/cgroup_files.h"
#include "fuzz/harness.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  static const testing::Directory directory;
  testing::Pieces input(testing::Text(data, size));
  std::string_view cgroups, events;
  if (!input.Next(&cgroups) || !input.Next(&events)) return 0;
  for (const char* controller : {"", "memory", "cpu", "name=systemd"}) {
    const std::string found =
        common::CgroupDirectory(std::string(cgroups), std::string(input.Rest()), controller);
    FUZZ_EXPECT(found.find('\n') == std::string::npos);
    FUZZ_EXPECT(found.size() <= size);
  }
  for (const char* name : {"memory.events", "memory.oom_control", "memory.failcnt"}) {
    directory.Write(name, events);
  }
  FUZZ_EXPECT(common::ReadMemoryEvents(directory.Path(".")).kills >= -1);
  return 0;
}
