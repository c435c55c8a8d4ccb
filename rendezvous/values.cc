#include "rendezvous/values.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::rendezvous {
namespace {

// What an entry takes besides its bytes: so that many small ones are counted, too.
constexpr size_t kEntryBytes = 128;

// Stale tickets are swept when there are more of them than of others, and than this.
constexpr size_t kStaleLeast = 4'096;

}  // namespace

bool Values::Refuse(std::string why) {
  why_ = std::move(why);
  return false;
}

bool Values::Count(size_t more, size_t less) {
  if (bytes_ - less + more > bytes_max_) {
    return Refuse(common::StrCat("the ranks have stored ", common::HumanBytes(bytes_),
                                 ", and may store ", common::HumanBytes(bytes_max_)));
  }
  bytes_ = bytes_ - less + more;
  return true;
}

bool Values::IsThere(std::string_view key) const {
  return entries_.contains(key) || queues_.contains(key);
}

bool Values::MayBeHeld(std::string_view key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.is_fixed;
}

std::string_view Values::Get(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? std::string_view() : std::string_view(found->second.value);
}

void Values::Outdate(std::string_view key, Entry* entry) {
  entry->is_fixed = false;
  for (const LinkId link : entry->holders) effects_.outdated.emplace_back(link, key);
  std::vector<LinkId>().swap(entry->holders);
}

bool Values::Store(std::string_view key, std::string value) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    if (!Count(kEntryBytes + key.size() + value.size(), 0)) return false;
    entries_.emplace(std::string(key), Entry{.value = std::move(value), .is_fixed = true});
    Wake(key);
    return true;
  }
  if (!Count(value.size(), found->second.value.size())) return false;
  Outdate(key, &found->second);
  found->second.value = std::move(value);
  return true;
}

bool Values::Add(std::string_view key, int64_t amount, int64_t* sum) {
  const auto found = entries_.find(key);
  *sum = amount;
  if (found != entries_.end()) {
    errno = 0;
    char* end = nullptr;
    const std::string& text = found->second.value;
    const int64_t value = std::strtoll(text.c_str(), &end, 10);
    if (end == text.c_str() || errno != 0 || __builtin_add_overflow(value, amount, sum)) {
      return Refuse(common::StrCat("a number was added to the key '", key,
                                   "', whose value is not a number or becomes too large"));
    }
  }
  if (!Store(key, std::to_string(*sum))) return false;
  // It will change again, so a copy of it is not worth having.
  entries_.find(key)->second.is_fixed = false;
  return true;
}

bool Values::CompareSet(const Request& request, std::string* answer) {
  const auto found = entries_.find(request.key);
  if (found == entries_.end()) {
    if (!request.expected.empty()) {
      AppendText(answer, request.expected);
      return true;
    }
  } else if (found->second.value != request.expected) {
    AppendText(answer, found->second.value);
    return true;
  }
  if (!Store(request.key, std::string(request.value))) return false;
  AppendText(answer, request.value);
  return true;
}

int64_t Values::Delete(std::string_view key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return 0;
  Outdate(key, &found->second);
  bytes_ -= kEntryBytes + key.size() + found->second.value.size();
  entries_.erase(found);
  return 1;
}

bool Values::Push(std::string_view key, std::string_view value) {
  if (!Count(kEntryBytes + key.size() + value.size(), 0)) return false;
  Queue& queue = queues_[std::string(key)];
  queue.items.emplace_back(value);
  if (WakeOne(key)) ++queue.told;
  return true;
}

void Values::Pop(std::string_view key, std::string* answer) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) return AppendNumber(answer, 0);
  Queue& queue = found->second;
  AppendNumber(answer, queue.items.size());
  AppendText(answer, queue.items.front());
  bytes_ -= kEntryBytes + key.size() + queue.items.front().size();
  queue.items.pop_front();
  if (queue.told > 0) --queue.told;
  if (queue.items.empty()) queues_.erase(found);
}

bool Values::Execute(const Request& request, std::string* answer) {
  switch (request.op) {
    case Op::kSet:
      return Store(request.key, std::string(request.value));
    case Op::kCompareSet:
      return CompareSet(request, answer);
    case Op::kGet:
      AppendText(answer, Get(request.key));
      return true;
    case Op::kAdd: {
      int64_t sum = 0;
      if (!Add(request.key, request.number, &sum)) return false;
      AppendNumber(answer, static_cast<uint64_t>(sum));
      return true;
    }
    case Op::kCheck: {
      const bool all = std::all_of(request.keys.begin(), request.keys.end(),
                                   [this](std::string_view key) { return IsThere(key); });
      answer->push_back(all ? kAllThere : kNotAllThere);
      return true;
    }
    case Op::kCount:
      AppendNumber(answer, entries_.size());
      return true;
    case Op::kDelete:
      AppendNumber(answer, static_cast<uint64_t>(Delete(request.key)));
      return true;
    case Op::kAppend:
      return Store(request.key, common::StrCat(Get(request.key), request.value));
    case Op::kMultiGet:
      for (const std::string_view key : request.keys) AppendText(answer, Get(key));
      return true;
    case Op::kMultiSet:
      for (size_t i = 0; i < request.keys.size(); ++i) {
        if (!Store(request.keys[i], std::string(request.values[i]))) return false;
      }
      return true;
    case Op::kPush:
      return Push(request.key, request.value);
    case Op::kPop:
      Pop(request.key, answer);
      return true;
    case Op::kLength: {
      const auto found = queues_.find(request.key);
      AppendNumber(answer, found == queues_.end() ? 0 : found->second.items.size());
      return true;
    }
    case Op::kList:
      AppendNumber(answer, entries_.size());
      for (const auto& [key, entry] : entries_) AppendText(answer, key);
      return true;
    case Op::kValidate:
    case Op::kWait:
    case Op::kCancelWait:
    case Op::kPing:
    case Op::kBarrier:
      break;
  }
  return Refuse("a request that cannot come here");
}

Values::Ticket Values::Record(Waiter waiter, size_t left) {
  StopWaiting(waiter);
  pending_[++last_ticket_] = {.waiter = waiter, .left = left};
  tickets_[waiter] = last_ticket_;
  live_ += left;
  return last_ticket_;
}

void Values::List(AwaitedByKey* map, std::string_view key, Ticket ticket) {
  const auto [found, is_new] = map->try_emplace(std::string(key));
  if (is_new) bytes_ += kEntryBytes + key.size();
  found->second.tickets.push_back(ticket);
  ++listed_;
}

Values::Awaited Values::Unlist(AwaitedByKey* map, std::string_view key) {
  const auto found = map->find(key);
  if (found == map->end()) return {};
  Awaited awaited = std::move(found->second);
  bytes_ -= kEntryBytes + key.size();
  listed_ -= awaited.tickets.size();
  map->erase(found);
  return awaited;
}

// One of its keys is there.
void Values::Progress(Ticket ticket) {
  const auto found = pending_.find(ticket);
  if (found == pending_.end()) return;
  --live_;
  if (--found->second.left > 0) return;
  effects_.ready.push_back(found->second.waiter);
  tickets_.erase(found->second.waiter);
  pending_.erase(found);
}

Values::Waiting Values::Wait(Waiter waiter, const std::vector<std::string_view>& keys) {
  size_t left = 0, new_bytes = 0;
  for (const std::string_view key : keys) {
    if (IsThere(key)) continue;
    ++left;
    if (!awaited_.contains(key)) new_bytes += kEntryBytes + key.size();
  }
  if (left == 0) return Waiting::kPassed;
  if (listed_ + left > kAwaitedMax || bytes_ + new_bytes > bytes_max_) {
    Refuse("more keys are waited for than there is memory for");
    return Waiting::kRefused;
  }
  const Ticket ticket = Record(waiter, left);
  for (const std::string_view key : keys) {
    if (!IsThere(key)) List(&awaited_, key, ticket);
  }
  return Waiting::kRecorded;
}

bool Values::Arrive(std::string_view key, int64_t world, int64_t arrivals, bool* ok) {
  int64_t arrived = 0;
  *ok = Add(key, arrivals, &arrived);
  if (!*ok || arrived < world) return false;
  const Awaited passed = Unlist(&barriers_, key);
  for (const Ticket ticket : passed.tickets) Progress(ticket);
  for (const LinkId link : passed.links) effects_.passed.emplace_back(link, key);
  return true;
}

void Values::AwaitBarrier(Waiter waiter, std::string_view key) {
  List(&barriers_, key, Record(waiter, 1));
}

void Values::AwaitBarrier(LinkId link, std::string_view key) { AddLink(&barriers_, key, link); }

void Values::StopWaiting(Waiter waiter) {
  const auto found = tickets_.find(waiter);
  if (found == tickets_.end()) return;
  const auto pending = pending_.find(found->second);
  live_ -= pending->second.left;
  pending_.erase(pending);
  tickets_.erase(found);
  SweepIfStale();
}

void Values::SweepIfStale() {
  if (listed_ < 2 * live_ + kStaleLeast) return;
  for (AwaitedByKey* map : {&awaited_, &barriers_}) {
    for (auto each = map->begin(); each != map->end();) {
      const auto current = each++;
      std::erase_if(current->second.tickets,
                    [this](Ticket ticket) { return !pending_.contains(ticket); });
      if (!current->second.empty()) continue;
      bytes_ -= kEntryBytes + current->first.size();
      map->erase(current);
    }
  }
  listed_ = live_;
}

void Values::AddLink(AwaitedByKey* map, std::string_view key, LinkId link) {
  const auto [found, is_new] = map->try_emplace(std::string(key));
  if (is_new) bytes_ += kEntryBytes + key.size();
  std::vector<LinkId>& links = found->second.links;
  if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
}

bool Values::Watch(LinkId link, std::string_view key) {
  if (IsThere(key)) return true;
  AddLink(&awaited_, key, link);
  return false;
}

bool Values::WatchOn(LinkId link, std::string_view key) {
  const auto queue = queues_.find(key);
  if (queue == queues_.end() || entries_.contains(key)) return Watch(link, key);
  if (queue->second.items.size() > queue->second.told) {
    ++queue->second.told;
    return true;
  }
  AddLink(&awaited_, key, link);
  return false;
}

void Values::Decline(std::string_view key) {
  const auto queue = queues_.find(key);
  if (queue == queues_.end() || queue->second.told == 0) return;
  if (!WakeOne(key)) --queue->second.told;
}

void Values::StopWatching(LinkId link, std::string_view key) {
  const auto found = awaited_.find(key);
  if (found == awaited_.end()) return;
  std::erase(found->second.links, link);
  if (found->second.empty()) Unlist(&awaited_, key);
}

void Values::Hold(LinkId link, std::string_view key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  std::vector<LinkId>& holders = found->second.holders;
  if (std::find(holders.begin(), holders.end(), link) == holders.end()) holders.push_back(link);
}

void Values::Forget(LinkId link) {
  for (AwaitedByKey* map : {&awaited_, &barriers_}) {
    for (auto& [key, awaited] : *map) std::erase(awaited.links, link);
  }
  for (auto& [key, entry] : entries_) std::erase(entry.holders, link);
}

void Values::Wake(std::string_view key) {
  const Awaited awaited = Unlist(&awaited_, key);
  for (const Ticket ticket : awaited.tickets) Progress(ticket);
  for (const LinkId link : awaited.links) effects_.there.emplace_back(link, key);
}

// An item of a queue is for one of those that wait: a local client, else the first that waits on the node that has
// waited longest. False: none waits.
bool Values::WakeOne(std::string_view key) {
  const auto found = awaited_.find(key);
  if (found == awaited_.end()) return false;
  std::vector<Ticket>& tickets = found->second.tickets;
  while (!tickets.empty()) {
    const Ticket ticket = tickets.front();
    tickets.erase(tickets.begin());
    --listed_;
    const size_t ready = effects_.ready.size();
    Progress(ticket);
    if (effects_.ready.size() == ready) continue;
    if (found->second.empty()) Unlist(&awaited_, key);
    return true;
  }
  std::vector<LinkId>& links = found->second.links;
  const bool is_told = !links.empty();
  if (is_told) {
    effects_.there.emplace_back(links.front(), key);
    links.erase(links.begin());
  }
  if (links.empty()) Unlist(&awaited_, key);
  return is_told;
}

}  // namespace muster::rendezvous
