// Runs the work of calls that wait for a disk on the pool, and answers from there.
#pragma once

#include <utility>

#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/sink.h"

namespace muster::coordinator {

// `work`: () → absl::StatusOr<T>.
template <typename T, typename Work>
void AnswerOnPool(Process& process, Answer<T> answer, Work work) {
  process.pool.Post([answer = std::move(answer), work = std::move(work)] { answer(work()); });
}

// Fills one page with `rows`, sorted by `key`, that follow `after`; sets `more` if there is another page.
template <typename Page, typename Rows, typename KeyOf, typename Add>
void FillPage(Page& page, const Rows& rows, const std::string& after, size_t bytes_max, KeyOf key,
              Add add) {
  size_t bytes = 0;
  for (const auto& row : rows) {
    if (!after.empty() && key(row) <= after) continue;
    if (bytes > bytes_max) return page.set_more(true);
    bytes += row.ByteSizeLong();
    add(row);
  }
}

}  // namespace muster::coordinator
