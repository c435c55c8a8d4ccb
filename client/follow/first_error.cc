#include "client/follow/first_error.h"

#include "common/lines/error_lines.h"

namespace muster::client {
namespace {

constexpr size_t kContextLineBytes = 4096;  // kept of each preceding line, per stream

}  // namespace

void FirstError::Add(const Stream& stream, std::string_view line, int64_t time_us, bool follows) {
  if (done_) return;
  if (stream_.has_value()) {
    if (stream != *stream_) return;
    if (follows) lines_.push_back({std::string(line), time_us});
    done_ = !follows || ++after_ >= kContextLines;
    return;
  }
  std::deque<Line>& before = before_[stream];
  if (!follows) before.clear();
  if (!common::ReadsAsError(line.substr(0, kContextLineBytes))) {
    before.push_back({std::string(line.substr(0, kContextLineBytes)), time_us});
    if (before.size() > kContextLines) before.pop_front();
    return;
  }
  stream_ = stream;
  time_us_ = time_us;
  lines_.assign(before.begin(), before.end());
  lines_.push_back({std::string(line), time_us, true});
  before_.clear();
}

void FirstError::Ended(const Stream& stream) {
  if (stream_ == stream) done_ = true;
}

}  // namespace muster::client
