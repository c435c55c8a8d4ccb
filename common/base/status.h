// Status plumbing: the macros that every fallible function uses, and CHECK for our own bugs.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define MUSTER_CONCAT_INNER(a, b) a##b
#define MUSTER_CONCAT(a, b) MUSTER_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                                           \
  do {                                                                                        \
    if (absl::Status muster_status = (expression); !muster_status.ok()) return muster_status; \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(MUSTER_CONCAT(muster_result_, __LINE__), target, expression)
#define ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return std::move(result).status();     \
  target = *std::move(result)

// A violated invariant: prints where and aborts the process. Active in release builds.
#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

namespace muster::common {

// Only the message, without its code.
inline std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

}  // namespace muster::common
