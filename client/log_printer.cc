#include "client/log_printer.h"

#include <cstdio>

#include "client/errors.h"
#include "client/record_text.h"
#include "common/strings.h"
#include "common/text.h"
#include "common/units.h"

namespace muster::client {
namespace {

using common::StrCat;

// A longer line is printed in pieces, so that a rank that prints no newlines does not fill our
// memory.
constexpr size_t kPartialBytesMax = 256 * 1024;
constexpr int64_t kRedrawUs = 1'000'000;
constexpr const char* kRankColors[] = {"\033[36m", "\033[32m", "\033[35m",
                                       "\033[33m", "\033[34m", "\033[31m"};

}  // namespace

LogPrinter::LogPrinter(Options options, const Terminal& terminal)
    : options_(std::move(options)), terminal_(terminal) {}

LogPrinter::~LogPrinter() {
  if (expression_ != nullptr) regfree(expression_.get());
}

absl::Status LogPrinter::Prepare() {
  if (options_.grep.empty()) return absl::OkStatus();
  auto expression = std::make_unique<regex_t>();
  const int error = regcomp(expression.get(), options_.grep.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error != 0) {
    char text[200];
    regerror(error, expression.get(), text, sizeof(text));
    return Usage(
        "JC1004",
        StrCat("--grep \"", options_.grep, "\" is not an extended regular expression: ", text),
        "jobctl logs JOB --grep 'error|warning'");
  }
  expression_ = std::move(expression);
  return absl::OkStatus();
}

void LogPrinter::Write(const v1::LogRecord& record) {
  if (!record.notice().empty()) {
    if (!options_.raw) common::StrAppend(&err_, "-- ", common::Printable(record.notice()), "\n");
    Flush();
    return;
  }
  Stream& stream = streams_[{record.attempt(), record.rank(), record.stream()}];
  if (stream.prefix.empty()) {
    stream.to_stderr = options_.split_streams && record.stream() == v1::LOG_STREAM_STDERR;
    const bool color = stream.to_stderr ? terminal_.color_err : terminal_.color_out;
    stream.prefix = StrCat(color ? kRankColors[record.rank() % std::size(kRankColors)] : "", "[",
                           common::Printable(record.node()), ":", record.rank(), "]",
                           color ? "\033[0m" : "", " ");
  }
  stream.last_us = record.time_us();
  if (record.dropped() > 0) {
    common::StrAppend(&err_, "-- rank ", record.rank(), " on ", common::Printable(record.node()),
                      ": ", common::HumanBytes(record.dropped()), " (", record.dropped(),
                      " bytes) of output dropped here: its spool was full\n");
  }
  if (record.damaged() > 0) {
    common::StrAppend(&err_, "-- rank ", record.rank(), " on ", common::Printable(record.node()),
                      ": ", record.damaged(),
                      " bytes of output are damaged on the coordinator's disk\n");
  }
  if (options_.raw) {
    (stream.to_stderr ? err_ : out_).append(record.data());
  } else {
    WriteLines(stream, record);
    if (record.end() && !stream.partial.empty()) {
      Line(stream, std::exchange(stream.partial, {}), record.time_us());
    }
  }
  Flush();
}

void LogPrinter::WriteLines(Stream& stream, const v1::LogRecord& record) {
  std::string_view data = record.data();
  const bool is_tty = stream.to_stderr ? terminal_.err_is_tty : terminal_.out_is_tty;
  while (!data.empty()) {
    const size_t end = data.find('\n');
    const std::string_view piece = data.substr(0, end);
    if (end == std::string_view::npos) {
      stream.partial.append(piece);
      break;
    }
    if (stream.partial.empty()) {
      Line(stream, piece, record.time_us());
    } else {
      stream.partial.append(piece);
      Line(stream, std::exchange(stream.partial, {}), record.time_us());
    }
    data.remove_prefix(end + 1);
  }
  if (is_tty && record.time_us() - stream.last_redraw_us >= kRedrawUs) {
    if (const size_t redraw = stream.partial.rfind('\r');
        redraw != std::string::npos && redraw > 0) {
      stream.last_redraw_us = record.time_us();
      Line(stream, stream.partial.substr(0, redraw), record.time_us());
      stream.partial.erase(0, redraw + 1);
    }
  }
  if (stream.partial.size() > kPartialBytesMax) {
    Line(stream, std::exchange(stream.partial, {}), record.time_us());
  }
}

void LogPrinter::Line(Stream& stream, std::string_view line, int64_t time_us) {
  // REG_STARTEND: a rank may write a NUL, and what is behind it counts.
  regmatch_t whole{.rm_so = 0, .rm_eo = static_cast<regoff_t>(line.size())};
  if (expression_ != nullptr &&
      regexec(expression_.get(), line.data(), 1, &whole, REG_STARTEND) != 0) {
    return;
  }
  std::string& target = stream.to_stderr ? err_ : out_;
  if (options_.timestamps) common::StrAppend(&target, ClockTime(time_us / 1000), " ");
  target += stream.prefix;
  if (stream.to_stderr ? terminal_.err_is_tty : terminal_.out_is_tty) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    // What a terminal would still show of a redrawn line.
    if (const size_t redraw = line.rfind('\r'); redraw != std::string_view::npos)
      line.remove_prefix(redraw + 1);
    target += TerminalSafe(line, stream.to_stderr ? terminal_.color_err : terminal_.color_out);
  } else {
    target.append(line);
  }
  target += '\n';
}

void LogPrinter::Finish() {
  for (auto& [key, stream] : streams_) {
    if (!stream.partial.empty()) Line(stream, std::exchange(stream.partial, {}), stream.last_us);
  }
  Flush();
}

void LogPrinter::Flush() {
  if (!out_.empty()) {
    fwrite(out_.data(), 1, out_.size(), stdout);
    fflush(stdout);
    out_.clear();
  }
  if (!err_.empty()) {
    fwrite(err_.data(), 1, err_.size(), stderr);
    err_.clear();
  }
}

}  // namespace muster::client
