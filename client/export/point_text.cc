#include "client/export/point_text.h"

#include "client/compare/csv_rows.h"
#include "client/exact_number.h"
#include "client/json_quote.h"
#include "common/strings.h"

namespace muster::client {

void AppendCsvPoint(const ExportedPoint& point, std::string* out) {
  common::StrAppend(out, CsvField(point.job), ",", point.attempt, ",", point.rank, ",", point.step,
                    ",", point.time_ms, ",", CsvField(point.name), ",", ExactNumber(point.value),
                    "\n");
}

void AppendJsonPoint(const ExportedPoint& point, std::string* out) {
  common::StrAppend(out, "{\"job\": ", JsonQuote(point.job), ", \"attempt\": ", point.attempt,
                    ", \"rank\": ", point.rank, ", \"step\": ", point.step,
                    ", \"time_ms\": ", point.time_ms, ", \"name\": ", JsonQuote(point.name),
                    ", \"value\": ", ExactJson(point.value), "}\n");
}

}  // namespace muster::client
