// Turns an exception into stderr text, an error file and an exit code.
#include "muster/base/run_main.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <typeinfo>

#include "base/files.h"
#include "base/lost_saves.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

std::string readable_type(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : type.name();
}

// LibTorch appends a native stack to its messages; only the part before it is useful to people.
std::string without_stack(const std::string& text) {
  return text.substr(0, text.find("\nException raised from "));
}

void write_error_file(const std::string& summary, const std::string& details, int exit_code) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  const nlohmann::json content = {
      {"message",
       {{"message", summary},
        {"errorCode", exit_code},
        {"extraInfo",
         {{"py_callstack", details}, {"timestamp", std::to_string(std::time(nullptr))}}}}}};
  try {
    write_file_durably(path,
                       content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "muster: could not write the error file: %s\n", error.what());
  }
}

int report(const std::string& type, const std::string& text, int exit_code) {
  const char* rank = std::getenv("RANK");
  const std::string summary = type + ": " + without_stack(text);
  std::fflush(stdout);
  std::fprintf(stderr, "muster: rank %s failed: %s\n", rank == nullptr ? "0" : rank,
               summary.c_str());
  write_error_file(summary, text, exit_code);
  return exit_code;
}

}  // namespace

int run_main(int argc, char** argv, const std::function<int(int, char**)>& body) {
  try {
    const int exit_code = body(argc, argv);
    const std::string lost = lost_save();
    if (exit_code != 0 || lost.empty()) return exit_code;
    return report("muster::CheckpointError", lost, 1);
  } catch (const DoNotRetryError& error) {
    return report(readable_type(typeid(error)), error.what(), kDoNotRetryExitCode);
  } catch (const std::exception& error) {
    return report(readable_type(typeid(error)), error.what(), 1);
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    return report(type == nullptr ? "unknown" : readable_type(*type), "not a std::exception", 1);
  }
}

}  // namespace muster
