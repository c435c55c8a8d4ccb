// How the records of one segment are laid out: where each goes, what its head says, the index and the trailer. Pure:
// the bytes are its users', in a file or in memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/segments/format.h"

namespace muster::coordinator {

// Newlines in a record's body.
uint64_t LinesIn(std::string_view body);

struct NewRecord {
  uint64_t offset = 0;
  uint64_t dropped = 0;
  int64_t time_us = 0;
  bool end = false;
  bool removed = false;  // as in RecordHead
  std::string_view body;
};

struct SegmentLayout {
  SegmentLayout() = default;
  // Of a segment without records.
  explicit SegmentLayout(const SegmentHead& begun);

  SegmentHead head;
  uint64_t position = 0;  // where the next record goes
  std::vector<IndexEntry> index;
  SegmentTrailer end;

  // Both copies.
  std::string HeadBytes() const;
  // Of the next record.
  RecordHead HeadOf(const NewRecord& record) const;
  // Updates the index and the trailer's numbers for a record at this position.
  void Count(const RecordHead& record, std::string_view body, uint64_t at);
  // The index and the trailer of a finished segment.
  std::string TailBytes();
};

// For what may be lost at an end: it is there at the least.
void EndAtLeast(const SegmentTrailer& told, SegmentTrailer& end);

}  // namespace muster::coordinator
