// Parses command lines; see command_line.h.
#include "examples/common/command_line.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "muster/base/errors.h"

namespace examples {
namespace {

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

template <typename Number>
void parse_number(const std::string& name, const std::string& text, Number least, Number* value) {
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, *value);
  // NaN fails the comparison.
  if (error == std::errc() && after == end && *value >= least) return;
  throw muster::DoNotRetryError(name + " " + text + ": expected a number of at least " +
                                shown(static_cast<double>(least)));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "|") + word;
  return text;
}

}  // namespace

void CommandLine::add(const std::string& name, int64_t* value, int64_t least,
                      const std::string& meaning) {
  options_.push_back({name, std::to_string(*value), meaning, true,
                      [=](const std::string& text) { parse_number(name, text, least, value); }});
}

void CommandLine::add(const std::string& name, double* value, double least,
                      const std::string& meaning) {
  options_.push_back({name, shown(*value), meaning, true,
                      [=](const std::string& text) { parse_number(name, text, least, value); }});
}

void CommandLine::add(const std::string& name, std::string* value, const std::string& meaning) {
  options_.push_back(
      {name, *value, meaning, true, [=](const std::string& text) { *value = text; }});
}

void CommandLine::add(const std::string& name, std::string* value,
                      const std::vector<std::string>& words, const std::string& meaning) {
  options_.push_back(
      {name, *value, meaning + " (" + joined(words) + ")", true, [=](const std::string& text) {
         if (std::find(words.begin(), words.end(), text) == words.end()) {
           throw muster::DoNotRetryError(name + " " + text + ": expected " + joined(words));
         }
         *value = text;
       }});
}

void CommandLine::add(const std::string& name, bool* value, const std::string& meaning) {
  options_.push_back({name, "", meaning, false, [=](const std::string&) { *value = true; }});
}

void CommandLine::parse(int argc, char** argv) const {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      std::fputs(help().c_str(), stdout);
      std::exit(0);
    }
    const Option& option = find(name);
    if (option.takes_value && ++i == argc) {
      throw muster::DoNotRetryError(name + " needs a value; --help lists the options");
    }
    option.set(option.takes_value ? argv[i] : "");
  }
}

std::string CommandLine::help() const {
  std::string text = "usage: " + program_ + " [OPTION]…\n\n";
  for (const Option& option : options_) {
    std::string line = "  " + option.name;
    line.resize(std::max<size_t>(line.size() + 1, 22), ' ');
    line += option.meaning;
    if (!option.shown_default.empty() && option.shown_default.size() < 20) {
      line += " [" + option.shown_default + "]";
    }
    text += line + "\n";
  }
  return text;
}

const CommandLine::Option& CommandLine::find(const std::string& name) const {
  for (const Option& option : options_) {
    if (option.name == name) return option;
  }
  throw muster::DoNotRetryError("unknown option " + name + "; --help lists those of " + program_);
}

}  // namespace examples
