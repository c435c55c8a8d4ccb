#include "client/follow/log_printer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "client/text/record_text.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr std::string_view kLineMember = ", \"line\": ";  // of a stream's JSON, after its prefix
// A longer line is printed in pieces, so that a rank that prints no newlines cannot fill the
// memory.
constexpr size_t kPartialBytesMax = 256 * 1024;
constexpr int kPipeBytes = 1 << 20;
constexpr int64_t kBarInPipeUs = 60'000'000;
constexpr int64_t kBarsEveryMs = 100;
constexpr const char* kRankColors[] = {"\033[36m", "\033[32m", "\033[35m",
                                       "\033[33m", "\033[34m", "\033[31m"};

constexpr const char* kWarnColor = "\033[33m";
constexpr const char* kErrorColor = "\033[31m";

}  // namespace

LogPrinter::LogPrinter(Options options, const Terminal& terminal)
    : options_(std::move(options)),
      terminal_(terminal),
      has_bars_(!options_.raw && !options_.json_lines && !options_.query.SelectsLines()),
      bars_(terminal) {
  // If that is a pipe: its reader is woken once a piece, not four times. Otherwise nothing happens.
  fcntl(STDOUT_FILENO, F_SETPIPE_SZ, kPipeBytes);
  FoldFor(options_.fold_ranks);
}

LogPrinter::~LogPrinter() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    due_changed_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
}

void LogPrinter::FoldFor(size_t ranks) {
  fold_ranks_ = ranks;
  if (fold_.has_value()) {
    fold_->SetRanks(ranks);
  } else if (ranks > 1 && (terminal_.out_is_tty || terminal_.err_is_tty)) {
    fold_.emplace(ranks);
  }
}

void LogPrinter::SetRanks(size_t ranks) {
  std::lock_guard lock(mutex_);
  if (options_.fold_ranks == 0 || ranks == 0 || ranks == fold_ranks_) return;
  FlushFold();
  FoldFor(ranks);
  Flush();
}

absl::Status LogPrinter::Prepare() {
  if (!options_.query.SelectsLines()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto matcher, common::LineMatcher::Make(options_.query));
  share_.emplace(std::move(matcher));
  return absl::OkStatus();
}

LogPrinter::Stream& LogPrinter::Of(const v1::LogRecord& record) {
  Stream& stream = streams_[{record.attempt(), record.rank(), record.stream()}];
  if (stream.prefix.empty()) {
    stream.open = OpenLines(!options_.json_lines && !share_.has_value());
    stream.node = common::Printable(record.node());
    stream.to_stderr = options_.split_streams && record.stream() == v1::LOG_STREAM_STDERR;
    if (options_.json_lines) {
      stream.prefix =
          common::JsonObject()
              .Add("attempt", record.attempt())
              .Add("rank", record.rank())
              .Add("node", record.node())
              .Add("stream", record.stream() == v1::LOG_STREAM_STDERR ? "stderr" : "stdout")
              .OpenAt("time_us");
      return stream;
    }
    const bool color = stream.to_stderr ? terminal_.color_err : terminal_.color_out;
    stream.prefix = StrCat(color ? kRankColors[record.rank() % std::size(kRankColors)] : "", "[",
                           stream.node, ":", record.rank(), "]", color ? "\033[0m" : "", " ");
  }
  return stream;
}

void LogPrinter::Write(const v1::LogRecord& record) {
  std::lock_guard lock(mutex_);
  if (!record.notice().empty()) {
    FlushFold();
    if (!options_.raw) common::StrAppend(&err_, "-- ", common::Printable(record.notice()), "\n");
  } else if (share_.has_value() && !record.has_searched_to()) {
    Search(record);
  } else {
    Show(record);
  }
  Flush();
}

void LogPrinter::Search(const v1::LogRecord& record) {
  Stream& stream = Of(record);
  const bool has_gap = record.dropped() + record.damaged() > 0;
  v1::LogRecord like = record;
  like.clear_data();
  like.clear_end();
  like.set_searched_to(0);
  std::deque<common::FoundLines> found;
  if (stream.search == nullptr) {
    stream.search = std::make_unique<common::LineSearch>(*share_, record.offset());
  } else if (has_gap) {
    stream.search->Run(std::string(stream.search->Kept()), {}, true, found);
    stream.search->SkipTo(record.offset());
  }
  const std::string text = StrCat(stream.search->Kept(), record.data());
  stream.search->Run(text, {{stream.search->Kept().size(), record.time_us()}}, record.end(), found);
  ShowFound(like, std::move(found));
  stream.matches += options_.query.count_only ? stream.search->TakeCount() : 0;
  if (record.end()) first_error_.Ended({record.attempt(), record.rank(), record.stream()});
}

void LogPrinter::ShowFound(v1::LogRecord like, std::deque<common::FoundLines> found) {
  if (found.empty() && like.dropped() + like.damaged() > 0) Show(like);
  for (common::FoundLines& lines : found) {
    like.set_offset(lines.offset);
    like.set_time_us(lines.time_us);
    like.set_data(std::move(lines.bytes));
    Show(like);
    like.set_dropped(0);
    like.set_damaged(0);
  }
}

void LogPrinter::TellLosses(const v1::LogRecord& record) {
  const std::string where =
      StrCat("-- rank ", record.rank(), " on ", common::Printable(record.node()), ": ");
  if (record.dropped() > 0) {
    FlushFold();
    common::StrAppend(&err_, where, common::HumanBytes(record.dropped()), " (", record.dropped(),
                      record.over_quota() ? " bytes) of older output removed here: the job has "
                                            "reached its log quota (logs_keep, --job-log-quota)\n"
                                          : " bytes) of output dropped here: its spool was full\n");
  }
  if (record.damaged() > 0) {
    FlushFold();
    common::StrAppend(&err_, where, record.damaged(),
                      " bytes of output are damaged on the coordinator's disk\n");
  }
}

void LogPrinter::EndOpenLines(const Key& key, Stream& stream, int64_t time_us) {
  stream.bar_shown_us = 0;
  for (const std::string& line : stream.open.Take()) Line(key, stream, line, time_us);
}

// Between groups of lines with context, as grep does.
void LogPrinter::Separate(const Key& key, const Stream& stream, const v1::LogRecord& record) {
  if (options_.query.lines_before + options_.query.lines_after == 0 || options_.first_error) return;
  if (record.data().empty()) return;
  const bool follows = last_shown_ == key && stream.next_offset == record.offset();
  if (last_shown_.has_value() && !follows && !options_.json_lines) {
    FlushFold();
    out_ += "--\n";
  }
  last_shown_ = key;
}

void LogPrinter::Show(const v1::LogRecord& record) {
  const Key key{record.attempt(), record.rank(), record.stream()};
  Stream& stream = Of(record);
  TellLosses(record);
  const bool is_found = share_.has_value();
  if (is_found && !record.data().empty() && stream.next_offset != record.offset()) {
    EndOpenLines(key, stream, stream.last_us);
    stream.in_order = false;
  }
  if (is_found) Separate(key, stream, record);
  stream.last_us = record.time_us();
  stream.matches += record.matches();
  if (options_.raw) {
    (stream.to_stderr ? err_ : out_).append(record.data());
  } else {
    WriteLines(key, stream, record);
    if (record.end()) EndOpenLines(key, stream, stream.last_us);
  }
  if (!record.data().empty()) stream.next_offset = record.offset() + record.data().size();
  if (record.end()) first_error_.Ended(key);
}

void LogPrinter::WriteLines(const Key& key, Stream& stream, const v1::LogRecord& record) {
  std::string_view data = record.data();
  while (!data.empty()) {
    const size_t end = data.find('\n');
    const std::string_view piece = data.substr(0, end);
    if (end == std::string_view::npos) {
      stream.open.Append(piece);
      break;
    }
    data.remove_prefix(end + 1);
    if (stream.open.Passes(piece)) {
      Line(key, stream, piece, record.time_us());
      continue;
    }
    stream.open.Append(piece);
    if (stream.open.AtBottom()) {
      EndOpenLines(key, stream, record.time_us());
    } else {
      stream.open.MoveDown();
    }
  }
  if (stream.open.HasBar()) BarChanged(key, stream, record.time_us());
  if (stream.open.Bytes() > kPartialBytesMax) EndOpenLines(key, stream, record.time_us());
}

void LogPrinter::BarChanged(const Key& key, Stream& stream, int64_t time_us) {
  if (ShowsBars(stream)) {
    if (!bars_due_ms_.has_value()) bars_due_ms_ = common::MonotonicMs() + kBarsEveryMs;
    StartWatch();
    return;
  }
  if (!options_.follows || IsTty(stream.to_stderr)) return;
  if (stream.bar_shown_us == 0) stream.bar_shown_us = time_us;
  if (time_us - stream.bar_shown_us < kBarInPipeUs) return;
  stream.bar_shown_us = time_us;
  for (const std::string& row : stream.open.rows()) {
    if (!StateOf(row).empty()) Line(key, stream, row, time_us);
  }
}

std::string LogPrinter::StateOf(std::string_view line) const {
  if (!share_.has_value()) return ShownState(line);
  return ShownState(line, [this](std::string_view state) {
    common::LevelTracker levels;
    return share_->matcher->Wants(state, levels);
  });
}

void LogPrinter::Line(const Key& key, Stream& stream, std::string_view line, int64_t time_us) {
  std::string state;
  if (!options_.json_lines && IsRedrawn(line)) line = state = StateOf(line);
  if (options_.first_error) {
    first_error_.Add(key, line, time_us, std::exchange(stream.in_order, true));
    return;
  }
  FoldedLine shown{.prefix = stream.prefix,
                   .to_stderr = stream.to_stderr,
                   .time_us = time_us,
                   .attempt = std::get<0>(key),
                   .ranks = {std::get<1>(key)}};
  if ((stream.to_stderr ? terminal_.color_err : terminal_.color_out) &&
      line.find('\033') == std::string_view::npos) {
    const common::LineLevel level = stream.levels.Next(line);
    if (level == common::LineLevel::kWarn) shown.color = kWarnColor;
    if (level >= common::LineLevel::kError) shown.color = kErrorColor;
  }
  shown.text = line;
  std::vector<FoldedLine> due;
  if (fold_.has_value() && IsTty(stream.to_stderr)) {
    fold_->Add(std::move(shown), common::MonotonicMs(), &due);
    StartWatch();
  } else {
    due.push_back(std::move(shown));
  }
  Print(due);
}

void LogPrinter::Print(const std::vector<FoldedLine>& lines) {
  for (const FoldedLine& folded : lines) {
    std::string& target = folded.to_stderr ? err_ : out_;
    // On one terminal, lines of both streams keep their order.
    if (!(folded.to_stderr ? out_ : err_).empty()) WriteOut();
    if (options_.json_lines) {
      common::StrAppend(&target, folded.prefix, folded.time_us, kLineMember,
                        common::JsonQuote(folded.text), "}\n");
      continue;
    }
    if (options_.timestamps) common::StrAppend(&target, ClockTime(folded.time_us / 1000), " ");
    if (folded.ranks.size() == 1) {
      target += folded.prefix;
    } else {
      common::StrAppend(&target, RanksText(folded.ranks, fold_ranks_), " ");
    }
    std::string_view line = folded.text;
    target += folded.color;
    if (IsTty(folded.to_stderr)) {
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      target += TerminalSafe(line, folded.to_stderr ? terminal_.color_err : terminal_.color_out);
    } else {
      target.append(line);
    }
    if (!folded.color.empty()) target += "\033[0m";
    target += '\n';
  }
}

void LogPrinter::FlushFold() {
  if (!fold_.has_value()) return;
  std::vector<FoldedLine> lines;
  fold_->Flush(&lines);
  Print(lines);
}

void LogPrinter::PrintCounts() {
  struct Rank {
    std::string prefix;
    uint64_t matches = 0;
  };
  std::map<uint32_t, Rank> ranks;
  uint64_t all = 0;
  for (const auto& [key, stream] : streams_) {
    if (stream.matches == 0) continue;
    Rank& rank = ranks[std::get<1>(key)];
    rank.prefix = stream.prefix;
    rank.matches += stream.matches;
    all += stream.matches;
  }
  for (const auto& [number, rank] : ranks) {
    common::StrAppend(&out_, rank.prefix, rank.matches, "\n");
  }
  common::StrAppend(&out_, "total ", all, "\n");
}

void LogPrinter::PrintFirstError() {
  if (!first_error_.Found()) return;
  const auto& [attempt, rank, stream] = first_error_.Where();
  const Stream& from = streams_.at(first_error_.Where());
  common::StrAppend(&out_, "first error: rank ", rank, " on ", from.node, ", attempt ", attempt,
                    ", ", ClockTime(first_error_.TimeUs() / 1000), "\n");
  for (const FirstError::Line& line : first_error_.Lines()) {
    const bool color = line.is_error && terminal_.color_out;
    common::StrAppend(&out_, from.prefix, color ? kErrorColor : "",
                      terminal_.out_is_tty ? TerminalSafe(line.text, false) : line.text,
                      color ? "\033[0m" : "", "\n");
  }
}

void LogPrinter::Finish() {
  std::lock_guard lock(mutex_);
  for (auto& [key, stream] : streams_) {
    if (stream.search != nullptr && stream.search->HasOpenLine()) {
      v1::LogRecord like;
      like.set_attempt(std::get<0>(key));
      like.set_rank(std::get<1>(key));
      like.set_stream(static_cast<v1::LogStream>(std::get<2>(key)));
      like.set_searched_to(0);
      std::deque<common::FoundLines> found;
      stream.search->Run(std::string(stream.search->Kept()), {}, true, found);
      ShowFound(like, std::move(found));
      stream.matches += options_.query.count_only ? stream.search->TakeCount() : 0;
    }
    EndOpenLines(key, stream, stream.last_us);
  }
  FlushFold();
  if (options_.query.count_only) PrintCounts();
  if (options_.first_error) PrintFirstError();
  Flush();
}

}  // namespace muster::client
