// Nothing leaves a coordinator that may no longer lead: no answer, no command to a worker, no answer to a heartbeat,
// whatever call it belongs to. gRPC asks before each message and status that is sent; out of term the process steps
// down instead.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <vector>

#include "coordinator/stores/leading.h"

namespace muster::coordinator {

class TermInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TermInterceptor(const Leading& leading) : leading_(leading) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    const bool sends = methods->QueryInterceptionHookPoint(Point::PRE_SEND_MESSAGE) ||
                       methods->QueryInterceptionHookPoint(Point::PRE_SEND_STATUS);
    if (sends) leading_.MustLead();
    methods->Proceed();
  }

 private:
  const Leading& leading_;
};

class TermInterceptors final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit TermInterceptors(const Leading& leading) : leading_(leading) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo*) override {
    return new TermInterceptor(leading_);
  }

 private:
  const Leading& leading_;
};

inline std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
OnlyInTerm(const Leading& leading) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<TermInterceptors>(leading));
  return creators;
}

}  // namespace muster::coordinator
