#include "client/export/point_text.h"

#include "client/compare/csv_rows.h"
#include "common/text/exact_number.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"

namespace muster::client {

void AppendCsvPoint(const ExportedPoint& point, std::string* out) {
  common::StrAppend(out, CsvField(point.job), ",", point.attempt, ",", point.rank, ",", point.step,
                    ",", point.time_ms, ",", CsvField(point.name), ",",
                    common::ExactNumber(point.value), "\n");
}

void AppendJsonPoint(const ExportedPoint& point, std::string* out) {
  common::JsonObject()
      .Add("job", point.job)
      .Add("attempt", point.attempt)
      .Add("rank", point.rank)
      .Add("step", point.step)
      .Add("time_ms", point.time_ms)
      .Add("name", point.name)
      .Add("value", point.value)
      .AppendLine(out);
}

}  // namespace muster::client
