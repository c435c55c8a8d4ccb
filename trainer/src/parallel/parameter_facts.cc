// See parameter_facts.h.
#include "parallel/parameter_facts.h"

namespace muster {
namespace {

using torch::autograd::AutogradMeta;

const AutogradMeta* autograd_of(const c10::TensorImpl& tensor) {
  return static_cast<const AutogradMeta*>(tensor.autograd_meta());
}

bool requires_grad(const AutogradMeta* autograd) {
  return autograd != nullptr && autograd->requires_grad_;
}

// A weak pointer whose type differs between LibTorch releases.
template <typename Weak>
bool is_same_node(const Weak& a, const Weak& b) {
  if constexpr (requires { a.owner_before(b); }) {
    return !a.owner_before(b) && !b.owner_before(a);
  } else {
    return a._unsafe_get_target() == b._unsafe_get_target();
  }
}

}  // namespace

uint64_t ParameterFacts::form_of(const c10::TensorImpl& tensor) {
  uint64_t form = static_cast<uint64_t>(tensor.dtype().toScalarType());
  const auto mix = [&form](int64_t value) {
    form = (form ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15ULL;
  };
  mix(tensor.storage_offset());
  for (const int64_t size : tensor.sizes()) mix(size);
  for (const int64_t stride : tensor.strides()) mix(stride);
  return form;
}

bool ParameterFacts::is_as_read(const Fact& fact) const {
  const c10::TensorImpl& tensor = *fact.tensor;
  const AutogradMeta* autograd = autograd_of(tensor);
  if (requires_grad(autograd) != fact.trains ||
      tensor.unsafe_storage().unsafeGetStorageImpl() != fact.storage) {
    return false;
  }
  return form_of(tensor) == fact.form && (memory_is_fixed_ || !fact.trains ||
                                          is_same_node(autograd->grad_accumulator_, fact.hooked));
}

void ParameterFacts::read(const std::vector<NamedParameter>& parameters, bool memory_is_fixed) {
  memory_is_fixed_ = memory_is_fixed;
  facts_.clear();
  details_.clear();
  for (const NamedParameter& parameter : parameters) {
    const c10::TensorImpl& tensor = *parameter.tensor.unsafeGetTensorImpl();
    Fact fact;
    fact.tensor = &tensor;
    fact.storage = tensor.unsafe_storage().unsafeGetStorageImpl();
    fact.form = form_of(tensor);
    const AutogradMeta* autograd = autograd_of(tensor);
    fact.trains = requires_grad(autograd);
    if (autograd != nullptr) fact.hooked = autograd->grad_accumulator_;
    facts_.push_back(std::move(fact));
    details_.push_back({parameter.tensor.scalar_type(), parameter.tensor.device(),
                        parameter.tensor.sizes().vec(), parameter.tensor.strides().vec()});
  }
}

bool ParameterFacts::changed() const {
  for (const Fact& fact : facts_) {
    if (!is_as_read(fact)) return true;
  }
  return false;
}

ParameterFacts::Change ParameterFacts::change_of(const NamedParameter& parameter, const Fact& fact,
                                                 const Details& details) const {
  const at::Tensor& now = parameter.tensor;
  const std::string name = "'" + parameter.name + "' ";
  if (now.scalar_type() != details.dtype || now.device() != details.device) {
    return {c10::str(name, "is ", now.scalar_type(), " on ", now.device()),
            c10::str("it was ", details.dtype, " on ", details.device,
                     ": convert and move the module before prepare(), or choose "
                     "AcceleratorOptions::mixed_precision and device")};
  }
  if (now.sizes() != at::IntArrayRef(details.sizes)) {
    return {c10::str(name, "has the shape ", now.sizes()),
            c10::str("it had ", at::IntArrayRef(details.sizes),
                     ": give the module its final shapes before prepare()")};
  }
  if (memory_is_fixed_ && now.storage().unsafeGetStorageImpl() != fact.storage) {
    return {name + "has other memory",
            "it is sharded over the ranks, so values that set_data, torch::load or to() put "
            "elsewhere are never trained: load weights before prepare(), or by load_state()"};
  }
  if (now.requires_grad() != fact.trains) {
    return {name + (now.requires_grad() ? "requires gradients" : "requires no gradients"), ""};
  }
  if (now.strides() != at::IntArrayRef(details.strides)) {
    return {c10::str(name, "has strides ", now.strides()), ""};
  }
  if (!memory_is_fixed_ && fact.trains &&
      !is_same_node(autograd_of(*fact.tensor)->grad_accumulator_, fact.hooked)) {
    return {name + "was converted and converted back", ""};
  }
  return {};
}

std::vector<ParameterFacts::Change> ParameterFacts::changes(
    const std::vector<NamedParameter>& parameters) const {
  std::vector<Change> changes;
  for (size_t i = 0; i < facts_.size(); ++i) {
    if (is_as_read(facts_[i])) continue;
    Change change = change_of(parameters[i], facts_[i], details_[i]);
    if (!change.what.empty()) changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace muster
