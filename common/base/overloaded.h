// Several lambdas as one visitor: std::visit(Overloaded{[](A) {…}, [](B) {…}}, variant).
#pragma once

namespace muster::common {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace muster::common
