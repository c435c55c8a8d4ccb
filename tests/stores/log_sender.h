// What tests of a log store send to it, and how they read it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <string>

#include "coordinator/logs/log_merge.h"
#include "coordinator/stores/log_store.h"
#include "tests/stores/resending_sender.h"

namespace muster::coordinator {

inline v1::LogChunk Chunk(uint32_t rank, uint64_t offset, const std::string& data,
                          int64_t time_us = 1'000, bool end = false) {
  v1::LogChunk chunk;
  chunk.set_job(1);
  chunk.set_rank(rank);
  chunk.set_stream(v1::LOG_STREAM_STDOUT);
  chunk.set_offset(offset);
  chunk.set_time_us(time_us);
  chunk.set_data(data);
  chunk.set_end(end);
  chunk.set_kept_from(0);
  return chunk;
}

class LogSender : public ResendingSender<LogUploader> {
 public:
  void Acknowledge(const v1::LogAck& ack) override {
    std::lock_guard lock(mutex_);
    last_ = ack;
    changed_.notify_all();
  }
  bool HasWithin(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return last_.durable_offset() > 0; });
  }
  // The last acknowledgement once it covers `offset` or is a refusal.
  v1::LogAck WaitFor(uint64_t offset) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return last_.durable_offset() >= offset || last_.refused(); });
    return last_;
  }

 private:
  v1::LogAck last_;
};

inline std::string ReadAll(const LogReader& reader, const v1::StreamLogsRequest& request) {
  LogMerge merge(reader, 1, request);
  do {
    EXPECT_TRUE(merge.Discover().ok());
  } while (merge.IsLooking());
  std::string text;
  while (const auto record = merge.Next()) {
    if (record->dropped() > 0)
      text += "<" + std::to_string(record->dropped()) +
              (record->over_quota() ? " over quota>" : " lost>");
    if (record->damaged() > 0) text += "<" + std::to_string(record->damaged()) + " damaged>";
    text += record->data();
  }
  return text;
}

inline v1::StreamLogsRequest Everything() {
  v1::StreamLogsRequest request;
  request.set_attempt(-1);
  return request;
}

}  // namespace muster::coordinator
