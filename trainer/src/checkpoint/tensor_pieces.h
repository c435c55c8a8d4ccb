// The pieces of a tensor: which elements each one holds, and whether together they cover the
// tensor. A piece whose offsets and sizes have one entry is a range of the row-major flattened
// tensor; with an entry per dimension it is a box. No torch, no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_directory.h"

namespace muster {

// Elements of a tensor of this shape. Throws FormatError("<where>: …") if a size is negative or the
// product overflows.
int64_t count_elements(const std::vector<int64_t>& shape, const std::string& where);

// Elements that are contiguous both in a piece and in the flattened tensor.
struct PieceRun {
  int64_t in_tensor = 0;  // first element, flattened
  int64_t in_piece = 0;
  int64_t count = 0;
};

// The runs of a valid piece that overlap elements [begin, end) of the tensor, ascending: one for a
// range or a whole tensor, one per row for a box that covers only part of each row.
std::vector<PieceRun> runs_of(const TensorPiece& piece, const std::vector<int64_t>& shape,
                              int64_t begin, int64_t end);

// Throws FormatError("<where>: …") naming the tensor, the elements and the files unless every piece
// lies inside the tensor and each element is in exactly one piece.
void require_cover(const std::string& name, const ManifestTensor& tensor, const std::string& where);

// "elements [2, 7)"
std::string range_text(int64_t begin, int64_t end);

}  // namespace muster
