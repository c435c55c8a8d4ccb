// The Work objects that SharedGloo returns. Internal to shared_gloo.cc.
#pragma once

#include <ATen/record_function.h>

#include <exception>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <typeinfo>
#include <vector>

#include "muster/base/errors.h"
#include "parallel/communication_time.h"
#include "parallel/group_health.h"

namespace muster {

// Work that is already finished.
class FinishedWork : public c10d::Work {
 public:
  FinishedWork(int rank, c10d::OpType type, std::vector<at::Tensor> tensors)
      : Work(rank, type), tensors_(std::move(tensors)) {
    finish();
  }
  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(tensors_));
    return future;
  }

 private:
  std::vector<at::Tensor> tensors_;
};

// Whether Gloo rejected the arguments (an unsupported dtype). It does so on all ranks and before
// any data moves, so the group stays usable.
inline bool is_refusal(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& thrown) {
    return typeid(thrown) == typeid(c10::Error);  // out of memory affects only one rank
  } catch (...) {
    return false;
  }
}

// Fails the group because of a collective's error, and throws CommunicationError with it, or with
// the reason for which the group failed earlier. `call`: "rank 0, all_reduce sum of 64 int64".
[[noreturn]] inline void rethrow(GroupHealth& health, const std::string& call,
                                 std::exception_ptr error) {
  std::string text = "unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& thrown) {
    text = thrown.what_without_backtrace();
  } catch (const std::exception& thrown) {
    text = thrown.what();
  }
  throw CommunicationError(health.fail(call + ": " + text));
}

// Wraps Gloo's work so that waiting shows up in profiles. `name` is a constant: "wait:all_reduce".
class ProfiledWork : public c10d::Work {
 public:
  ProfiledWork(int rank, const char* name, std::string call, std::shared_ptr<GroupHealth> health,
               c10::intrusive_ptr<c10d::Work> work)
      : Work(rank, work->retrieveOpType()),
        name_(name),
        call_(std::move(call)),
        health_(std::move(health)),
        work_(std::move(work)) {}

  bool wait(std::chrono::milliseconds timeout) override {
    RECORD_USER_SCOPE(name_);
    const CommunicationTime::Wait waiting;
    try {
      return work_->wait(timeout);
    } catch (const std::exception&) {
      if (work_->isCompleted() && is_refusal(std::current_exception())) throw;
      rethrow(*health_, call_, std::current_exception());
    }
  }
  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }
  float getDuration() const override { return work_->getDuration(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const auto future = work_->getFuture();
    return future->then(
        [health = health_, call = call_](c10::ivalue::Future& done) {
          if (!done.hasError()) return done.value();
          if (is_refusal(done.exception_ptr())) std::rethrow_exception(done.exception_ptr());
          rethrow(*health, call, done.exception_ptr());
        },
        future->elementType());
  }

 private:
  const char* const name_;
  const std::string call_;
  const std::shared_ptr<GroupHealth> health_;
  const c10::intrusive_ptr<c10d::Work> work_;
};

}  // namespace muster
