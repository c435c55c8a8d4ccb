#include "tree/object_source.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/stable_read.h"

namespace muster::tree {

ObjectSource::ObjectSource(int root, const Manifest& manifest, const Placement& placement)
    : manifest_(manifest), placement_(placement), directories_(root) {
  pieces_.resize(placement.objects.size());
  for (size_t i = 0; i < placement.places.size(); ++i) {
    const Place& place = placement.places[i];
    if (place.object == kNoObject) continue;
    pieces_[place.object].push_back({place.offset, static_cast<uint32_t>(i)});
  }
  // Files with the same content share a place, so any of them has the bytes.
  for (std::vector<Piece>& pieces : pieces_) {
    std::stable_sort(pieces.begin(), pieces.end(), [this](const Piece& a, const Piece& b) {
      return std::pair(a.offset, EntryOf(b).size) < std::pair(b.offset, EntryOf(a).size);
    });
    uint64_t end = 0;
    std::erase_if(pieces, [&](const Piece& piece) {
      if (piece.offset < end) return true;
      end = piece.offset + EntryOf(piece).size;
      return false;
    });
  }
}

bool ObjectSource::IsComplete(uint32_t object) const {
  uint64_t end = 0;
  for (const Piece& piece : pieces_[object]) {
    if (piece.offset != end) return false;
    end += EntryOf(piece).size;
  }
  return end == placement_.objects[object].size;
}

absl::StatusOr<ObjectStream> ObjectSource::Open(uint32_t object, uint64_t offset) {
  const Object& wanted = placement_.objects[object];
  // Objects are our own snapshot's; offsets that a coordinator names are checked by code_upload.cc.
  CHECK(IsComplete(object) && offset <= wanted.size);
  ObjectStream stream;
  stream.source_ = this;
  stream.object_ = object;
  stream.offset_ = offset;
  if (offset == wanted.size) return stream;
  if (wanted.size > 0 && pieces_[object].size() == 1 &&
      EntryOf(pieces_[object][0]).size >= kOwnObjectBytes) {
    const Entry& entry = EntryOf(pieces_[object][0]);
    stream.fd_ = directories_.Open(entry.path, O_RDONLY);
    if (!stream.fd_.valid()) return ChangedSince(entry.path);
    std::vector<char> skipped(std::min<uint64_t>(offset, kOwnObjectBytes));
    for (stream.offset_ = 0; stream.offset_ < offset;) {
      const size_t size = std::min<uint64_t>(skipped.size(), offset - stream.offset_);
      RETURN_IF_ERROR(stream.ReadFile(skipped.data(), size).status());
    }
    return stream;
  }
  const std::vector<Piece>& pieces = pieces_[object];
  const auto behind =
      std::upper_bound(pieces.begin(), pieces.end(), offset,
                       [](uint64_t at, const Piece& piece) { return at < piece.offset; });
  stream.piece_ = static_cast<size_t>(behind - pieces.begin()) - 1;
  return stream;
}

absl::StatusOr<size_t> ObjectStream::Read(char* buffer, size_t size) {
  if (offset_ == source_->placement_.objects[object_].size || size == 0) return size_t{0};
  if (fd_.valid()) return ReadFile(buffer, size);
  const std::vector<ObjectSource::Piece>& pieces = source_->pieces_[object_];
  if (bytes_.empty()) RETURN_IF_ERROR(LoadPiece());
  const size_t at = static_cast<size_t>(offset_ - pieces[piece_].offset);
  const size_t count = std::min(size, bytes_.size() - at);
  std::memcpy(buffer, bytes_.data() + at, count);
  offset_ += count;
  if (at + count == bytes_.size()) {
    bytes_.clear();
    ++piece_;
  }
  return count;
}

absl::Status ObjectStream::LoadPiece() {
  const Entry& entry = source_->EntryOf(source_->pieces_[object_][piece_]);
  const common::UniqueFd fd = source_->directories_.Open(entry.path, O_RDONLY);
  if (!fd.valid()) return ChangedSince(entry.path);
  // Reads one byte more, which shows whether the file has grown.
  ASSIGN_OR_RETURN(bytes_,
                   common::ReadAt(fd.get(), 0, entry.size + 1, common::Printable(entry.path)));
  if (bytes_.size() == entry.size && DigestOf(bytes_) == entry.content) return absl::OkStatus();
  return ChangedSince(entry.path);
}

absl::StatusOr<size_t> ObjectStream::ReadFile(char* buffer, size_t size) {
  const Entry& entry = source_->EntryOf(source_->pieces_[object_][0]);
  const size_t wanted = std::min<uint64_t>(size, entry.size - offset_);
  ASSIGN_OR_RETURN(const std::string bytes,
                   common::ReadAt(fd_.get(), offset_, wanted, common::Printable(entry.path)));
  if (bytes.size() != wanted) return ChangedSince(entry.path);
  hash_.Update(bytes);
  offset_ += wanted;
  if (offset_ == entry.size && Finish(hash_) != entry.content) return ChangedSince(entry.path);
  std::memcpy(buffer, bytes.data(), wanted);
  return wanted;
}

}  // namespace muster::tree
