// See lost_saves.h. The process has one exit code, so this is the process's.
#include "base/lost_saves.h"

#include <mutex>

namespace muster {
namespace {

std::mutex& lost_saves_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string& first_lost_save() {
  static std::string error;  // guarded by the mutex
  return error;
}

}  // namespace

void note_lost_save(const std::string& error) {
  const std::lock_guard<std::mutex> lock(lost_saves_mutex());
  if (first_lost_save().empty()) first_lost_save() = error.empty() ? "unknown error" : error;
}

std::string lost_save() {
  const std::lock_guard<std::mutex> lock(lost_saves_mutex());
  return first_lost_save();
}

}  // namespace muster
