// Which elements of a tensor its pieces hold, and rank reports that form a manifest.
#include "checkpoint/tensor_pieces.h"

#include <limits>

#include <gtest/gtest.h>

#include "checkpoint/rank_report.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Shape = std::vector<int64_t>;

TensorPiece piece(const char* file, Shape offsets, Shape sizes) {
  return {file, "t", std::move(offsets), std::move(sizes)};
}

// The elements of the tensor that the piece holds, in the order of the piece.
Shape elements(const TensorPiece& of, const Shape& shape, int64_t begin, int64_t end) {
  Shape result;
  int64_t next = -1;
  for (const PieceRun& run : runs_of(of, shape, begin, end)) {
    EXPECT_GT(run.in_piece, next) << "runs ascend";
    for (int64_t i = 0; i < run.count; ++i) result.push_back(run.in_tensor + i);
    next = run.in_piece + run.count - 1;
  }
  return result;
}

std::string fault_of(const Shape& shape, std::vector<TensorPiece> pieces) {
  try {
    require_cover("w", {"F32", shape, std::move(pieces)}, "here");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

TEST(TensorPieces, AreRangesOfTheFlattenedTensorWithOneEntryAndBoxesWithOnePerDimension) {
  EXPECT_EQ(elements(piece("a", {4}, {5}), {3, 4}, 0, 12), (Shape{4, 5, 6, 7, 8}));
  EXPECT_EQ(elements(piece("a", {4}, {5}), {3, 4}, 6, 8), (Shape{6, 7}));
  EXPECT_EQ(elements(piece("a", {4}, {5}), {3, 4}, 9, 12), Shape{});
  EXPECT_EQ(elements(piece("a", {1, 2}, {2, 2}), {3, 4}, 0, 12), (Shape{6, 7, 10, 11}));
  EXPECT_EQ(elements(piece("a", {1, 0}, {2, 4}), {3, 4}, 5, 10), (Shape{5, 6, 7, 8, 9}));
  EXPECT_EQ(elements(piece("a", {0, 1, 0}, {2, 1, 2}), {2, 3, 2}, 0, 12), (Shape{2, 3, 8, 9}));
  EXPECT_EQ(elements(piece("a", {1, 0, 1}, {1, 3, 1}), {2, 3, 2}, 0, 12), (Shape{7, 9, 11}));
  EXPECT_EQ(elements(piece("a", {}, {}), {}, 0, 1), Shape{0});
  EXPECT_EQ(elements(piece("a", {0}, {1}), {}, 0, 1), Shape{0});
  EXPECT_EQ(elements(piece("a", {0, 0}, {0, 4}), {0, 4}, 0, 0), Shape{});
  EXPECT_EQ(runs_of(piece("a", {1, 0, 0}, {2, 3, 2}), {3, 3, 2}, 0, 18).size(), 1u);
}

TEST(TensorPieces, MakeAWholeTensorInAnyOrder) {
  EXPECT_EQ(fault_of({3, 4}, {piece("b", {5}, {7}), piece("a", {0}, {5})}), "");
  EXPECT_EQ(fault_of({3, 4}, {piece("b", {1, 0}, {2, 4}), piece("a", {0, 0}, {1, 4})}), "");
  EXPECT_EQ(fault_of({3, 4}, {piece("b", {0, 1}, {3, 3}), piece("a", {0, 0}, {3, 1})}), "");
  EXPECT_EQ(fault_of({3, 4}, {piece("b", {0}, {4}), piece("a", {1, 0}, {2, 4})}), "");
  EXPECT_EQ(fault_of({}, {piece("a", {}, {})}), "");
  EXPECT_EQ(fault_of({0, 4}, {piece("a", {0, 0}, {0, 4})}), "");
  EXPECT_EQ(fault_of({4}, {piece("a", {0}, {0}), piece("b", {0}, {4})}), "");
}

TEST(TensorPieces, ThatLeaveAHoleOrOverlapAreNamedWithTheElements) {
  EXPECT_EQ(fault_of({3, 4}, {piece("a", {0}, {5}), piece("b", {7}, {5})}),
            "here: no piece has elements [5, 7) of the 12 of 'w'");
  EXPECT_EQ(fault_of({3, 4}, {piece("a", {0}, {5})}),
            "here: no piece has elements [5, 12) of the 12 of 'w'");
  EXPECT_EQ(fault_of({3, 4}, {piece("a", {0}, {5}), piece("b", {4}, {8})}),
            "here: elements [4, 5) of 'w' are in a and in b");
  EXPECT_EQ(fault_of({3, 4}, {piece("a", {0, 0}, {3, 4}), piece("b", {4}, {2})}),
            "here: elements [4, 6) of 'w' are in a and in b");
  EXPECT_EQ(fault_of({3, 4}, {piece("a", {0, 0}, {3, 2}), piece("b", {0, 1}, {3, 2})}),
            "here: the pieces of 'w' in a and b overlap");
  EXPECT_EQ(fault_of({3, 4}, {piece("a", {0, 0}, {3, 2})}),
            "here: the pieces of 'w' have 6 of its 12 elements");
  EXPECT_NE(fault_of({3, 4}, {piece("a", {0, 0}, {3, 2}), piece("b", {0}, {6})}), "");
  EXPECT_EQ(fault_of({0, 4}, {}), "here: 'w' has no pieces");
}

TEST(TensorPieces, ThatLeaveTheTensorAreRefusedWithoutOverflow) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const TensorPiece& bad :
       {piece("a", {0}, {13}), piece("a", {-1}, {5}), piece("a", {5}, {-1}), piece("a", {8}, {5}),
        piece("a", {kMost}, {kMost}), piece("a", {0, 0}, {3, 5}), piece("a", {2, 0}, {2, 4}),
        piece("a", {0, 0, 0}, {1, 1, 1}), piece("a", {0, 0}, {12}), piece("a", {}, {})}) {
    EXPECT_EQ(fault_of({3, 4}, {bad}),
              "here: the piece of 'w' in a does not lie inside the tensor");
  }
  EXPECT_NE(fault_of({kMost, 2}, {piece("a", {0}, {1})}).find("shape"), std::string::npos);
  EXPECT_NE(fault_of({-1}, {piece("a", {0}, {1})}).find("shape"), std::string::npos);
}

RankReport report(int rank, const Shape& shape, Shape offsets, Shape sizes,
                  const std::string& dtype = "F32") {
  RankReport result;
  const std::string file = "f" + std::to_string(rank);
  result.file = ShardFile{file, 10, "hash", rank, 0};
  result.tensors["w"] = {dtype, shape, {piece(file.c_str(), std::move(offsets), std::move(sizes))}};
  return result;
}

TEST(RankReports, TravelAsTextAndMakeOneManifest) {
  Manifest manifest;
  for (const RankReport& own :
       {report(0, {3, 4}, {0}, {5}), report(1, {3, 4}, {5}, {7}), RankReport{}}) {
    const RankReport same = parse_report(format_report(own), /*with_tensors=*/true);
    EXPECT_EQ(same.file.has_value(), own.file.has_value());
    EXPECT_TRUE(parse_report(format_report(own), /*with_tensors=*/false).tensors.empty());
    add_tensors(manifest, same);
  }
  ASSERT_EQ(manifest.tensors.at("w").pieces.size(), 2u);
  EXPECT_EQ(manifest.tensors.at("w").pieces[1].file, "f1");
  EXPECT_EQ(manifest.tensors.at("w").pieces[1].offsets, Shape{5});
  require_whole_tensors(manifest);
}

TEST(RankReports, ThatDisagreeAreRefused) {
  Manifest manifest;
  add_tensors(manifest, report(0, {3, 4}, {0}, {5}));
  EXPECT_THROW(add_tensors(manifest, report(1, {4, 3}, {5}, {7})), CheckpointError);
  EXPECT_THROW(add_tensors(manifest, report(1, {3, 4}, {5}, {7}, "F16")), CheckpointError);
  EXPECT_THROW(require_whole_tensors(manifest), CheckpointError);
  // Several ranks may report a tensor without elements.
  Manifest empty;
  add_tensors(empty, report(0, {0, 4}, {0, 0}, {0, 4}));
  add_tensors(empty, report(1, {0, 4}, {0, 0}, {0, 4}));
  EXPECT_EQ(empty.tensors.at("w").pieces.size(), 1u);
}

}  // namespace
}  // namespace muster
