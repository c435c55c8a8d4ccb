#include "rendezvous/root.h"

#include <algorithm>
#include <utility>

#include "rendezvous/notes.h"

namespace muster::rendezvous {
namespace {

// limit: rendezvous: milliseconds until a peer has shown the attempt's secret; it is disconnected
constexpr int64_t kHandshakeMs = 10'000;
// limit: rendezvous: connections of other nodes beyond one each; further ones are closed
constexpr size_t kSpareLinks = 64;

}  // namespace

Root::Root(Loop& loop, Setup setup, common::RankAtStore* status)
    : loop_(loop),
      setup_(std::move(setup)),
      clients_(loop, *this, status),
      outbox_(clients_, [this](LinkId id) { return LinkOf(id); }) {
  if (!setup_.network.valid()) return;
  acceptor_ = std::make_unique<Acceptor>(loop_, std::move(setup_.network),
                                         [this](common::UniqueFd fd) { Accept(std::move(fd)); });
}

Root::~Root() = default;

void Root::Accept(common::UniqueFd fd) {
  if (peers_.size() >= setup_.nodes + kSpareLinks) {
    return Note("a connection of another node was closed", "there are too many of them");
  }
  const LinkId id = ++last_link_;
  Peer& peer = peers_[id];
  peer.since_ms = now_ms_;
  peer.link = std::make_unique<Link>(
      loop_, std::move(fd), true, setup_.secret,
      Link::Handler{
          .opened = [] {},
          .frame = [this, id](Frame kind, std::string_view fields) { OnFrame(id, kind, fields); },
          .closed = [this, id](std::string_view why) { OnClosed(id, why); }});
}

void Root::OnClosed(LinkId id, std::string_view why) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  if (!found->second.link->IsOpen()) Note("a connection to the store was refused", why);
  found->second.link->Close();
  closed_.push_back(std::move(found->second.link));
  peers_.erase(found);
  values_.Forget(id);
  outbox_.Forget(id);
}

Link* Root::LinkOf(LinkId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : found->second.link.get();
}

void Root::Ask(ClientId client, const Request& request, std::string_view) {
  std::string answer;
  bool is_fine = true;
  if (request.op == Op::kWait) {
    const Values::Waiting waiting = values_.Wait(client, request.keys);
    if (waiting == Values::Waiting::kPassed) answer.push_back(kGoOn);
    is_fine = waiting != Values::Waiting::kRefused;
  } else if (request.op == Op::kBarrier) {
    const bool is_complete = values_.Arrive(request.key, request.number, 1, &is_fine);
    if (is_complete) answer.push_back(kGoOn);
    if (is_fine && !is_complete) values_.AwaitBarrier(client, request.key);
  } else {
    is_fine = values_.Execute(request, &answer);
  }
  const std::string why = is_fine ? "" : values_.Why();
  Deliver();
  if (!is_fine) {
    clients_.Refuse(client, why);
  } else if (!answer.empty()) {
    outbox_.Answer(client, answer);
  }
}

void Root::Abandon(ClientId client) {
  values_.StopWaiting(client);
  outbox_.Forget(client);
}

void Root::Deliver() {
  while (values_.HasEffects()) {
    const Values::Effects effects = values_.TakeEffects();
    for (const auto& [id, key] : effects.outdated) outbox_.Outdate(id, key);
    for (const auto& [id, key] : effects.there) TellThere(id, key);
    for (const auto& [id, key] : effects.passed) {
      FrameWriter(outbox_.To(id), Frame::kPassed).Text(key);
    }
    for (const Waiter waiter : effects.ready) {
      outbox_.Answer(waiter, std::string_view(&kGoOn, 1));
    }
  }
}

bool Root::MayHold(LinkId id, std::string_view key) const {
  return values_.MayBeHeld(key) && outbox_.MayHold(id);
}

void Root::TellThere(LinkId id, std::string_view key) {
  if (LinkOf(id) == nullptr) return;
  const bool may_hold = MayHold(id, key);
  if (may_hold) values_.Hold(id, key);
  FrameWriter(outbox_.To(id), Frame::kThere)
      .Text(key)
      .Byte(may_hold               ? kMayKeep
            : values_.IsQueue(key) ? kIsQueue
                                   : uint8_t{0})
      .Rest(may_hold ? values_.Get(key) : std::string_view());
}

void Root::OnFrame(LinkId id, Frame kind, std::string_view bytes) {
  FrameReader fields(bytes);
  switch (kind) {
    case Frame::kAsk:
      OnAsk(id, fields);
      break;
    case Frame::kWatch: {
      const std::string_view key = fields.Text();
      if (values_.Watch(id, key)) TellThere(id, key);
      break;
    }
    case Frame::kWatchOn: {
      const std::string_view key = fields.Text();
      if (values_.WatchOn(id, key)) TellThere(id, key);
      break;
    }
    case Frame::kDecline:
      values_.Decline(fields.Text());
      break;
    case Frame::kDropped:
      outbox_.Dropped(id);
      break;
    case Frame::kUnwatch:
      values_.StopWatching(id, fields.Text());
      break;
    case Frame::kArrive:
      OnArrive(id, fields);
      break;
    case Frame::kCounts: {
      Clients::Counts& counts = peers_[id].counts;
      counts.exited = static_cast<uint32_t>(fields.Number());
      counts.stuck = static_cast<uint32_t>(fields.Number());
      break;
    }
    default:
      break;  // of a newer relay
  }
  Deliver();
}

void Root::OnAsk(LinkId id, FrameReader fields) {
  if (LinkOf(id) == nullptr) return;
  const uint64_t number = fields.Number();
  RequestReader reader;
  std::string answer;
  const bool is_whole = reader.Read(fields.Rest(), &request_) == RequestReader::Outcome::kWhole;
  if (!is_whole || !values_.Execute(request_, &answer)) {
    FrameWriter(outbox_.To(id), Frame::kRefused)
        .Number(number)
        .Text(is_whole ? values_.Why() : "a message between nodes cannot be read");
    return;
  }
  // What the request itself outdates is told before its answer.
  Deliver();
  const bool may_hold = request_.op == Op::kGet && MayHold(id, request_.key);
  if (may_hold) values_.Hold(id, request_.key);
  FrameWriter(outbox_.To(id), Frame::kAnswer)
      .Number(number)
      .Byte(may_hold ? kMayKeep : uint8_t{0})
      .Rest(answer);
}

void Root::OnArrive(LinkId id, FrameReader fields) {
  if (LinkOf(id) == nullptr) return;
  const uint64_t number = fields.Number();
  const std::string_view key = fields.Text();
  const auto world = static_cast<int64_t>(fields.Number());
  const auto arrivals = static_cast<int64_t>(fields.Number());
  bool is_fine = true;
  const bool is_complete = values_.Arrive(key, world, arrivals, &is_fine);
  if (!is_fine) {
    FrameWriter(outbox_.To(id), Frame::kRefused).Number(number).Text(values_.Why());
    return;
  }
  if (!is_complete) values_.AwaitBarrier(LinkId{id}, key);
  Deliver();
  FrameWriter(outbox_.To(id), Frame::kAnswer)
      .Number(number)
      .Byte(0)
      .Byte(static_cast<uint8_t>(is_complete ? kGoOn : kCanceled));
}

// Some ranks have exited, and all others only wait: no wait can end any more.
void Root::EndHopelessWaits() {
  if (outbox_.IsWaiting()) return;  // some may have ended already
  Clients::Counts all = clients_.Count();
  for (const auto& [id, peer] : peers_) {
    all.exited += peer.counts.exited;
    all.stuck += peer.counts.stuck;
  }
  if (all.exited == 0 || all.stuck == 0 || all.exited + all.stuck < setup_.world) return;
  for (const auto& [id, peer] : peers_) {
    if (peer.link->IsOpen()) FrameWriter(&peer.link->Out(), Frame::kEnd);
  }
  clients_.EndWaits();
}

void Root::Tick(int64_t now_ms) {
  now_ms_ = now_ms;
  closed_.clear();
  std::vector<LinkId> late;
  for (const auto& [id, peer] : peers_) {
    if (!peer.link->IsOpen() && now_ms - peer.since_ms > kHandshakeMs) late.push_back(id);
  }
  for (const LinkId id : late) OnClosed(id, "it did not show the attempt's secret in time");
  outbox_.Tick(now_ms);
  clients_.Tick(now_ms);
  EndHopelessWaits();
}

}  // namespace muster::rendezvous
