// The command line of an example: parses `--name VALUE` pairs into variables. No LibTorch.
//
//   Options options;
//   examples::CommandLine line("digits");
//   line.add("--epochs", &options.epochs, 1, "passes over the training digits");
//   line.parse(argc, argv);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace examples {

class CommandLine {
 public:
  explicit CommandLine(std::string program) : program_(std::move(program)) {}

  // The variable keeps its value, the default, if the option is not given. `least`: the smallest
  // allowed value.
  void add(const std::string& name, int64_t* value, int64_t least, const std::string& meaning);
  void add(const std::string& name, double* value, double least, const std::string& meaning);
  void add(const std::string& name, std::string* value, const std::string& meaning);
  // One of several words.
  void add(const std::string& name, std::string* value, const std::vector<std::string>& words,
           const std::string& meaning);
  // Takes no value.
  void add(const std::string& name, bool* value, const std::string& meaning);

  // Throws muster::DoNotRetryError (exit code 93 under run_main) naming an option that is unknown,
  // lacks a value or is out of range. --help prints all options and exits.
  void parse(int argc, char** argv) const;

 private:
  struct Option {
    std::string name;
    std::string shown_default;
    std::string meaning;
    bool takes_value = true;
    std::function<void(const std::string& text)> set;
  };

  std::string help() const;
  const Option& find(const std::string& name) const;

  std::string program_;
  std::vector<Option> options_;
};

}  // namespace examples
