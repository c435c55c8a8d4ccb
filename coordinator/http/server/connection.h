// One client of the HTTP server, and what the server's thread knows about all of them. Only for
// server.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/none.hpp>
#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/text/strings.h"
#include "common/text/text.h"
#include "coordinator/base/fair_share.h"
#include "coordinator/http/server/answers.h"
#include "coordinator/http/server/server.h"
#include "coordinator/http/server/stream.h"
#include "coordinator/http/server/wire_head.h"
#include "coordinator/net/handshake_gate.h"
#include "coordinator/net/peer_address.h"

namespace muster::coordinator::http {

using common::StrCat;

inline constexpr size_t kBufferSlack = 64 * 1024;
inline constexpr size_t kDiscardBytesMax = 8 << 20;
inline constexpr std::string_view kSetCookie = "Set-Cookie";
inline constexpr size_t kDiscardPiece = 64 * 1024;
// The size of the first read of a connection that should be TLS: most ClientHellos are shorter.
inline constexpr size_t kGreetingPiece = 4 * 1024;
inline constexpr uint8_t kTlsHandshake = 0x16;  // the first byte of every TLS connection
// A stream that was sent this much at once may have as much again waiting.
inline constexpr size_t kBacklogBytes = 32 * 1024;

class Connection;

struct Server::Core : std::enable_shared_from_this<Server::Core> {
  struct Endpoint {
    Endpoint(asio::io_context& io, Listener from)
        : listener(std::move(from)), socket(io, listener.fd.Release()), pause(io) {}
    Listener listener;  // its descriptor is the socket's
    asio::posix::stream_descriptor socket;
    asio::steady_timer pause;
  };

  Core(Options options, Handlers handlers)
      : most(std::max<size_t>(options.connections, 2)),
        limits(options.limits),
        handlers(std::move(handlers)),
        connections({.most = most, .of_one = most}),
        streams({.most = most / 2, .of_one = most / 2}) {
    for (Listener& each : options.listeners) doors.emplace_back(io, std::move(each));
  }

  void WaitAt(Endpoint& endpoint);
  // False: accepting cannot succeed for a while.
  bool AcceptFrom(Endpoint& endpoint);
  void Admit(common::UniqueFd fd, Endpoint& endpoint);
  // Makes room for a connection from this network; empty: unknown.
  void MakeRoom(const std::string& network);
  std::shared_ptr<Connection> IdleOne(std::string_view of_network) const;
  std::shared_ptr<Connection> ToClose(const std::string& network) const;
  // Admits one more stream of this caller: true, perhaps in place of a stream of the caller that has most.
  bool TakeStream(const std::string& caller);
  // Every stream gets its news: now, or when the next round is due.
  void PullLater();
  void PullInTurn();
  void BeginRound();
  void PullSome();
  // Begins the handshake of a connection whose first byte has arrived: now, or when there is room.
  void BeginHandshake(const std::shared_ptr<Connection>& connection);
  void EndHandshake(HandshakeGate::Id id);
  void LetIn();
  bool MayShakeHands(const Connection& connection);

  const size_t most;
  const TimeLimits limits;
  const Handlers handlers;
  std::atomic<size_t> open_count = 0;
  std::atomic<uint64_t> accepted = 0;
  std::atomic<uint64_t> turned_away = 0;
  std::atomic<uint64_t> timed_out = 0;

  // Used only on the server's thread.
  asio::io_context io{1};
  std::list<Endpoint> doors;
  std::list<std::shared_ptr<Connection>> open;  // the most recently used one is at the end
  FairShare connections;                        // by network
  FairShare held_bytes{{.most = kHeldBytesMax, .of_one = kHeldBytesMax / 4}};
  FairShare streams;
  std::atomic<bool> is_woken = false;  // a round is on its way
  asio::steady_timer pull_pause{io};
  std::chrono::steady_clock::time_point next_pull;
  std::deque<std::weak_ptr<Connection>> round;  // those still to be served in it
  asio::steady_timer breath{io};
  HandshakeGate gate;
  HandshakeGate::Id last_handshake = 0;
  // Connections that wait for their handshake. The newest first: one that has waited long may be one of
  // many that never meant to finish.
  std::list<std::weak_ptr<Connection>> held;
  asio::steady_timer held_pause{io};
  std::thread thread;
};

// One client. Reads a head, asks whether to continue, reads the body, waits for the answer, writes it,
// and repeats. The server's thread; kept alive by what it waits for and by the list of open ones.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Core = Server::Core;

  // `tls`: null for a connection that is not encrypted.
  Connection(Core& core, Stream::Plain::socket_type socket, Peer peer, TlsContext tls)
      : core_(core),
        stream_(std::move(socket), core.handlers.before_sending),
        peer_(std::move(peer)),
        network_(NetworkOf(peer_.principal)),
        tls_(std::move(tls)),
        patience_(core.io) {}

  void Begin(std::list<std::shared_ptr<Connection>>::iterator place) {
    place_ = place;
    caller_ = network_;
    core_.connections.Take(network_);
    // One limit for the handshake and the first head together.
    begun_until_ = std::chrono::steady_clock::now() + core_.limits.first_head;
    stream_.ExpireAt(begun_until_);
    if (tls_ == nullptr) return ReadHead();
    ReadGreeting();
  }
  // Sends a stream's pending text, unless it is still sending. False: nothing to send.
  bool Pull() {
    if (source_ == nullptr || is_closed_) return false;
    has_missed_ = !outgoing_.empty();
    if (has_missed_) return false;
    if (source_->IsOver()) {
      Close();
      return false;
    }
    std::string text = source_->Take();
    if (text.empty()) return false;
    Send(std::move(text));
    return true;
  }
  bool IsIdle() const { return is_idle_; }
  bool HasAsked() const { return number_ > 0; }
  bool IsClosed() const { return is_closed_; }
  bool HasLeft() { return HasClientLeft(stream_.Descriptor()); }
  // When it must have sent a request.
  std::chrono::steady_clock::time_point begun_until() const { return begun_until_; }
  const Peer& peer() const { return peer_; }
  const std::string& network() const { return network_; }
  const std::string& caller() const { return caller_; }
  bool IsStream() const { return source_ != nullptr; }
  HandshakeGate::Id handshake() const { return handshake_; }
  void ShakeHands(HandshakeGate::Id id) {
    handshake_ = id;
    stream_.BeginTls(tls_, buffer_.data(),
                     [self = shared_from_this()](error_code error, size_t taken) {
                       if (self->is_closed_) return;
                       self->core_.EndHandshake(std::exchange(self->handshake_, 0));
                       if (error) return self->Fail(error);
                       // Bytes that arrived before the handshake was over were not protected by it.
                       if (taken != self->buffer_.size()) return self->Close();
                       self->buffer_.clear();
                       self->ReadHead();
                     });
  }
  void Close() {
    if (std::exchange(is_closed_, true)) return;
    --core_.open_count;
    if (handshake_ != 0) core_.EndHandshake(std::exchange(handshake_, 0));
    stream_.Close();
    patience_.cancel();
    Hold(0);
    core_.connections.Release(network_);
    if (source_ != nullptr) core_.streams.Release(caller_);
    core_.open.erase(place_);  // may end this object once its last operation is over
  }

 private:
  void ReadGreeting() {
    is_idle_ = true;
    stream_.ReadRaw(buffer_.prepare(kGreetingPiece),
                    [self = shared_from_this()](error_code error, size_t size) {
                      if (self->is_closed_) return;
                      if (error) return self->Fail(error);
                      self->buffer_.commit(size);
                      self->Greet();
                    });
  }

  void Greet() {
    if (*static_cast<const uint8_t*>(buffer_.data().data()) != kTlsHandshake) {
      is_idle_ = false;
      return Write(Refusal(400, "this port is served with TLS, and the request is not encrypted",
                           "use https:// in the address"));
    }
    core_.BeginHandshake(shared_from_this());
  }

  // The caller has set the deadline.
  void ReadHead() {
    is_idle_ = true;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(kHeadBytesMax));
    parser_->body_limit(boost::none);  // JudgeHead limits it, once it knows the caller
    wire::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, size_t) { self->TakeHead(error); });
  }

  void TakeHead(error_code error) {
    if (is_closed_) return;
    is_idle_ = false;
    ++number_;
    if (error) return Fail(error);
    core_.open.splice(core_.open.end(), core_.open, place_);
    const auto& header = parser_->get();
    is_head_request_ = header.method() == wire::verb::head;
    keeps_alive_ = header.keep_alive();
    head_ = HeadOf(peer_, header);
    const bool has_body = parser_->content_length().value_or(0) > 0 || parser_->chunked();
    if (std::optional<Response> refused = JudgeHead(); refused.has_value()) {
      if (has_body) keeps_alive_ = false;
      return Write(*std::move(refused));
    }
    if (!has_body) return Handle("");
    Hold(static_cast<size_t>(*parser_->content_length()));
    if (FieldOf(head_.fields, "expect").empty()) return ReadBody();
    static constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kContinue, sizeof kContinue - 1),
                      [self = shared_from_this()](error_code failed, size_t) {
                        if (failed) return self->Fail(failed);
                        self->ReadBody();
                      });
  }

  std::optional<Response> JudgeHead() {
    caller_ = network_;
    if (std::optional<Response> refused = core_.handlers.check(head_); refused.has_value()) {
      return refused;
    }
    if (core_.handlers.caller) caller_ = core_.handlers.caller(head_);
    if (parser_->chunked()) {
      return Refusal(411, "the body of the request has no Content-Length", "send one");
    }
    const uint64_t length = parser_->content_length().value_or(0);
    if (length > kBodyBytesMax) {
      return Refusal(
          413, StrCat("the body of the request has ", length, " bytes, more than ", kBodyBytesMax),
          "send less");
    }
    switch (core_.held_bytes.Ask(caller_, length)) {
      case FairShare::Verdict::kRoom:
        return std::nullopt;
      case FairShare::Verdict::kFull:
        return Refusal(503,
                       StrCat("requests and responses of ", core_.held_bytes.taken(),
                              " bytes are under way already"),
                       "ask again in a moment");
      case FairShare::Verdict::kOverShare:
        break;
    }
    return OverShare(StrCat("requests and responses of ", core_.held_bytes.Of(caller_),
                            " bytes are under way for ", common::Printable(caller_)),
                     "read the pending responses, then ask again");
  }

  void ReadBody() {
    if (is_closed_) return;
    stream_.ExpireAfter(core_.limits.body);
    wire::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, size_t) {
                       if (self->is_closed_) return;
                       if (error) return self->Fail(error);
                       self->Handle(std::move(self->parser_->get().body()));
                     });
  }

  void Handle(std::string body) {
    stream_.ExpireNever();
    patience_.expires_after(core_.limits.answer);
    patience_.async_wait([weak = weak_from_this(), number = number_](error_code stopped) {
      const auto self = weak.lock();
      if (stopped || self == nullptr) return;
      self->Answer(number, Refusal(504, "the coordinator did not answer in time",
                                   "ask again; /readyz tells whether it is well"));
    });
    // A handler may answer after the server is gone.
    auto respond = [core = std::weak_ptr<Core>(core_.shared_from_this()), weak = weak_from_this(),
                    number = number_](Response response) {
      const auto alive = core.lock();
      if (alive == nullptr) return;
      asio::post(alive->io, [weak, number, response = std::move(response)]() mutable {
        if (const auto self = weak.lock()) self->Answer(number, std::move(response));
      });
    };
    core_.handlers.handle({.head = std::move(head_), .body = std::move(body)}, std::move(respond));
  }

  // Answers the request with that number; any but the first answer is too late.
  void Answer(uint64_t number, Response response) {
    if (is_closed_ || number != number_ || answered_ == number_) return;
    patience_.cancel();
    Write(std::move(response));
  }

  void Write(Response response) {
    answered_ = number_;
    if (response.stream != nullptr) return BeginStream(std::move(response));
    message_.emplace();
    message_->version(11);
    message_->result(response.status);
    message_->keep_alive(keeps_alive_);
    for (const auto& [name, value] : SecurityFields()) message_->set(name, value);
    for (const auto& [name, value] : response.fields) {
      // A response may set several cookies, and replaces the security fields that it names.
      name == kSetCookie ? message_->insert(name, value) : message_->set(name, value);
    }
    if (!response.content_type.empty()) {
      message_->set(wire::field::content_type, response.content_type);
    }
    Hold(response.body.size());
    message_->content_length(response.body.size());
    if (!is_head_request_) message_->body() = std::move(response.body);
    stream_.ExpireAfter(core_.limits.write);
    wire::async_write(stream_, *message_, [self = shared_from_this()](error_code error, size_t) {
      self->Written(error);
    });
  }

  void Written(error_code error) {
    if (is_closed_) return;
    message_.reset();
    Hold(0);
    if (error) return Fail(error);
    if (!keeps_alive_) return Linger();
    stream_.ExpireAfter(core_.limits.next_head);
    ReadHead();
  }

  // From here on the connection only sends, until the client leaves.
  void BeginStream(Response response) {
    if (!core_.TakeStream(caller_)) {
      return Write(OverShare(
          StrCat(common::Printable(caller_), " has ", core_.streams.Of(caller_), " of the ",
                 core_.streams.limits().most, " event streams that may be open"),
          "close a page, or raise the coordinator's limit of open files"));
    }
    source_ = std::move(response.stream);
    has_missed_ = true;  // everything from before
    stream_.ExpireNever();
    std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    for (const auto& [name, value] : SecurityFields())
      common::StrAppend(&head, name, ": ", value, "\r\n");
    common::StrAppend(&head, "Content-Type: ", response.content_type, "\r\n\r\n");
    Send(std::move(head));
    WatchForLeaving();
  }

  void Send(std::string text) {
    outgoing_ = std::move(text);
    patience_.expires_after(core_.limits.write);
    patience_.async_wait([weak = weak_from_this()](error_code stopped) {
      const auto self = weak.lock();
      if (stopped || self == nullptr || self->outgoing_.empty()) return;
      ++self->core_.timed_out;
      self->Close();
    });
    asio::async_write(stream_, asio::buffer(outgoing_),
                      [self = shared_from_this()](error_code error, size_t) {
                        if (self->is_closed_) return;
                        if (error) return self->Close();
                        const bool has_more = self->outgoing_.size() >= kBacklogBytes;
                        self->outgoing_.clear();
                        self->WaitForNews();
                        if (!has_more && !self->has_missed_) return self->core_.PullLater();
                        self->Pull();
                      });
  }

  // Sends a comment now and then: proxies and browsers give up on silent streams.
  void WaitForNews() {
    patience_.expires_after(core_.limits.heartbeat);
    patience_.async_wait([weak = weak_from_this()](error_code stopped) {
      const auto self = weak.lock();
      if (stopped || self == nullptr || !self->outgoing_.empty() || self->is_closed_) return;
      if (self->source_->IsOver()) return self->Close();
      self->Send(": alive\n\n");
    });
  }

  void WatchForLeaving() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(kDiscardPiece),
                            [self = shared_from_this()](error_code error, size_t) {
                              if (self->is_closed_) return;
                              if (error) return self->Close();
                              self->WatchForLeaving();
                            });
  }

  // Closing at once would discard what the client has not read yet, if it is still sending.
  void Linger() {
    is_idle_ = true;
    stream_.ExpireAfter(core_.limits.linger);
    buffer_.clear();
    stream_.EndSending([self = shared_from_this()] {
      if (!self->is_closed_) self->Discard(0);
    });
  }

  void Discard(size_t so_far) {
    stream_.ReadRaw(buffer_.prepare(kDiscardPiece),
                    [self = shared_from_this(), so_far](error_code error, size_t size) {
                      if (self->is_closed_) return;
                      if (error || so_far + size > kDiscardBytesMax) return self->Close();
                      self->Discard(so_far + size);
                    });
  }

  void Fail(error_code error) {
    if (is_closed_) return;
    if (error == beast::error::timeout) ++core_.timed_out;
    if (!IsMalformed(error)) return Close();
    keeps_alive_ = false;
    is_head_request_ = false;
    Write(RefusalOf(error));
  }

  // Sets how much of kHeldBytesMax this connection takes now.
  void Hold(size_t bytes) {
    core_.held_bytes.Release(held_by_, held_);
    held_by_ = caller_;
    held_ = bytes;
    core_.held_bytes.Take(held_by_, held_);
  }

  Core& core_;
  Stream stream_;
  const Peer peer_;
  const std::string network_;  // of the peer
  const TlsContext tls_;
  asio::steady_timer patience_;
  beast::flat_buffer buffer_{kHeadBytesMax + kBufferSlack};
  std::optional<wire::request_parser<wire::string_body>> parser_;
  std::optional<wire::response<wire::string_body>> message_;
  RequestHead head_;
  std::shared_ptr<TextSource> source_;  // set once a stream has begun
  std::string outgoing_;                // the stream's text that is being sent
  std::list<std::shared_ptr<Connection>>::iterator place_;
  std::chrono::steady_clock::time_point begun_until_;
  HandshakeGate::Id handshake_ = 0;  // in progress; 0: none
  uint64_t number_ = 0;              // of the current request, from 1
  uint64_t answered_ = 0;            // the last answered request
  std::string caller_;               // the current request uses this caller's share
  std::string held_by_;
  size_t held_ = 0;
  bool keeps_alive_ = false;
  bool is_head_request_ = false;
  bool is_idle_ = false;  // waits for a request, or for the client to leave
  bool is_closed_ = false;
  bool has_missed_ = false;  // there was a round while the stream was still sending
};

}  // namespace muster::coordinator::http
