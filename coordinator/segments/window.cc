#include "coordinator/segments/window.h"

#include <algorithm>

#include "common/base/status.h"

namespace muster::coordinator {

absl::StatusOr<std::string_view> ByteWindow::At(uint64_t position, size_t size) {
  was_known_ = position >= begin_ && position + size <= begin_ + window_.size();
  if (!was_known_) {
    window_.clear();
    ASSIGN_OR_RETURN(SegmentBytes::Piece piece, source_->Read(position, std::max(size, bytes_)));
    total_ = piece.total;
    if (piece.identity == 0) return std::string_view();
    window_ = std::move(piece.bytes);
    begin_ = position;
    identity_ = piece.identity;
  }
  return std::string_view(window_).substr(position - begin_, size);
}

void ByteWindow::Forget() {
  std::string().swap(window_);
  begin_ = 0;
}

}  // namespace muster::coordinator
