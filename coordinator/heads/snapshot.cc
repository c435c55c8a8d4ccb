#include "coordinator/heads/snapshot.h"

#include <fcntl.h>
#include <zlib.h>

#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/election/election.h"
#include "coordinator/etcd/requests.h"
#include "coordinator/heads/log.h"

namespace muster::coordinator::heads {
namespace {

using common::StrCat;

// Of the file, before they are compressed.
constexpr size_t kChunkBytes = 1 << 20;
constexpr int64_t kChunkWithinMs = 10'000;

std::string MarkKey(const etcd::Client& client) { return client.Key("snapshot/at"); }

// "snapshot/at" sorts behind all of these.
std::string ChunksOf(const etcd::Client& client, uint64_t position) {
  return client.Key(absl::StrFormat("snapshot/%016x/", position));
}

std::string ChunkKey(const etcd::Client& client, uint64_t position, uint32_t chunk) {
  return StrCat(ChunksOf(client, position), absl::StrFormat("%08x", chunk));
}

std::string Compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &size,
            reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_SPEED);
  out.resize(size);
  return out;
}

absl::StatusOr<std::string> Uncompressed(const std::string& bytes) {
  uLongf size = kChunkBytes;
  std::string out(size, '\0');
  if (uncompress(reinterpret_cast<Bytef*>(out.data()), &size,
                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != Z_OK) {
    return absl::DataLossError("a chunk of the snapshot in etcd cannot be read");
  }
  out.resize(size);
  return out;
}

absl::StatusOr<int64_t> DoAsLeader(etcd::Client& client, int64_t term_revision,
                                   etcdserverpb::TxnRequest request) {
  *request.add_compare() = election::IsStillLeader(client.Key("leader"), term_revision);
  ASSIGN_OR_RETURN(const etcdserverpb::TxnResponse done, client.Txn(request, kChunkWithinMs));
  if (!done.succeeded()) return absl::AbortedError("another coordinator leads the cluster now");
  return done.header().revision();
}

absl::Status PutAsLeader(etcd::Client& client, int64_t term_revision, const std::string& key,
                         const std::string& value) {
  etcdserverpb::TxnRequest request;
  etcd::AddPut(request, key, value);
  return DoAsLeader(client, term_revision, std::move(request)).status();
}

}  // namespace

absl::StatusOr<std::optional<v1::SnapshotMark>> ReadSnapshotMark(etcd::Client& client) {
  etcdserverpb::RangeRequest request;
  request.set_key(MarkKey(client));
  ASSIGN_OR_RETURN(const etcdserverpb::RangeResponse found, client.Range(request, kChunkWithinMs));
  if (found.kvs_size() == 0) return std::nullopt;
  v1::SnapshotMark mark;
  if (!mark.ParseFromString(found.kvs(0).value()))
    return absl::DataLossError(StrCat("the key ", MarkKey(client), " in etcd cannot be read"));
  return mark;
}

absl::StatusOr<v1::SnapshotMark> WriteSnapshot(etcd::Client& client, int64_t term_revision,
                                               const std::string& file, uint64_t position) {
  ASSIGN_OR_RETURN(const common::UniqueFd source, common::OpenRegular(file, O_RDONLY));
  v1::SnapshotMark mark;
  mark.set_position(position);
  common::Sha256 hash;
  while (true) {
    ASSIGN_OR_RETURN(const std::string bytes,
                     common::ReadAt(source.get(), mark.bytes(), kChunkBytes, file));
    if (bytes.empty()) break;
    hash.Update(bytes);
    RETURN_IF_ERROR(PutAsLeader(client, term_revision, ChunkKey(client, position, mark.chunks()),
                                Compressed(bytes)));
    mark.set_chunks(mark.chunks() + 1);
    mark.set_bytes(mark.bytes() + bytes.size());
  }
  mark.set_sha256(hash.FinishHex());
  RETURN_IF_ERROR(PutAsLeader(client, term_revision, MarkKey(client), mark.SerializeAsString()));
  return mark;
}

absl::Status Trim(etcd::Client& client, int64_t term_revision, const v1::SnapshotMark& newest,
                  uint64_t number) {
  etcdserverpb::TxnRequest request;
  etcd::AddRemoval(request, LogKey(client, 0), LogKey(client, number + 1));
  etcd::AddRemoval(request, ChunksOf(client, 0), ChunksOf(client, newest.position()));
  ASSIGN_OR_RETURN(const int64_t revision, DoAsLeader(client, term_revision, std::move(request)));
  const absl::Status compacted = client.Compact(revision, kChunkWithinMs);
  // Not every user of etcd may; then its own --auto-compaction frees the space. OUT_OF_RANGE: it has already.
  if (!compacted.ok() && !absl::IsOutOfRange(compacted))
    common::LogWarning(StrCat("etcd keeps what the log no longer has: ", compacted.message()));
  return absl::OkStatus();
}

absl::Status ReadSnapshot(etcd::Client& client, const v1::SnapshotMark& mark,
                          const std::string& file) {
  ASSIGN_OR_RETURN(const common::UniqueFd target,
                   common::OpenRegular(file, O_WRONLY | O_CREAT | O_TRUNC));
  common::Sha256 hash;
  uint64_t bytes = 0;
  for (uint32_t chunk = 0; chunk < mark.chunks(); ++chunk) {
    etcdserverpb::RangeRequest request;
    request.set_key(ChunkKey(client, mark.position(), chunk));
    ASSIGN_OR_RETURN(const etcdserverpb::RangeResponse found,
                     client.Range(request, kChunkWithinMs));
    if (found.kvs_size() == 0) return absl::NotFoundError("the snapshot was replaced");
    ASSIGN_OR_RETURN(const std::string part, Uncompressed(found.kvs(0).value()));
    hash.Update(part);
    bytes += part.size();
    RETURN_IF_ERROR(common::WriteAll(target.get(), part));
  }
  if (bytes == mark.bytes() && hash.FinishHex() == mark.sha256()) return absl::OkStatus();
  return absl::DataLossError("the snapshot in etcd is not what was written");
}

}  // namespace muster::coordinator::heads
