// Who writes an event file, as far as it can be known: its name holds a host and a process, and a
// process that lives shows which files it has open and whose it is. Reads /proc; never opens the
// file. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/event_search.h"

namespace muster::worker {

// Of "events.out.tfevents.<time>.<host>.<pid>.<n>[.<suffix>]"; tensorboardX leaves out the last
// ones.
struct WriterName {
  std::string host;  // empty: it does not say
  int64_t pid = 0;   // 0: it does not say
};
WriterName WriterIn(const std::string& file_name);

// Was it written on this host, by what its name says? Without a pid a suffix may follow the host.
bool IsOfHost(const WriterName& writer, const std::string& host);

// The mark (shim_protocol.h) of a living process, or of the next of its ancestors that has one: a
// program may start another with an empty environment. `lives` says whether the process does.
std::string MarkOf(int64_t pid, bool* lives);

// Which living process has each of these files open for writing, as far as this one may see that.
std::map<FileId, int64_t> FindHolders(const std::vector<EventFile>& files);

}  // namespace muster::worker
