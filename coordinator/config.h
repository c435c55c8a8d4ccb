// What the command line of muster-coordinator says. Fixed when the daemon starts.
#pragma once

#include <string>

#include "coordinator/core/state.h"
#include "coordinator/rpc/garbage.h"

namespace muster::coordinator {

struct Config {
  std::string data_dir;
  std::string socket;  // path of the unix socket; empty: none
  std::string listen;  // ADDR:PORT; empty: no TCP
  bool insecure_plaintext = false;
  bool is_private = false;
  std::string worker_state_dir;  // private: of the worker to keep
  std::string log_file;          // empty: stderr
  int report_fd = -1;            // why a start failed goes there too
  Settings settings;
  Retention retention;
};

// What to do with a command line.
struct ParsedFlags {
  Config config;
  bool stop = false;  // help, version, or an error: print `text` and exit
  int exit_code = 0;
  std::string text;
};

ParsedFlags ParseFlags(int argc, char** argv);

}  // namespace muster::coordinator
