// The first line of a job's merged output that reads as an error, with the lines of its rank around
// it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace muster::client {

class FirstError {
 public:
  static constexpr size_t kContextLines = 3;
  using Stream = std::tuple<uint32_t, uint32_t, int>;  // attempt, rank, stream

  // The next line, in the order of the merge. `follows`: directly after the stream's last line.
  void Add(const Stream& stream, std::string_view line, int64_t time_us, bool follows);
  void Ended(const Stream& stream);
  // The error was found, and all lines of context after it.
  bool Done() const { return done_; }
  bool Found() const { return stream_.has_value(); }

  struct Line {
    std::string text;
    int64_t time_us = 0;
    bool is_error = false;
  };
  const Stream& Where() const { return *stream_; }
  int64_t TimeUs() const { return time_us_; }
  const std::vector<Line>& Lines() const { return lines_; }

 private:
  std::map<Stream, std::deque<Line>> before_;
  std::optional<Stream> stream_;
  int64_t time_us_ = 0;
  size_t after_ = 0;
  std::vector<Line> lines_;
  bool done_ = false;
};

}  // namespace muster::client
