// A .pt2 archive as torch.export.save writes it: the program, and where its weights lie. Source: torch/export/pt2_archive of
// torch 2.13 (archive version 0). The tool of muster-train adds extra/muster/evaluation.json, the program in evaluation mode, and
// evaluation.pt, the constants of that one alone. Hostile input causes a FormatError, never a crash. No torch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/stored_zip.h"
#include "exported/exported_program.h"

namespace muster {

struct ExportedArchive {
  ExportedProgram program;
  ExportedWeights weights;    // of the state_dict
  ExportedWeights constants;  // and buffers that are not in the state_dict
  // The same net in evaluation mode, over the same weights.
  std::optional<ExportedProgram> evaluation;
  ExportedWeights evaluation_constants;
};

// Every weight that a program names is in the archive, and every place lies inside the file. Throws FormatError("<where>: <rule>").
ExportedArchive read_exported_archive(const ByteSource& file, const std::string& where);

}  // namespace muster
