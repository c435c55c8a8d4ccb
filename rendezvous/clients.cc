#include "rendezvous/clients.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/kernel/process.h"
#include "rendezvous/notes.h"
#include "rendezvous/peer_account.h"

namespace muster::rendezvous {
namespace {

// limit: rendezvous: connections of a rank; further ones are closed
constexpr uint32_t kConnectionsPerRankMax = 4'096;
// A rank is stuck if it has waited for this long and done nothing that could end another's wait.
constexpr int64_t kStuckAfterMs = 10'000;
// How long a wait that is ended stays marked in the status before its connection is closed.
constexpr int64_t kMarkedMs = 5'000;

bool MayEndAWait(Op op) {
  return op != Op::kGet && op != Op::kCheck && op != Op::kCount && op != Op::kMultiGet &&
         op != Op::kLength && op != Op::kList && op != Op::kWait && op != Op::kBarrier;
}

}  // namespace

class Clients::Client final : public Stream::Reader {
 public:
  Client(Clients& all, ClientId id, uint32_t index, common::UniqueFd fd)
      : all_(all), id_(id), index_(index) {
    stream_ = std::make_unique<Stream>(all.loop_, std::move(fd), kRequestBytesMax, *this);
  }

  size_t OnBytes(std::string_view bytes) override;
  void OnClosed(std::string_view why) override { all_.Closed(*this, why); }

  void Answer(std::string_view answer) {
    stream_->Write(answer);
    is_asking_ = false;
    is_waiting_ = false;
    if (!is_reading_) stream_->Resume();
  }
  void Close() { stream_->Close(); }
  ClientId id() const { return id_; }
  uint32_t index() const { return index_; }
  bool is_waiting() const { return is_waiting_; }
  int64_t since_ms() const { return since_ms_; }
  const std::string& key() const { return key_; }
  uint64_t keys() const { return keys_; }
  bool at_barrier() const { return at_barrier_; }

 private:
  bool Take(const Request& request, std::string_view raw);
  void NoteWait(const Request& request);

  Clients& all_;
  const ClientId id_;
  const uint32_t index_;
  std::unique_ptr<Stream> stream_;
  RequestReader reader_;
  Request request_;
  bool is_valid_ = false;
  bool is_asking_ = false;   // an answer is due
  bool is_waiting_ = false;  // … to a wait or a barrier
  bool is_reading_ = false;
  // Of the wait.
  int64_t since_ms_ = 0;
  std::string key_;
  uint64_t keys_ = 0;
  bool at_barrier_ = false;
};

size_t Clients::Client::OnBytes(std::string_view bytes) {
  size_t taken = 0;
  is_reading_ = true;
  while (!stream_->IsClosed() && taken < bytes.size()) {
    const bool may_cancel = is_waiting_ && bytes[taken] == static_cast<char>(Op::kCancelWait);
    if (is_asking_ && !may_cancel) break;
    const std::string_view rest = bytes.substr(taken);
    const RequestReader::Outcome outcome = reader_.Read(rest, &request_);
    if (outcome == RequestReader::Outcome::kPartial) break;
    if (outcome == RequestReader::Outcome::kBad) {
      all_.Refuse(id_, reader_.Why());
      break;
    }
    taken += reader_.Used();
    if (!Take(request_, rest.substr(0, reader_.Used()))) break;
  }
  is_reading_ = false;
  return taken;
}

bool Clients::Client::Take(const Request& request, std::string_view raw) {
  if (!is_valid_) {
    is_valid_ = request.op == Op::kValidate && static_cast<uint32_t>(request.number) == kMagic;
    if (!is_valid_) {
      all_.Refuse(id_, "it is not a client of torch's TCPStore");
      return false;
    }
    all_.Joined(index_);
    return true;
  }
  switch (request.op) {
    case Op::kValidate:
      return true;
    case Op::kPing:
      stream_->Write(raw.substr(1));
      return true;
    case Op::kCancelWait:
      if (is_waiting_) {
        all_.backend_.Abandon(id_);
        Answer(std::string_view(&kCanceled, 1));
      } else {
        stream_->Write(std::string_view(&kCanceled, 1));
      }
      return true;
    default:
      break;
  }
  if (MayEndAWait(request.op)) all_.ranks_[index_].wrote_ms = all_.now_ms_;
  is_asking_ = request.IsAnswered();
  if (request.op == Op::kWait || request.op == Op::kBarrier) NoteWait(request);
  all_.backend_.Ask(id_, request, raw);
  return !stream_->IsClosed();
}

void Clients::Client::NoteWait(const Request& request) {
  is_waiting_ = true;
  at_barrier_ = request.op == Op::kBarrier;
  since_ms_ = all_.now_ms_;
  keys_ = at_barrier_ ? 1 : request.keys.size();
  const std::string_view key = at_barrier_            ? request.key
                               : request.keys.empty() ? std::string_view()
                                                      : request.keys.back();
  key_.assign(key.substr(0, sizeof(common::RankAtStore::key)));
}

Clients::Clients(Loop& loop, Backend& backend, common::RankAtStore* status)
    : loop_(loop), backend_(backend), status_(status) {}

Clients::~Clients() = default;

void Clients::Listen(common::UniqueFd socket, uint32_t index, uint32_t account) {
  if (ranks_.size() <= index) ranks_.resize(index + 1);
  acceptors_.push_back(std::make_unique<Acceptor>(
      loop_, std::move(socket),
      [this, index, account](common::UniqueFd fd) { Admit(std::move(fd), index, account); }));
}

void Clients::Admit(common::UniqueFd fd, uint32_t index, uint32_t account) {
  const std::optional<uid_t> peer = AccountOfPeer(fd.get());
  if (!peer || (*peer != account && *peer != 0)) {
    return Note("a process that is not of the job was refused: its account is",
                peer ? std::to_string(*peer) : "not known");
  }
  if (ranks_[index].connections >= kConnectionsPerRankMax) {
    return Note("a connection was refused", "the rank has too many of them");
  }
  const ClientId id = ++last_id_;
  clients_[id] = std::make_unique<Client>(*this, id, index, std::move(fd));
  ++ranks_[index].connections;
}

void Clients::Answer(ClientId client, std::string_view answer) {
  const auto found = clients_.find(client);
  if (found != clients_.end()) found->second->Answer(answer);
}

void Clients::Refuse(ClientId client, std::string_view why) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  Client& refused = *found->second;
  refused.Close();
  Closed(refused, why);
}

namespace {

// Destroys a client at the end of the turn: it may be the caller, and events may name its stream.
template <typename Client>
class Grave final : public Loop::Source {
 public:
  explicit Grave(std::unique_ptr<Client> client) : client_(std::move(client)) {}
  void OnEvents(uint32_t) override {}

 private:
  const std::unique_ptr<Client> client_;
};

}  // namespace

void Clients::Closed(Client& client, std::string_view why) {
  const auto found = clients_.find(client.id());
  if (found == clients_.end()) return;
  std::unique_ptr<Client> closed = std::move(found->second);
  clients_.erase(found);
  --ranks_[client.index()].connections;
  if (why != kPeerClosed) Note("a connection of a rank was closed", why);
  backend_.Abandon(client.id());
  loop_.Retire(std::make_unique<Grave<Client>>(std::move(closed)));
}

void Clients::Joined(uint32_t index) {
  if (std::exchange(ranks_[index].has_joined, true)) return;
  Publish(index);
}

void Clients::RankExited(uint32_t index) {
  if (index < ranks_.size()) ranks_[index].has_exited = true;
}

void Clients::EndWaits() {
  if (end_waits_ms_ != 0) return;
  end_waits_ms_ = now_ms_ + kMarkedMs;
  if (status_ == nullptr) return;
  for (const auto& [id, client] : clients_) {
    if (client->is_waiting()) status_[client->index()].flags |= common::RankAtStore::kEnded;
  }
}

void Clients::CloseWaits() {
  end_waits_ms_ = 0;
  std::vector<Client*> waiting;
  for (const auto& [id, client] : clients_) {
    if (client->is_waiting()) waiting.push_back(client.get());
  }
  for (Client* client : waiting) {
    Refuse(client->id(),
           "no rank is left that could set the key it waits for: '" + client->key() + "'");
  }
}

void Clients::CloseAll() {
  std::vector<ClientId> all;
  for (const auto& [id, client] : clients_) all.push_back(id);
  for (const ClientId id : all) Refuse(id, kPeerClosed);
}

std::vector<const Clients::Client*> Clients::LongestWaits() const {
  std::vector<const Client*> longest(ranks_.size(), nullptr);
  for (const auto& [id, client] : clients_) {
    const Client*& known = longest[client->index()];
    if (client->is_waiting() && (known == nullptr || client->since_ms() < known->since_ms())) {
      known = client.get();
    }
  }
  return longest;
}

Clients::Counts Clients::Count() const {
  Counts counts;
  const std::vector<const Client*> longest = LongestWaits();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    if (rank.has_exited) {
      ++counts.exited;
    } else if (longest[i] != nullptr && now_ms_ - longest[i]->since_ms() >= kStuckAfterMs &&
               now_ms_ - rank.wrote_ms >= kStuckAfterMs) {
      ++counts.stuck;
    }
  }
  return counts;
}

void Clients::Publish(uint32_t index) {
  if (status_ == nullptr) return;
  const Rank& rank = ranks_[index];
  common::RankAtStore& status = status_[index];
  status.connections = rank.connections;
  if (rank.has_joined) status.flags |= common::RankAtStore::kHasJoined;
}

void Clients::Tick(int64_t now_ms) {
  now_ms_ = now_ms;
  if (end_waits_ms_ != 0 && now_ms >= end_waits_ms_) CloseWaits();
  if (status_ == nullptr) return;
  const std::vector<const Client*> longest = LongestWaits();
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    Publish(i);
    common::RankAtStore& status = status_[i];
    const Client* client = longest[i];
    const uint32_t kept =
        status.flags & (common::RankAtStore::kHasJoined | common::RankAtStore::kEnded);
    if (client == nullptr) {
      status.flags = kept;
      continue;
    }
    std::memset(status.key, 0, sizeof status.key);
    std::memcpy(status.key, client->key().data(), client->key().size());  // cut to fit
    status.keys = static_cast<uint32_t>(client->keys());
    status.waits_ms = static_cast<uint32_t>(now_ms - client->since_ms());
    status.flags = kept | common::RankAtStore::kWaits |
                   (client->at_barrier() ? common::RankAtStore::kAtBarrier : 0);
  }
}

}  // namespace muster::rendezvous
