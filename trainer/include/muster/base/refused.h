// How the SDK refuses a call at compile time: by one sentence that names what to write instead.
//
//   template <typename... Arguments>
//   refused::Nothing clone(Arguments&&...) const {
//     static_assert(refused::when_called<Arguments...>, "clone(): …");
//     return {};
//   }
//
// A deleted function would be refused too, but C++20 has no place for the sentence.
#pragma once

namespace muster::refused {

// False, in a template that is instantiated: when a program really makes the call.
template <typename...>
constexpr bool when_called = false;

// What a refused function returns, so that `auto value = …` is not a second error.
struct Nothing {};

}  // namespace muster::refused
