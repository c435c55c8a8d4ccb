#include "common/text/markup.h"

#include "absl/strings/str_replace.h"
#include "common/text/strings.h"

namespace muster::common {

std::string EscapeMarkup(std::string_view text) {
  return absl::StrReplaceAll(ToAbsl(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace muster::common
