#include "common/reserved_ports.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

// limit: nodes: what is read of the kernel's list of reserved ports; the rest counts as not reserved
constexpr size_t kSettingBytesMax = 16 * 1024;

bool ParsePort(absl::string_view text, uint16_t* port) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number > UINT16_MAX) return false;
  *port = static_cast<uint16_t>(number);
  return true;
}

bool ParseSpan(absl::string_view first, absl::string_view last, PortSpan* span) {
  return ParsePort(first, &span->first) && ParsePort(last, &span->last) &&
         span->first <= span->last;
}

}  // namespace

PortSpan ParsePortRangeSetting(std::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(
      absl::StripAsciiWhitespace(ToAbsl(text)), absl::ByAnyChar("\t "), absl::SkipEmpty());
  PortSpan span;
  return words.size() == 2 && ParseSpan(words[0], words[1], &span) ? span : PortSpan();
}

std::vector<PortSpan> ParseReservedPorts(std::string_view text) {
  std::vector<PortSpan> spans;
  for (const absl::string_view item :
       absl::StrSplit(absl::StripAsciiWhitespace(ToAbsl(text)), ',', absl::SkipEmpty())) {
    const size_t dash = item.find('-');
    PortSpan span;
    const bool is_span = dash == absl::string_view::npos
                             ? ParseSpan(item, item, &span)
                             : ParseSpan(item.substr(0, dash), item.substr(dash + 1), &span);
    if (is_span) spans.push_back(span);
  }
  return spans;
}

PortSettings ReadPortSettings(const std::string& root) {
  const auto setting = [&root](const char* name) {
    return ReadFile(StrCat(root, "/proc/sys/net/ipv4/", name), kSettingBytesMax).value_or("");
  };
  return {.ephemeral = ParsePortRangeSetting(setting("ip_local_port_range")),
          .reserved = ParseReservedPorts(setting("ip_local_reserved_ports"))};
}

PortSpan OpenToConnections(const PortSettings& settings, PortSpan ports) {
  const uint32_t first = std::max(settings.ephemeral.first, ports.first);
  const uint32_t last = std::min(settings.ephemeral.last, ports.last);
  PortSpan open;
  for (uint32_t port = first; port <= last; ++port) {
    const bool is_reserved = std::any_of(
        settings.reserved.begin(), settings.reserved.end(),
        [port](const PortSpan& span) { return port >= span.first && port <= span.last; });
    if (is_reserved) continue;
    if (open.first == 0) open.first = static_cast<uint16_t>(port);
    open.last = static_cast<uint16_t>(port);
  }
  return open;
}

std::string ReserveCommand(const PortSettings& settings, PortSpan ports) {
  std::vector<PortSpan> all = settings.reserved;
  std::erase_if(all, [ports](const PortSpan& span) {
    return span.first >= ports.first && span.last <= ports.last;
  });
  all.push_back(ports);
  std::string list;
  for (const PortSpan& span : all) {
    StrAppend(&list, list.empty() ? "" : ",", span.first,
              span.last == span.first ? "" : StrCat("-", span.last));
  }
  return StrCat("sysctl -w net.ipv4.ip_local_reserved_ports=", list);
}

}  // namespace muster::common
