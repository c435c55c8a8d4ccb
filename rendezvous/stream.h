// A connected TCP socket with buffers. Bytes that are written leave at the end of the turn, in one system call for all
// that was written in it. The loop's thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/files/files.h"
#include "rendezvous/loop.h"

namespace muster::rendezvous {

// A bound socket on which connections are accepted, some each turn. `accepted` gets them nonblocking.
class Acceptor final : public Loop::Source {
 public:
  Acceptor(Loop& loop, common::UniqueFd socket, std::function<void(common::UniqueFd)> accepted);
  ~Acceptor() override { loop_.Forget(socket_.get(), this); }
  void OnEvents(uint32_t events) override;

 private:
  Loop& loop_;
  const common::UniqueFd socket_;
  const std::function<void(common::UniqueFd)> accepted_;
};

class Stream final : public Loop::Source {
 public:
  // May close the stream, and be destroyed at the end of a turn in which it retired the stream.
  class Reader {
   public:
    virtual ~Reader() = default;
    // Returns how many bytes were taken. The others come again with the next ones.
    virtual size_t OnBytes(std::string_view bytes) = 0;
    // The peer closed it, or an error did; not after Close.
    virtual void OnClosed(std::string_view why) = 0;
  };

  // limit: rendezvous: bytes that a peer has not taken yet; the connection is closed
  static constexpr size_t kUnsentBytesMax = 256 << 20;

  // `unread_max`: how many bytes the reader may leave; more close the stream.
  Stream(Loop& loop, common::UniqueFd fd, size_t unread_max, Reader& reader);
  ~Stream() override { Close(); }

  void Write(std::string_view bytes);
  // To be appended to, instead of Write.
  std::string& Unsent();
  // Offers again what the reader has not taken, at the end of the turn.
  void Resume();
  void Close();
  bool IsClosed() const { return !fd_.valid(); }
  int fd() const { return fd_.get(); }

  void OnEvents(uint32_t events) override;
  void OnTurnEnd() override;

 private:
  void Read();
  void Offer();
  void Flush();
  void Fail(std::string_view why);

  Loop& loop_;
  common::UniqueFd fd_;
  const size_t unread_max_;
  Reader& reader_;
  std::string unread_;
  std::string unsent_;
  size_t sent_ = 0;  // of unsent_
  bool awaits_room_ = false;
  bool resumes_ = false;
};

}  // namespace muster::rendezvous
