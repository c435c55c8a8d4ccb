// What a job may name as its image. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::job {

struct ImageName {
  enum class Kind {
    kRegistry,  // "docker.io/library/debian@sha256:…"
    kLocal,     // "localhost/base", "base:1": in the podman storage of the worker's user
    kLayout     // "oci:/images/base": a directory that holds an OCI image layout
  };
  Kind kind = Kind::kLocal;
  std::string text;        // as the job has it
  std::string repository;  // kRegistry: without the digest
  std::string digest;      // kRegistry: 64 hex digits
  std::string directory;   // kLayout
};

// Errors: JC1108 with the reason and a form that is accepted. An accepted name is safe as a word of
// a command line.
absl::StatusOr<ImageName> ParseImageName(std::string_view text);

}  // namespace muster::job
