// Which webhook is called next. Receivers may stay silent for as long as a call may take, so no owner's may
// take all threads. Owners take turns, and so do an owner's receivers. The number of calls at once is limited
// in all, per owner, per receiver, and per owner and receiver. Pure; the keeper's thread.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/http/client.h"
#include "coordinator/base/fair_share.h"
#include "coordinator/notify/delivery.h"

namespace muster::coordinator {

class PostTurns {
 public:
  // limit: notify: webhooks called at once
  static constexpr size_t kAtOnce = 8;
  // limit: notify: the same of one owner
  static constexpr size_t kOfOwner = 2;
  // limit: notify: the same to one receiver
  static constexpr size_t kToReceiver = 4;
  static constexpr size_t kOfOwnerToReceiver = 1;

  struct Post {
    Delivery delivery;
    std::string owner;
    common::HttpCall call;
    std::string Receiver() const { return call.url.Authority(); }
  };
  void Add(Post post);
  // A post that may begin now; it counts from here until End. Nothing: none may begin.
  std::optional<Post> Next();
  void End(const std::string& owner, const std::string& receiver);

 private:
  struct Lane {
    std::string receiver;
    std::deque<Post> posts;  // never empty
  };
  struct Owner {
    std::string name;
    std::list<Lane> lanes;  // never empty; the next one first
  };
  bool MayBegin(const std::string& owner, const std::string& receiver) const;

  std::list<Owner> owners_;  // the next one first
  FairShare of_owners_{{.most = kAtOnce, .of_one = kOfOwner}};
  std::map<std::string, size_t> to_receivers_;
  std::map<std::pair<std::string, std::string>, size_t> of_owners_to_receivers_;
};

}  // namespace muster::coordinator
