#include "checkpoint/torch_pickle.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "checkpoint/torch_dtypes.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using Kind = PickleValue::Kind;

std::string_view dtype_of_storage(std::string_view global) {
  if (!global.starts_with("torch.") || !global.ends_with("Storage")) return {};
  const std::string_view kind = global.substr(6, global.size() - 6 - 7);
  for (const TorchDtype& each : kTorchDtypes) {
    if (!each.storage.empty() && each.storage == kind) return each.name;
  }
  return {};
}

std::string_view dtype_of_global(std::string_view global) {
  if (!global.starts_with("torch.")) return {};
  for (const TorchDtype& each : kTorchDtypes) {
    if (each.python == global.substr(6)) return each.name;
  }
  return {};
}

class Unpickler {
 public:
  Unpickler(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  Pickle run() {
    if (bytes_.size() > kPickleBytesMax) fail("it is too large");
    while (!is_over_) step();
    return std::move(pickle_);
  }

 private:
  [[noreturn]] void fail(const std::string& rule) const {
    throw FormatError(where_ + ": its pickle is not one of torch.save: " + rule + " (at byte " +
                      std::to_string(at_) + ")");
  }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("it ends early");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  uint64_t number(size_t bytes) {
    const std::string_view text = take(bytes);
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text[i]);
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) fail("it ends early");
    const std::string_view taken = take(end - at_);
    ++at_;
    return taken;
  }

  // Of copies of a value that may be referred to many times: they would make a small pickle large.
  void charge(size_t count) {
    copied_ += count;
    if (copied_ > kPickleValuesMax) fail("more copies than are allowed");
  }

  uint32_t add(PickleValue value) {
    if (pickle_.values.size() >= kPickleValuesMax) fail("more values than are allowed");
    pickle_.values.push_back(std::move(value));
    return static_cast<uint32_t>(pickle_.values.size() - 1);
  }
  void push(PickleValue value) { stack_.push_back(add(std::move(value))); }
  void push_copied(PickleValue value) {
    charge(value.text.size() + value.items.size());
    push(std::move(value));
  }
  // What a class or function makes that is not in the list. One value for each: nothing is added to it.
  void push_opaque(uint32_t global) {
    uint32_t& known = opaque_[global];
    if (known == 0) known = add({.kind = Kind::opaque, .text = value(global).text}) + 1;
    stack_.push_back(known - 1);
  }
  // One value for all of its places: it never changes.
  void push_shared(PickleValue value) {
    uint32_t& known = shared_[{value.kind, value.integer}];
    if (known == 0) known = add(std::move(value)) + 1;
    stack_.push_back(known - 1);
  }
  void push_integer(int64_t value) {
    if (value >= 0 && value < 256) return push_shared({.kind = Kind::integer, .integer = value});
    push({.kind = Kind::integer, .integer = value});
  }
  void push_text(Kind kind, std::string_view text) {
    push({.kind = kind, .text = std::string(text)});
  }

  uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("nothing is on its stack");
    const uint32_t index = stack_.back();
    stack_.pop_back();
    return index;
  }
  uint32_t top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("nothing is on its stack");
    return stack_.back();
  }
  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) fail("a mark is missing");
    std::vector<uint32_t> items(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()),
                                stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  PickleValue& value(uint32_t index) { return pickle_.values[index]; }

  void push_list(std::vector<uint32_t> items) {
    push({.kind = Kind::list, .items = std::move(items)});
  }
  void push_tuple_of(size_t count) {
    std::vector<uint32_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push_list(std::move(items));
  }

  // To what is on the stack then. Items of opaque values are dropped: what they mean is not known.
  void append(const std::vector<uint32_t>& items) {
    PickleValue& target = value(top());
    if (target.kind == Kind::opaque) return;
    if (target.kind != Kind::list) fail("it appends to something else than a list");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<uint32_t>& items) {
    PickleValue& target = value(top());
    if (target.kind == Kind::opaque) return;
    if (target.kind != Kind::dict || items.size() % 2 != 0)
      fail("it sets items of something else than a dict");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void remember(uint32_t key) { memo_[key] = top(); }
  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("it refers to a value that is not there");
    stack_.push_back(found->second);
  }

  void step();
  void reduce();
  void build();
  void persistent();
  std::optional<PickleValue> rebuilt(std::string_view function,
                                     const std::vector<uint32_t>& arguments);
  std::optional<PickleValue> tensor(const std::vector<uint32_t>& arguments, bool has_dtype);
  std::optional<std::vector<int64_t>> integers(uint32_t index) const;

  const std::string_view bytes_;
  const std::string& where_;
  size_t at_ = 0;
  bool is_over_ = false;
  Pickle pickle_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // how high the stack was
  std::unordered_map<uint32_t, uint32_t> memo_;
  std::map<std::pair<Kind, int64_t>, uint32_t> shared_;  // the index, plus one
  std::unordered_map<uint32_t, uint32_t> opaque_;        // of a global; the index, plus one
  size_t copied_ = 0;
};

void Unpickler::step() {
  const auto operation = static_cast<uint8_t>(take(1)[0]);
  switch (operation) {
    case 0x80: {  // PROTO
      const uint64_t protocol = number(1);
      if (protocol == 2) return;
      throw FormatError(where_ + " was saved with pickle protocol " + std::to_string(protocol) +
                        ", and only 2, torch's default, is read; fix: in Python, "
                        "torch.save(torch.load(OLD), NEW)");
    }
    case '.':  // STOP
      pickle_.root = pop();
      is_over_ = true;
      return;
    case '(':
      return marks_.push_back(stack_.size());
    case '0':
      pop();
      return;
    case '2':
      return stack_.push_back(top());  // DUP
    case 'N':
      return push_shared({});
    case 0x88:
      return push_shared({.kind = Kind::boolean, .integer = 1});
    case 0x89:
      return push_shared({.kind = Kind::boolean, .integer = 0});
    case 'J':
      return push_integer(static_cast<int32_t>(number(4)));
    case 'K':
      return push_integer(static_cast<int64_t>(number(1)));
    case 'M':
      return push_integer(static_cast<int64_t>(number(2)));
    case 0x8a: {  // LONG1
      const size_t bytes = number(1);
      if (bytes > 8) {
        take(bytes);
        return push_text(Kind::opaque, "int");
      }
      uint64_t value = number(bytes);
      if (bytes > 0 && bytes < 8 && (value >> (8 * bytes - 1)) != 0)
        value |= ~uint64_t{0} << (8 * bytes);
      return push_integer(static_cast<int64_t>(value));
    }
    case 'G': {  // BINFLOAT, big-endian
      uint64_t bits = 0;
      for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
      return push({.kind = Kind::real, .integer = static_cast<int64_t>(bits)});
    }
    case 'X':
      return push_text(Kind::text, take(number(4)));
    case 'T':
      return push_text(Kind::bytes, take(number(4)));
    case 'U':
      return push_text(Kind::bytes, take(number(1)));
    case ')':
    case ']':
      return push_list({});
    case 't':
    case 'l':
      return push_list(pop_to_mark());
    case 0x85:
      return push_tuple_of(1);
    case 0x86:
      return push_tuple_of(2);
    case 0x87:
      return push_tuple_of(3);
    case '}':
      return push({.kind = Kind::dict});
    case 'd': {  // DICT
      const std::vector<uint32_t> items = pop_to_mark();
      push({.kind = Kind::dict});
      return set_items(items);
    }
    case 'a':
      return append({pop()});
    case 'e':
      return append(pop_to_mark());
    case 's': {
      const uint32_t item = pop(), key = pop();
      return set_items({key, item});
    }
    case 'u':
      return set_items(pop_to_mark());
    case 'q':
      return remember(static_cast<uint32_t>(number(1)));
    case 'r':
      return remember(static_cast<uint32_t>(number(4)));
    case 'h':
      return recall(static_cast<uint32_t>(number(1)));
    case 'j':
      return recall(static_cast<uint32_t>(number(4)));
    case 'c': {  // GLOBAL
      const std::string module(line()), name(line());
      return push_text(Kind::global, module + "." + name);
    }
    case 'Q':
      return persistent();
    case 'R':
    case 0x81:
      return reduce();  // and NEWOBJ
    case 'b':
      return build();
    default:
      fail("operation " + std::to_string(operation) + " is not one of protocol 2");
  }
}

// ('storage', torch.FloatStorage, 'KEY', 'cpu', elements)
void Unpickler::persistent() {
  const PickleValue& id = value(pop());
  if (id.kind != Kind::list || id.items.size() != 5)
    fail("a storage is not described by five values");
  const uint32_t global = id.items[1];
  const PickleValue &type = value(global), &key = value(id.items[2]), &count = value(id.items[4]);
  const bool is_untyped = type.text == "torch.storage.UntypedStorage";
  const std::string_view dtype = dtype_of_storage(type.text);
  if (value(id.items[0]).text != "storage" || type.kind != Kind::global || key.kind != Kind::text ||
      count.kind != Kind::integer || count.integer < 0) {
    fail("a storage is described by other values");
  }
  if (dtype.empty() && !is_untyped) return push_opaque(global);
  push_copied({.kind = Kind::storage, .dtype = dtype, .integer = count.integer, .text = key.text});
}

void Unpickler::reduce() {
  const PickleValue& arguments = value(pop());
  const uint32_t function = pop();
  if (value(function).kind != Kind::global) return push_text(Kind::opaque, "an object");
  std::optional<PickleValue> made = rebuilt(value(function).text, arguments.items);
  if (!made.has_value()) return push_opaque(function);
  push_copied(*std::move(made));
}

// Attributes, such as a state_dict's _metadata, are dropped.
void Unpickler::build() {
  pop();
  top();
}

// Nothing: it becomes opaque. Adds no values, so that the arguments stay where they are.
std::optional<PickleValue> Unpickler::rebuilt(std::string_view function,
                                              const std::vector<uint32_t>& arguments) {
  if (function == "collections.OrderedDict" || function == "collections.defaultdict") {
    PickleValue dict{.kind = Kind::dict};
    if (function == "collections.OrderedDict" && arguments.size() == 1) {
      charge(value(arguments[0]).items.size());
      for (const uint32_t pair : value(arguments[0]).items) {
        const std::vector<uint32_t>& items = value(pair).items;
        if (items.size() != 2) return std::nullopt;
        dict.items.insert(dict.items.end(), items.begin(), items.end());
      }
    }
    return dict;
  }
  if (function == "torch._utils._rebuild_tensor_v2") return tensor(arguments, false);
  if (function == "torch._utils._rebuild_tensor_v3") return tensor(arguments, true);
  const bool is_parameter = function == "torch._utils._rebuild_parameter" ||
                            function == "torch._utils._rebuild_parameter_with_state";
  if (is_parameter && !arguments.empty() && value(arguments[0]).kind == Kind::tensor)
    return value(arguments[0]);
  // (function, class, its arguments, state): of a subclass, whose tensor is a plain one here.
  if (function == "torch._tensor._rebuild_from_type_v2" && arguments.size() == 4 &&
      value(arguments[0]).kind == Kind::global && value(arguments[0]).text != function) {
    return rebuilt(value(arguments[0]).text, value(arguments[2]).items);
  }
  const bool is_sequence = function == "torch.Size" || function == "builtins.set" ||
                           function == "__builtin__.set" || function == "builtins.frozenset";
  if (is_sequence && arguments.size() == 1) {
    charge(value(arguments[0]).items.size());
    return PickleValue{.kind = Kind::list, .items = value(arguments[0]).items};
  }
  if (function == "_codecs.encode" && arguments.size() == 2) {
    charge(value(arguments[0]).text.size());
    return PickleValue{.kind = Kind::bytes, .text = value(arguments[0]).text};
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Unpickler::integers(uint32_t index) const {
  const PickleValue& list = pickle_.values[index];
  std::vector<int64_t> numbers;
  if (list.kind != Kind::list || list.items.size() > 64) return std::nullopt;
  for (const uint32_t item : list.items) {
    const PickleValue& number = pickle_.values[item];
    if (number.kind != Kind::integer || number.integer < 0) return std::nullopt;
    numbers.push_back(number.integer);
  }
  return numbers;
}

// (storage, offset, shape, strides, requires_grad, hooks[, dtype]). What is not a plain dense tensor becomes opaque.
std::optional<PickleValue> Unpickler::tensor(const std::vector<uint32_t>& arguments,
                                             bool has_dtype) {
  if (arguments.size() < (has_dtype ? 7 : 6)) return std::nullopt;
  const PickleValue &storage = value(arguments[0]), &offset = value(arguments[1]);
  const auto shape = integers(arguments[2]), strides = integers(arguments[3]);
  if (storage.kind != Kind::storage || offset.kind != Kind::integer || offset.integer < 0 ||
      !shape.has_value() || !strides.has_value() || shape->size() != strides->size()) {
    return std::nullopt;
  }
  const std::string_view dtype =
      has_dtype ? dtype_of_global(value(arguments[6]).text) : storage.dtype;
  if (dtype.empty()) return std::nullopt;
  charge(shape->size() + strides->size());
  pickle_.tensors.push_back(
      {.storage = arguments[0], .offset = offset.integer, .shape = *shape, .strides = *strides});
  return PickleValue{.kind = Kind::tensor,
                     .dtype = dtype,
                     .integer = static_cast<int64_t>(pickle_.tensors.size() - 1)};
}

}  // namespace

std::optional<uint32_t> Pickle::find(const PickleValue& dict, std::string_view key) const {
  std::optional<uint32_t> found;
  if (dict.kind != Kind::dict) return found;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& each = at(dict.items[i]);
    if (each.kind == Kind::text && each.text == key) found = dict.items[i + 1];
  }
  return found;
}

Pickle parse_torch_pickle(std::string_view bytes, const std::string& where) {
  return Unpickler(bytes, where).run();
}

}  // namespace muster
