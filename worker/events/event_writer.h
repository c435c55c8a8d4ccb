// Which process writes an event file, as far as that can be determined: the file's name has a host
// and a pid, and a living process shows which files it has open and its mark. Reads /proc; never
// opens the file. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/events/event_search.h"

namespace muster::worker {

// From "events.out.tfevents.<time>.<host>.<pid>.<n>[.<suffix>]"; tensorboardX omits the last ones.
struct WriterName {
  std::string host;  // empty: not in the name
  int64_t pid = 0;   // 0: not in the name
};
WriterName WriterIn(const std::string& file_name);

// Whether its name says that it was written on this host. Without a pid, a suffix may follow the
// host.
bool IsOfHost(const WriterName& writer, const std::string& host);

// The mark (shim_protocol.h) of a living process, or of its nearest ancestor that has one: a
// program may start another with an empty environment. `lives`: whether the process is alive.
std::string MarkOf(int64_t pid, bool* lives);

// Which living process has each of these files open for writing, as far as this process may see it.
std::map<FileId, int64_t> FindHolders(const std::vector<EventFile>& files);

}  // namespace muster::worker
