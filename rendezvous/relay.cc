#include "rendezvous/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/text/strings.h"
#include "rendezvous/notes.h"

namespace muster::rendezvous {
namespace {

constexpr int64_t kDialPauseMaxMs = 1'000;
// How long ranks wait before they learn that the store is gone.
constexpr int64_t kClosesAfterMs = 3'000;

std::string_view One(const char& byte) { return {&byte, 1}; }

bool ParseAddress(const std::string& host, uint16_t port, sockaddr_storage* address,
                  socklen_t* size) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(address);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(address);
  *address = {};
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    *size = sizeof *v4;
    return true;
  }
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  *size = sizeof *v6;
  return true;
}

}  // namespace

// Connects to the root, again and again until it listens: its node may be slower than ours.
class Relay::Dial final : public Loop::Source {
 public:
  explicit Dial(Relay& relay) : relay_(relay) {}
  ~Dial() override { Give(); }

  void Try() {
    if (socket_.valid()) return;
    sockaddr_storage address;
    socklen_t size = 0;
    if (!ParseAddress(relay_.setup_.host, relay_.setup_.port, &address, &size)) {
      return Note("the store's address is not an IP address", relay_.setup_.host);
    }
    socket_ =
        common::UniqueFd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_.valid()) return;
    const int done = connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), size);
    if (done != 0 && errno != EINPROGRESS) return socket_.Reset();
    relay_.loop_.Watch(socket_.get(), EPOLLOUT, this);
  }

  void OnEvents(uint32_t) override {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    common::UniqueFd connected = Give();
    if (error != 0) return;
    Relay& relay = relay_;
    relay.link_ = std::make_unique<Link>(
        relay.loop_, std::move(connected), false, relay.setup_.secret,
        Link::Handler{
            .opened = [&relay] { relay.Out(); },
            .frame = [&relay](Frame kind, std::string_view fields) { relay.OnFrame(kind, fields); },
            .closed = [&relay](std::string_view why) { relay.OnLost(why); }});
    relay.link_->Out().append(std::exchange(relay.before_, {}));
  }

 private:
  common::UniqueFd Give() {
    if (socket_.valid()) relay_.loop_.Forget(socket_.get(), this);
    return std::move(socket_);
  }

  Relay& relay_;
  common::UniqueFd socket_;
};

Relay::Relay(Loop& loop, Setup setup, common::RankAtStore* status, std::function<void()> lost)
    : loop_(loop),
      setup_(std::move(setup)),
      clients_(loop, *this, status),
      lost_(std::move(lost)),
      dial_(std::make_unique<Dial>(*this)) {}

Relay::~Relay() = default;

std::string& Relay::Out() { return link_ != nullptr ? link_->Out() : before_; }

void Relay::Tick(int64_t now_ms) {
  if (link_ == nullptr) {
    dial_->Try();
    loop_.TickIn(dial_pause_ms_);
    dial_pause_ms_ = std::min(2 * dial_pause_ms_, kDialPauseMaxMs);
  }
  clients_.Tick(now_ms);
  now_ms_ = now_ms;
  if (lost_ms_ != 0 && now_ms - lost_ms_ >= kClosesAfterMs) lost_();
  if (link_ == nullptr || !link_->IsOpen()) return;
  const Clients::Counts counts = clients_.Count();
  FrameWriter(&Out(), Frame::kCounts).Number(counts.exited).Number(counts.stuck);
}

// What ended the store is the cause, and its node tells it meanwhile.
void Relay::OnLost(std::string_view why) {
  lost_ms_ = now_ms_;
  Note(common::StrCat("the connection to the store at ", setup_.host, ":", setup_.port, " is lost"),
       why);
}

uint64_t Relay::Send(Sent sent, std::string_view raw) {
  const uint64_t number = ++last_number_;
  for (const std::string& key : sent.writes) BeginWrite(key);
  sent_[number] = std::move(sent);
  FrameWriter(&Out(), Frame::kAsk).Number(number).Rest(raw);
  return number;
}

void Relay::Ask(ClientId client, const Request& request, std::string_view raw) {
  switch (request.op) {
    case Op::kGet:
      Get(client, {request.key});
      break;
    case Op::kMultiGet:
      Get(client, request.keys);
      break;
    case Op::kWait:
      Wait(client, request);
      break;
    case Op::kAdd:
      Add(client, request);
      break;
    case Op::kBarrier:
      Arrive(client, request);
      break;
    case Op::kCheck:
      if (std::all_of(request.keys.begin(), request.keys.end(),
                      [this](std::string_view key) { return kept_.contains(key); })) {
        clients_.Answer(client, One(kAllThere));
        break;
      }
      [[fallthrough]];
    default:
      Forward(client, request, raw);
  }
  PassTurn(client, false);
}

void Relay::Forward(ClientId client, const Request& request, std::string_view raw) {
  Sent sent;
  sent.client = client;
  if (request.op == Op::kSet || request.op == Op::kAppend || request.op == Op::kCompareSet ||
      request.op == Op::kDelete) {
    sent.writes.emplace_back(request.key);
  }
  if (request.op == Op::kMultiSet) sent.writes.assign(request.keys.begin(), request.keys.end());
  Send(std::move(sent), raw);
}

void Relay::Get(ClientId client, const std::vector<std::string_view>& keys) {
  if (keys.size() == 1) {
    if (const auto kept = kept_.find(keys[0]); kept != kept_.end()) {
      std::string answer;
      AppendText(&answer, kept->second);
      return clients_.Answer(client, answer);
    }
  }
  if (keys.empty()) return;  // nothing is answered to an empty list
  const uint64_t id = ++last_number_;
  Fetch& fetch = fetches_[id];
  fetch = {.client = client, .values = std::vector<std::string>(keys.size()), .left = keys.size()};
  std::vector<std::pair<size_t, std::string>> known;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (const auto kept = kept_.find(keys[i]); kept != kept_.end()) {
      known.emplace_back(i, kept->second);
      continue;
    }
    const Wanted want{.fetch = id, .index = i};
    Sent sent{.what = Sent::What::kGet, .key = std::string(keys[i]), .want = want};
    if (!writes_.contains(keys[i])) {
      std::vector<Wanted>& all = wanted_[sent.key];
      all.push_back(want);
      if (all.size() > 1) continue;  // it is on its way
      sent.what = Sent::What::kSharedGet;
    }
    std::string raw;
    AppendGet(&raw, keys[i]);
    Send(std::move(sent), raw);
  }
  for (const auto& [index, value] : known) Provide({.fetch = id, .index = index}, value);
}

void Relay::Provide(const Wanted& wanted, std::string_view value) {
  const auto found = fetches_.find(wanted.fetch);
  if (found == fetches_.end()) return;
  Fetch& fetch = found->second;
  fetch.values[wanted.index] = value;
  if (--fetch.left > 0) return;
  std::string answer;
  for (const std::string& each : fetch.values) AppendText(&answer, each);
  const ClientId client = fetch.client;
  fetches_.erase(found);
  clients_.Answer(client, answer);
}

void Relay::Wait(ClientId client, const Request& request) {
  Waits waits;
  for (const std::string_view key : request.keys) {
    if (!kept_.contains(key)) waits.keys.emplace_back(key);
  }
  waits.left = waits.keys.size();
  if (waits.left == 0) return clients_.Answer(client, One(kGoOn));
  for (const std::string& key : waits.keys) {
    std::deque<ClientId>& all = watched_[key];
    all.push_back(client);
    if (all.size() == 1) FrameWriter(&Out(), Frame::kWatch).Text(key);
  }
  waits_[client] = std::move(waits);
}

void Relay::Add(ClientId client, const Request& request) {
  const std::string key(request.key);
  Additions& additions = additions_[key];
  additions.next.emplace_back(client, request.number);
  if (!additions.is_under_way) SendAdditions(key, &additions);
}

void Relay::SendAdditions(const std::string& key, Additions* additions) {
  int64_t amount = 0;
  std::vector<std::pair<ClientId, int64_t>> rest;
  additions->sent.clear();
  for (auto& each : additions->next) {
    // One whose sum would not fit goes alone, and is refused if it is too large.
    int64_t sum = 0;
    if (!rest.empty() || __builtin_add_overflow(amount, each.second, &sum)) {
      rest.push_back(each);
      continue;
    }
    amount = sum;
    additions->sent.push_back(each);
  }
  additions->next = std::move(rest);
  additions->is_under_way = true;
  Sent sent{.what = Sent::What::kAdditions, .key = key, .writes = {key}};
  std::string raw;
  AppendAdd(&raw, key, amount);
  Send(std::move(sent), raw);
}

void Relay::OnSum(const std::string& key, int64_t sum) {
  const auto found = additions_.find(key);
  if (found == additions_.end()) return;
  const auto sent = std::exchange(found->second.sent, {});
  found->second.is_under_way = false;
  // Each gets the sum as it was after its own addition.
  uint64_t after = static_cast<uint64_t>(sum);
  for (const auto& [client, amount] : sent) after -= static_cast<uint64_t>(amount);
  std::vector<std::pair<ClientId, std::string>> answers;
  for (const auto& [client, amount] : sent) {
    after += static_cast<uint64_t>(amount);
    AppendNumber(&answers.emplace_back(client, "").second, after);
  }
  if (found->second.next.empty()) {
    additions_.erase(found);
  } else {
    SendAdditions(key, &found->second);
  }
  for (const auto& [client, answer] : answers) clients_.Answer(client, answer);
}

void Relay::Arrive(ClientId client, const Request& request) {
  const std::string key(request.key);
  Barrier& barrier = barriers_[key];
  // Ranks that need different numbers of others are not combined: it is the last one's that counts.
  barrier.world = request.number;
  barrier.next.push_back(client);
  if (!barrier.is_under_way) SendArrivals(key, &barrier);
}

void Relay::SendArrivals(const std::string& key, Barrier* barrier) {
  const uint64_t number = ++last_number_;
  BeginWrite(key);
  sent_[number] = {.what = Sent::What::kArrivals, .key = key, .writes = {key}};
  FrameWriter(&Out(), Frame::kArrive)
      .Number(number)
      .Text(key)
      .Number(static_cast<uint64_t>(barrier->world))
      .Number(barrier->next.size());
  for (const ClientId client : barrier->next) barrier->waiting.push_back(client);
  barrier->next.clear();
  barrier->is_under_way = true;
}

void Relay::OnArrived(const std::string& key, bool is_complete) {
  const auto found = barriers_.find(key);
  if (found == barriers_.end()) return;
  found->second.is_under_way = false;
  if (is_complete) OnPassed(key);
  const auto left = barriers_.find(key);
  if (left != barriers_.end() && !left->second.next.empty()) SendArrivals(key, &left->second);
}

void Relay::OnPassed(std::string_view key) {
  const auto found = barriers_.find(key);
  if (found == barriers_.end()) return;
  const std::deque<ClientId> passed = std::exchange(found->second.waiting, {});
  if (found->second.next.empty() && !found->second.is_under_way) barriers_.erase(found);
  for (const ClientId client : passed) clients_.Answer(client, One(kGoOn));
}

// What the client sent meanwhile is carried out all the same; only its wait is over.
void Relay::Abandon(ClientId client) {
  PassTurn(client, true);
  for (auto each = barriers_.begin(); each != barriers_.end(); ++each) {
    std::erase(each->second.waiting, client);
  }
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  const std::vector<std::string> keys = std::move(found->second.keys);
  waits_.erase(found);
  for (const std::string& key : keys) {
    const auto watched = watched_.find(key);
    if (watched == watched_.end()) continue;
    std::erase(watched->second, client);
    if (!watched->second.empty()) continue;
    watched_.erase(watched);
    FrameWriter(&Out(), Frame::kUnwatch).Text(key);
  }
}

void Relay::OnFrame(Frame kind, std::string_view bytes) {
  FrameReader fields(bytes);
  switch (kind) {
    case Frame::kAnswer:
      return OnAnswer(fields);
    case Frame::kThere:
      return OnThere(fields);
    case Frame::kOutdated:
      Drop(fields.Text());
      FrameWriter(&Out(), Frame::kDropped);
      return;
    case Frame::kPassed:
      return OnPassed(fields.Text());
    case Frame::kRefused:
      return OnRefused(fields);
    case Frame::kEnd:
      return clients_.EndWaits();
    default:
      return;  // of a newer root
  }
}

void Relay::OnAnswer(FrameReader fields) {
  const auto found = sent_.find(fields.Number());
  if (found == sent_.end()) return;
  const bool may_keep = fields.Byte() == kMayKeep;
  const std::string_view answer = fields.Rest();
  const Sent sent = std::move(found->second);
  sent_.erase(found);
  for (const std::string& key : sent.writes) EndWrite(key);
  switch (sent.what) {
    case Sent::What::kForwarded:
      if (!answer.empty()) clients_.Answer(sent.client, answer);
      break;
    case Sent::What::kSharedGet:
    case Sent::What::kGet:
      OnValue(sent, may_keep, answer);
      break;
    case Sent::What::kAdditions:
      OnSum(sent.key, static_cast<int64_t>(FrameReader(answer).Number()));
      break;
    case Sent::What::kArrivals:
      OnArrived(sent.key, !answer.empty() && answer[0] == kGoOn);
      break;
  }
}

void Relay::OnValue(const Sent& sent, bool may_keep, std::string_view answer) {
  FrameReader text(answer);
  const std::string value(text.Text());
  if (may_keep) Keep(sent.key, value);
  if (sent.what == Sent::What::kGet) return Provide(sent.want, value);
  const auto wanted = wanted_.find(sent.key);
  if (wanted == wanted_.end()) return;
  const std::vector<Wanted> wants = std::move(wanted->second);
  wanted_.erase(wanted);
  for (const Wanted& want : wants) Provide(want, value);
}

void Relay::OnRefused(FrameReader fields) {
  const auto found = sent_.find(fields.Number());
  if (found == sent_.end()) return;
  const std::string why(fields.Text());
  const Sent sent = std::move(found->second);
  sent_.erase(found);
  for (const std::string& key : sent.writes) EndWrite(key);
  std::vector<ClientId> refused = {sent.client};
  const bool adds = sent.what == Sent::What::kAdditions;
  if (const auto added = additions_.find(sent.key); adds && added != additions_.end()) {
    for (const auto& [client, amount] : added->second.sent) refused.push_back(client);
    for (const auto& [client, amount] : added->second.next) refused.push_back(client);
    additions_.erase(added);
  }
  const bool arrives = sent.what == Sent::What::kArrivals;
  if (const auto at = barriers_.find(sent.key); arrives && at != barriers_.end()) {
    refused.insert(refused.end(), at->second.waiting.begin(), at->second.waiting.end());
    refused.insert(refused.end(), at->second.next.begin(), at->second.next.end());
    barriers_.erase(at);
  }
  for (const ClientId client : refused) clients_.Refuse(client, why);
}

void Relay::Ready(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end() || --found->second.left > 0) return;
  waits_.erase(found);
  clients_.Answer(client, One(kGoOn));
}

void Relay::OnThere(FrameReader fields) {
  const std::string key(fields.Text());
  const uint8_t kind = fields.Byte();
  if (kind == kMayKeep) Keep(key, fields.Rest());
  const auto found = watched_.find(key);
  if (found == watched_.end()) {
    if (kind == kIsQueue) FrameWriter(&Out(), Frame::kDecline).Text(key);
    return;
  }
  std::deque<ClientId> waiting = std::move(found->second);
  watched_.erase(found);
  if (kind == kIsQueue) {
    const ClientId first = waiting.front();
    waiting.pop_front();
    if (!waiting.empty()) watched_[key] = std::move(waiting);
    queue_turns_[first] = key;
    return Ready(first);
  }
  for (const ClientId client : waiting) Ready(client);
}

void Relay::PassTurn(ClientId client, bool is_gone) {
  const auto found = queue_turns_.find(client);
  if (found == queue_turns_.end()) return;
  const std::string key = std::move(found->second);
  queue_turns_.erase(found);
  if (is_gone) FrameWriter(&Out(), Frame::kDecline).Text(key);
  if (watched_.contains(key)) FrameWriter(&Out(), Frame::kWatchOn).Text(key);
}

void Relay::Keep(std::string_view key, std::string_view value) {
  if (writes_.contains(key) || kept_bytes_ + key.size() + value.size() > kKeptBytesMax) return;
  const auto [kept, is_new] = kept_.try_emplace(std::string(key), value);
  if (is_new) kept_bytes_ += key.size() + value.size();
}

void Relay::Drop(std::string_view key) {
  const auto found = kept_.find(key);
  if (found == kept_.end()) return;
  kept_bytes_ -= found->first.size() + found->second.size();
  kept_.erase(found);
}

void Relay::BeginWrite(std::string_view key) {
  ++writes_[std::string(key)];
  Drop(key);
}

void Relay::EndWrite(std::string_view key) {
  const auto found = writes_.find(key);
  if (found != writes_.end() && --found->second == 0) writes_.erase(found);
}

}  // namespace muster::rendezvous
