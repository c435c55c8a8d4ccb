#include "worker/sampling/store_watch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/kernel/rendezvous_status.h"
#include "common/text/text.h"
#include "worker/confinement/secret_files.h"

namespace muster::worker {
namespace {

using common::RankAtStore;

// limit: samples: bytes of the last line of a rank that has not come to the store; it is cut
constexpr size_t kLastLineBytesMax = 200;
constexpr size_t kTailBytes = 2'048;

struct Tail {
  std::string line;
  int64_t written_s = 0;
};

Tail TailOf(const std::string& path) {
  const auto file = common::OpenRegular(path, O_RDONLY | O_NOFOLLOW);
  struct stat info {};
  if (!file.ok() || fstat(file->get(), &info) != 0 || info.st_size == 0) return {};
  const off_t size = std::min<off_t>(info.st_size, kTailBytes);
  std::string text(static_cast<size_t>(size), '\0');
  const ssize_t count = pread(file->get(), text.data(), text.size(), info.st_size - size);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  text.erase(0, text.find_last_of("\n\r") + 1);                       // npos + 1 is 0
  text.erase(0, std::min(text.find_last_of('\0') + 1, text.size()));  // a hole: dropped or trimmed
  return {std::move(text), info.st_mtim.tv_sec};
}

}  // namespace

StoreWatch::StoreWatch(Paths paths, AttemptKey key, const v1::NodePart& part)
    : paths_(std::move(paths)),
      key_(key),
      first_rank_(part.first_rank()),
      ranks_(part.local_world_size()) {}

std::string StoreWatch::LastLine(uint32_t rank) const {
  Tail out = TailOf(paths_.Spool(key_, rank, "stdout"));
  Tail err = TailOf(paths_.Spool(key_, rank, "stderr"));
  std::string line =
      std::move((err.written_s >= out.written_s && !err.line.empty() ? err : out).line);
  line = HideValues(std::move(line), SecretValues(paths_, key_));
  return common::PrintableStart(line, kLastLineBytesMax);
}

void StoreWatch::Look(v1::RankSample* sample) {
  const uint32_t index = sample->rank() - first_rank_;
  if (index >= ranks_) return;
  if (!status_.valid()) {
    auto file = common::OpenRegular(paths_.AttemptDir(key_) + "/" + common::kRendezvousStatusName,
                                    O_RDONLY | O_NOFOLLOW);
    if (!file.ok()) return;
    status_ = *std::move(file);
  }
  RankAtStore status;
  if (pread(status_.get(), &status, sizeof status, static_cast<off_t>(index * sizeof status)) !=
      static_cast<ssize_t>(sizeof status)) {
    return;
  }
  v1::RankAtStore& store = *sample->mutable_store();
  store.set_joined((status.flags & RankAtStore::kHasJoined) != 0);
  store.set_ended((status.flags & RankAtStore::kEnded) != 0);
  if (!store.joined()) store.set_last_line(LastLine(sample->rank()));
  if ((status.flags & RankAtStore::kWaits) == 0) return;
  const std::string_view key(status.key, strnlen(status.key, sizeof status.key));
  store.set_waits_for(common::PrintableStart(key, sizeof status.key));
  store.set_keys(status.keys);
  store.set_waits_ms(status.waits_ms);
  store.set_at_barrier((status.flags & RankAtStore::kAtBarrier) != 0);
}

}  // namespace muster::worker
