// See tensor_pieces.h.
#include "checkpoint/tensor_pieces.h"

#include <algorithm>

#include "muster/base/errors.h"

namespace muster {
namespace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape& sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) result *= size;
  return result;
}

// Represents every piece as a box: a range, or a 0-d tensor, is a box in the flattened tensor.
struct Box {
  Shape offsets, sizes, within;
};

Box box_of(const TensorPiece& piece, const Shape& shape) {
  if (piece.offsets.size() == shape.size()) return {piece.offsets, piece.sizes, shape};
  return {piece.offsets, piece.sizes, {product(shape)}};
}

// Calls use(run) for each contiguous run of the box: the trailing dimensions that the box covers in
// full, and its part of the dimension before them.
template <typename Use>
void for_each_run(const Box& box, Use use) {
  if (product(box.sizes) == 0) return;
  size_t split = box.sizes.size();  // the dimensions from here on form one run
  int64_t length = 1;
  bool whole = true;
  while (split > 0 && whole) {
    --split;
    length *= box.sizes[split];
    whole = box.sizes[split] == box.within[split];
  }
  Shape place(box.offsets);
  for (int64_t in_piece = 0;; in_piece += length) {
    int64_t in_tensor = 0;
    for (size_t d = 0; d < place.size(); ++d) in_tensor = in_tensor * box.within[d] + place[d];
    use(PieceRun{in_tensor, in_piece, length});
    size_t d = split;
    while (d > 0 && ++place[d - 1] == box.offsets[d - 1] + box.sizes[d - 1]) {
      place[d - 1] = box.offsets[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

// Whether the box is contiguous in the flattened tensor.
bool is_contiguous(const Box& box) {
  size_t d = 0;
  while (d < box.sizes.size() && box.sizes[d] == 1) ++d;
  for (++d; d < box.sizes.size(); ++d) {
    if (box.sizes[d] != box.within[d]) return false;
  }
  return true;
}

bool overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (std::max(a.offsets[d], b.offsets[d]) >=
        std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d])) {
      return false;
    }
  }
  return true;
}

void require_inside(const std::string& name, const TensorPiece& piece, const Shape& shape,
                    const std::string& where) {
  bool inside = piece.offsets.size() == piece.sizes.size() &&
                (piece.offsets.size() == shape.size() || piece.offsets.size() == 1);
  if (inside) {
    const Box box = box_of(piece, shape);
    for (size_t d = 0; d < box.sizes.size(); ++d) {
      // Compares without adding, which could overflow.
      inside = inside && box.sizes[d] >= 0 && box.offsets[d] >= 0 &&
               box.offsets[d] <= box.within[d] && box.sizes[d] <= box.within[d] - box.offsets[d];
    }
  }
  if (inside) return;
  throw FormatError(where + ": the piece of '" + name + "' in " + piece.file +
                    " does not lie inside the tensor");
}

struct Stretch {
  int64_t begin = 0, end = 0;
  const TensorPiece* piece = nullptr;
};

void require_stretches_cover(const std::string& name, std::vector<Stretch> stretches,
                             int64_t elements, const std::string& where) {
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  const auto missing = [&](int64_t begin, int64_t end) {
    throw FormatError(where + ": no piece has " + range_text(begin, end) + " of the " +
                      std::to_string(elements) + " of '" + name + "'");
  };
  Stretch before;
  for (const Stretch& stretch : stretches) {
    if (stretch.begin > before.end) missing(before.end, stretch.begin);
    if (stretch.begin < before.end) {
      throw FormatError(where + ": " +
                        range_text(stretch.begin, std::min(before.end, stretch.end)) + " of '" +
                        name + "' are in " + before.piece->file + " and in " + stretch.piece->file);
    }
    before = stretch;
  }
  if (before.end < elements) missing(before.end, elements);
}

void require_boxes_cover(const std::string& name, const ManifestTensor& tensor, int64_t elements,
                         const std::string& where) {
  std::vector<Box> boxes;
  int64_t covered = 0;
  for (const TensorPiece& piece : tensor.pieces) {
    boxes.push_back(box_of(piece, tensor.shape));
    if (boxes.back().within.size() != tensor.shape.size()) {
      throw FormatError(where + ": the pieces of '" + name +
                        "' mix ranges and boxes, so that readers cannot check them for gaps");
    }
    for (size_t i = 0; i + 1 < boxes.size(); ++i) {
      if (overlap(boxes[i], boxes.back())) {
        throw FormatError(where + ": the pieces of '" + name + "' in " + tensor.pieces[i].file +
                          " and " + piece.file + " overlap");
      }
    }
    covered += product(boxes.back().sizes);
  }
  if (covered == elements) return;
  throw FormatError(where + ": the pieces of '" + name + "' have " + std::to_string(covered) +
                    " of its " + std::to_string(elements) + " elements");
}

}  // namespace

int64_t count_elements(const std::vector<int64_t>& shape, const std::string& where) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      throw FormatError(where + ": its shape has a negative size or more elements than fit");
    }
  }
  return elements;
}

std::vector<PieceRun> runs_of(const TensorPiece& piece, const std::vector<int64_t>& shape,
                              int64_t begin, int64_t end) {
  std::vector<PieceRun> runs;
  for_each_run(box_of(piece, shape), [&](const PieceRun& run) {
    const int64_t first = std::max(run.in_tensor, begin);
    const int64_t last = std::min(run.in_tensor + run.count, end);
    if (first < last) {
      runs.push_back({first, run.in_piece + first - run.in_tensor, last - first});
    }
  });
  return runs;
}

void require_cover(const std::string& name, const ManifestTensor& tensor,
                   const std::string& where) {
  const int64_t elements = count_elements(tensor.shape, where + ": '" + name + "'");
  if (tensor.pieces.empty()) throw FormatError(where + ": '" + name + "' has no pieces");
  std::vector<Stretch> stretches;
  bool contiguous = true;
  for (const TensorPiece& piece : tensor.pieces) {
    require_inside(name, piece, tensor.shape, where);
    const Box box = box_of(piece, tensor.shape);
    contiguous = contiguous && is_contiguous(box);
    if (!contiguous) continue;
    for_each_run(box, [&](const PieceRun& run) {
      stretches.push_back({run.in_tensor, run.in_tensor + run.count, &piece});
    });
  }
  if (contiguous) {
    require_stretches_cover(name, std::move(stretches), elements, where);
  } else {
    require_boxes_cover(name, tensor, elements, where);
  }
}

std::string range_text(int64_t begin, int64_t end) {
  return "elements [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

}  // namespace muster
