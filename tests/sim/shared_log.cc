#include "tests/sim/shared_log.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace muster::sim {
namespace {

void AddPart(std::string& bytes, char kind, const std::string& part) {
  absl::StrAppend(&bytes, std::string(1, kind), absl::StrFormat("%08x", part.size()), part);
}

}  // namespace

std::string PieceKey(uint64_t number) {
  return absl::StrCat(kLogPrefix, absl::StrFormat("%016x", number));
}

std::string Entry::Pack() const {
  std::string bytes;
  if (epoch != 0) AddPart(bytes, 'n', absl::StrCat(epoch));
  for (const v1::Event& event : events) AddPart(bytes, 'e', event.SerializeAsString());
  for (const v1::JobRecord& job : finished) AddPart(bytes, 'f', job.SerializeAsString());
  for (const uint64_t note : notes) AddPart(bytes, 'c', absl::StrCat(note));
  if (snapshot.has_value()) AddPart(bytes, 's', snapshot->SerializeAsString());
  return bytes;
}

Entry Entry::Unpack(const std::string& bytes) {
  Entry entry;
  for (size_t at = 0; at < bytes.size();) {
    size_t size = 0;
    if (!absl::SimpleHexAtoi(bytes.substr(at + 1, 8), &size) || at + 9 + size > bytes.size())
      throw Broken("J11: an entry of the log cannot be read");
    const std::string part = bytes.substr(at + 9, size);
    switch (bytes[at]) {
      case 'n':
        entry.epoch = std::stoull(part);
        break;
      case 'e':
        entry.events.emplace_back().ParseFromString(part);
        break;
      case 'f':
        entry.finished.emplace_back().ParseFromString(part);
        break;
      case 'c':
        entry.notes.push_back(std::stoull(part));
        break;
      case 's':
        entry.snapshot.emplace().ParseFromString(part);
        break;
      default:
        throw Broken("J11: an entry of the log cannot be read");
    }
    at += 9 + size;
  }
  return entry;
}

void SharedLog::Written(const SimEtcd& etcd, const etcdserverpb::PutRequest& put) {
  if (!put.key().starts_with(kLogPrefix)) return;
  v1::CommitPiece piece;
  piece.ParseFromString(put.value());
  const etcdserverpb::KeyValue* const leader = etcd.Find(kLeaderKey);
  if (leader == nullptr || leader->create_revision() != term_of_.at(piece.writer())) {
    throw Broken(absl::StrCat("J10: term ", term_of_.at(piece.writer()), " added ", put.key(),
                              " to the log after its end"));
  }
  if (put.key() != PieceKey(pieces_ + 1))
    throw Broken(
        absl::StrCat("J11: ", put.key(), " was written, and the log has ", pieces_, " pieces"));
  ++pieces_;
  const std::optional<std::string> changes = gathering_.Add(piece);
  if (!changes.has_value()) return;
  position_ = pieces_;
  const Entry entry = Entry::Unpack(*changes);
  for (const v1::Event& event : entry.events) ledger_.Committed(event);
  notes_.insert(entry.notes.begin(), entry.notes.end());
}

void SharedLog::Acts(int64_t term, const std::string& name, const char* what) {
  if (term < acting_term_) {
    throw Broken(absl::StrCat("J14: head ", name, " of term ", term, " ", what, " after head ",
                              acting_, " of term ", acting_term_, " had acted"));
  }
  acting_term_ = term;
  acting_ = name;
  ++acts_;
}

}  // namespace muster::sim
