// Runs the same computation in Python: sends tensors and a description, gets tensors back.
//
// Tensors are exchanged in torch's own pickle files, so that these tests need no other part of the
// SDK.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/child_process.h"
#include "support/temporary_directory.h"
#include "tests/support/paths.h"

namespace muster {

using Tensors = std::map<std::string, at::Tensor>;

inline void write_tensors(const std::string& path, const Tensors& tensors) {
  c10::Dict<std::string, at::Tensor> dictionary;
  for (const auto& [name, tensor] : tensors) dictionary.insert(name, tensor.detach());
  const std::vector<char> bytes = torch::pickle_save(dictionary);
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

inline Tensors read_tensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  Tensors tensors;
  for (const auto& item : torch::pickle_load(bytes).toGenericDict()) {
    tensors[item.key().toStringRef()] = item.value().toTensor();
  }
  return tensors;
}

// Runs `script mode directory` on one thread; it reads cases.json and in.pt and writes out.pt.
inline Tensors ask_python(const std::string& script, const std::string& mode, const Tensors& input,
                          const nlohmann::json& cases) {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  write_tensors(path + "/in.pt", input);
  std::ofstream(path + "/cases.json") << cases.dump();
  ChildProcess python({TestPython(), script, mode, path}, {{"OMP_NUM_THREADS", "1"}});
  const ChildResult result =
      python.wait(std::chrono::steady_clock::now() + std::chrono::minutes(3));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.exit_code == 0 ? read_tensors(path + "/out.pt") : Tensors();
}

// Equal in every bit, dtype and shape.
inline bool same_bits(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes() || one.scalar_type() != other.scalar_type()) return false;
  const at::Tensor a = one.detach().contiguous(), b = other.detach().contiguous();
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace muster
