// Writes ranks' bytes to the client's stdout and stderr: whole lines with a prefix, or the exact
// bytes with `raw`. One thread.
//
// In a pipe, a line's bytes are never changed; on a terminal, control characters are escaped, and a
// progress bar that redraws its line with carriage returns is shown once per second.
#pragma once

#include <regex.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/status/status.h"
#include "client/terminal.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

class LogPrinter {
 public:
  struct Options {
    bool raw = false;
    bool split_streams = false;  // a rank's stderr goes to our stderr
    bool timestamps = false;
    std::string grep;  // extended regular expression; only lines that match
  };
  LogPrinter(Options options, const Terminal& terminal);
  ~LogPrinter();
  LogPrinter(const LogPrinter&) = delete;

  // Errors: JC1004 for a bad expression. Call once, before Write.
  absl::Status Prepare();
  void Write(const v1::LogRecord& record);
  // Prints incomplete lines.
  void Finish();

 private:
  using Key = std::tuple<uint32_t, uint32_t, int>;  // attempt, rank, stream
  struct Stream {
    std::string prefix;
    std::string partial;
    bool to_stderr = false;
    int64_t last_redraw_us = 0;
    int64_t last_us = 0;  // of its newest bytes
  };

  void WriteLines(Stream& stream, const v1::LogRecord& record);
  void Line(Stream& stream, std::string_view line, int64_t time_us);
  void Flush();

  Options options_;
  Terminal terminal_;
  std::unique_ptr<regex_t> expression_;
  std::map<Key, Stream> streams_;
  std::string out_;
  std::string err_;
};

}  // namespace muster::client
