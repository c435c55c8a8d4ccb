#include "coordinator/heads/log.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/hash/crc32c.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/heads/snapshot.h"

namespace muster::coordinator::heads {
namespace {

using common::StrCat;

constexpr int64_t kPiecesPerPage = 32;

absl::StatusOr<uint64_t> NumberOf(const etcd::Client& client, const std::string& key) {
  const std::string prefix = client.Key("log/");
  uint64_t number = 0;
  const char* const end = key.data() + key.size();
  const auto parsed =
      std::from_chars(key.data() + std::min(prefix.size(), key.size()), end, number, 16);
  if (parsed.ec == std::errc() && parsed.ptr == end && LogKey(client, number) == key) return number;
  return absl::DataLossError(
      StrCat("etcd has the key ", common::Printable(key), ", which is not an entry of the log"));
}

absl::Status AnotherLeads() {
  return absl::AbortedError("another coordinator leads the cluster now");
}

absl::Status NoRoom(const absl::Status& why) {
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1605",
       .what = "etcd has no space left, so nothing can be recorded; running jobs continue",
       .why = std::string(why.message()),
       .fix = "raise etcd's --quota-backend-bytes, or compact and defragment it; then `etcdctl "
              "alarm disarm`"});
}

}  // namespace

std::string LogKey(const etcd::Client& client, uint64_t number) {
  return client.Key(absl::StrFormat("log/%016x", number));
}

absl::StatusOr<uint64_t> EndOfLog(etcd::Client& client, int64_t within_ms) {
  etcdserverpb::RangeRequest newest;
  newest.set_key(LogKey(client, 0));
  newest.set_range_end(etcd::EndOfPrefix(client.Key("log/")));
  newest.set_limit(1);
  newest.set_keys_only(true);
  newest.set_sort_order(etcdserverpb::RangeRequest::DESCEND);
  ASSIGN_OR_RETURN(const etcdserverpb::RangeResponse found, client.Range(newest, within_ms));
  if (found.kvs_size() > 0) return NumberOf(client, found.kvs(0).key());
  // A snapshot has all of them.
  ASSIGN_OR_RETURN(const std::optional<v1::SnapshotMark> mark, ReadSnapshotMark(client));
  return mark.has_value() ? mark->position() : 0;
}

absl::StatusOr<PieceReader::Page> PieceReader::Read(etcd::Client& client, bool linearizable,
                                                    int64_t within_ms) {
  etcdserverpb::RangeRequest request;
  request.set_key(LogKey(client, number_ + 1));
  request.set_range_end(etcd::EndOfPrefix(client.Key("log/")));
  request.set_limit(kPiecesPerPage);
  request.set_sort_order(etcdserverpb::RangeRequest::ASCEND);
  request.set_serializable(!linearizable);
  ASSIGN_OR_RETURN(const etcdserverpb::RangeResponse response, client.Range(request, within_ms));
  Page page;
  page.more = response.more();
  for (const etcdserverpb::KeyValue& pair : response.kvs()) {
    ASSIGN_OR_RETURN(const uint64_t number, NumberOf(client, pair.key()));
    if (number != number_ + 1) {
      return absl::OutOfRangeError(
          StrCat("the log continues at ", number, ", and not at ", number_ + 1));
    }
    RETURN_IF_ERROR(Add(pair, page));
    number_ = number;
  }
  return page;
}

absl::Status PieceReader::Add(const etcdserverpb::KeyValue& pair, Page& page) {
  v1::CommitPiece piece;
  if (!piece.ParseFromString(pair.value()) || piece.crc32c() != common::Crc32c(piece.changes())) {
    return absl::DataLossError(
        StrCat("the entry ", common::Printable(pair.key()), " in etcd cannot be read"));
  }
  if (std::optional<std::string> changes = gathering_.Add(piece))
    page.entries.push_back({.position = number_ + 1, .changes = *std::move(changes)});
  if (gathering_.Bytes() > kEntryBytesMost) {
    return absl::DataLossError(StrCat("the entry in etcd that has the piece ", number_ + 1,
                                      " is larger than ", kEntryBytesMost, " bytes"));
  }
  return absl::OkStatus();
}

EtcdLog::EtcdLog(etcd::Client& client, Options options)
    : client_(client),
      options_(std::move(options)),
      writer_(common::Random64()),
      number_(options_.last_number) {}

absl::StatusOr<uint64_t> EtcdLog::Append(std::string_view changes) {
  {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(failure_);
  }
  if (changes.size() > kEntryBytesMost) {
    return Lost(absl::InvalidArgumentError(StrCat("a transaction changes ", changes.size(),
                                                  " bytes, and the limit is ", kEntryBytesMost)));
  }
  v1::CommitPiece piece;
  piece.set_writer(writer_);
  for (size_t begin = 0; begin < changes.size(); begin += kPieceBytesMost) {
    piece.set_first(begin == 0);
    piece.set_last(begin + kPieceBytesMost >= changes.size());
    piece.set_changes(std::string(changes.substr(begin, kPieceBytesMost)));
    piece.set_crc32c(common::Crc32c(piece.changes()));
    const absl::Status added = AppendPiece(piece);
    if (absl::IsResourceExhausted(added)) return NoRoom(added);
    if (!added.ok()) return Lost(added);
  }
  return number_.load();
}

// A write without an answer is repeated until there is one, as long as the term lasts: a coordinator that reads the log
// later must find what this one goes by.
absl::Status EtcdLog::AppendPiece(const v1::CommitPiece& piece) {
  const std::string key = LogKey(client_, number_ + 1);
  const std::string value = piece.SerializeAsString();
  const etcdserverpb::TxnRequest request =
      election::AddPieceTxn(client_.Key("leader"), options_.term_revision, key, value);
  absl::Status last = absl::DeadlineExceededError("the term is over");
  while (true) {
    const int64_t left_ms = options_.term->SureUntilMs() - common::MonotonicMs();
    if (left_ms <= 0) return last;
    const absl::StatusOr<etcdserverpb::TxnResponse> done = client_.Txn(request, left_ms);
    last = done.status();
    if (absl::IsUnavailable(last) || absl::IsDeadlineExceeded(last)) continue;
    if (absl::IsResourceExhausted(last)) {
      ASSIGN_OR_RETURN(const bool is_there, IsThere(key, value, left_ms));
      if (!is_there) return last;
    } else {
      RETURN_IF_ERROR(last);
      if (!election::IsAdded(*done, value)) return AnotherLeads();
    }
    ++number_;
    bytes_ += value.size();
    return absl::OkStatus();
  }
}

// etcd refuses a repeated write for want of room before it looks whether the first one was made. Since it has none, none
// that is under way is made any more.
absl::StatusOr<bool> EtcdLog::IsThere(const std::string& key, const std::string& value,
                                      int64_t within_ms) {
  etcdserverpb::RangeRequest request;
  request.set_key(key);
  absl::StatusOr<etcdserverpb::RangeResponse> found = client_.Range(request, within_ms);
  if (!found.ok()) return absl::UnavailableError(found.status().message());
  if (found->kvs_size() == 0) return false;
  if (found->kvs(0).value() == value) return true;
  return AnotherLeads();
}

absl::Status EtcdLog::Lost(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (!failure_.ok()) return failure_;
    failure_ = common::MakeProblem(absl::StatusCode::kAborted,
                                   {.code = "JC1630",
                                    .what = "this coordinator no longer leads",
                                    .why = std::string(why.message()),
                                    .fix = "ask again: the clients find the one that leads"});
  }
  options_.lost(why);
  return failure_;
}

void EtcdLog::FailedHere(const absl::Status& why) { Lost(why).IgnoreError(); }

}  // namespace muster::coordinator::heads
