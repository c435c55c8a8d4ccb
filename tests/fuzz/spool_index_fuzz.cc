// A spool that its rank has written to. Input: a piece that is the index; the rest is the data.
#include "fuzz/harness.h"
#include "worker/output/spool_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  static const testing::Directory directory;
  testing::Pieces input(testing::Text(data, size));
  std::string_view index;
  if (!input.Next(&index)) return 0;
  directory.Write("spool.idx", index);
  directory.Write("spool", input.Rest());

  constexpr size_t kPieceBytes = 100;
  worker::SpoolReader reader(directory.Path("spool"));
  for (size_t calls = 0;; ++calls) {
    FUZZ_EXPECT(calls <= index.size() + size);  // it terminates
    const uint64_t before = reader.place().offset;
    const absl::StatusOr<worker::SpoolPiece> piece = reader.Next(kPieceBytes);
    if (!piece.ok() || (piece->empty() && !piece->more)) break;
    FUZZ_EXPECT(piece->data.size() <= kPieceBytes);
    FUZZ_EXPECT(piece->offset + piece->data.size() == reader.place().offset);
    FUZZ_EXPECT(before + piece->dropped == piece->offset);
    for (const auto& [position, time_us] : piece->marks) {
      FUZZ_EXPECT(position < piece->data.size());
    }
  }
  (void)reader.Available();
  return 0;
}
