// Whether inputs are of the dtypes and sizes that a net was exported for.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

#include "exported/exported_program.h"

namespace muster {

class InputRules {
 public:
  // Throws FormatError("<where>: …") for a dtype that this LibTorch does not have.
  InputRules(const ExportedProgram& program, const std::string& where);

  // Those that a caller gives, in order.
  const std::vector<std::string>& names() const { return names_; }

  // The values of the graph for them. Throws std::invalid_argument naming the input that does not fit.
  std::vector<c10::IValue> check(const std::vector<at::Tensor>& inputs) const;

 private:
  struct Rule {
    std::string name;
    bool is_tensor = false;
    bool wants_integer = false;  // of a number
    at::ScalarType dtype = at::kFloat;
    std::vector<SymbolicSize> sizes;
  };

  void check_tensor(const Rule& rule, const at::Tensor& tensor,
                    std::map<std::string, std::pair<int64_t, std::string>>& symbols) const;

  std::vector<Rule> rules_;
  std::vector<std::string> names_;
  std::map<std::string, SizeRange, std::less<>> ranges_;
};

}  // namespace muster
