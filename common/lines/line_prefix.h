// What PyTorch and glog put before the text of a rank's line. Pure.
#pragma once

#include <string_view>

namespace muster::common {

// Without PyTorch's "[rank0]:", which may be followed by a space, or by the next prefix:
// "[rank0]:[W1122 …".
std::string_view WithoutRankPrefix(std::string_view line);

// 'E' of "E1122 06:01:02.123 …", glog's prefix; PyTorch puts it in brackets. '\0': there is none.
char GlogLetter(std::string_view line);

}  // namespace muster::common
