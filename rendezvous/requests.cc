#include "rendezvous/requests.h"

#include <cstring>
#include <utility>

#include "common/text/strings.h"

namespace muster::rendezvous {
namespace {

// The fields of an operation: texts, whether they are a list that begins with its length, and a number at the end.
struct Shape {
  int texts = 0;  // of a list: of each item
  bool is_list = false;
  size_t number_bytes = 0;
};

constexpr Shape kShapes[kLastOp + 1] = {
    /* kValidate */ {.number_bytes = 4},
    /* kSet */ {.texts = 2},
    /* kCompareSet */ {.texts = 3},
    /* kGet */ {.texts = 1},
    /* kAdd */ {.texts = 1, .number_bytes = 8},
    /* kCheck */ {.texts = 1, .is_list = true},
    /* kWait */ {.texts = 1, .is_list = true},
    /* kCount */ {},
    /* kDelete */ {.texts = 1},
    /* kAppend */ {.texts = 2},
    /* kMultiGet */ {.texts = 1, .is_list = true},
    /* kMultiSet */ {.texts = 2, .is_list = true},
    /* kCancelWait */ {},
    /* kPing */ {.number_bytes = 4},
    /* kPush */ {.texts = 2},
    /* kPop */ {.texts = 1},
    /* kLength */ {.texts = 1},
    /* kList */ {},
    /* kBarrier */ {.texts = 1, .number_bytes = 8},
};

const Shape& ShapeOf(Op op) { return kShapes[static_cast<uint8_t>(op)]; }

}  // namespace

bool Request::IsAnswered() const {
  if (op == Op::kMultiGet && keys.empty()) return false;  // its answer is empty
  return op != Op::kValidate && op != Op::kSet && op != Op::kAppend && op != Op::kMultiSet &&
         op != Op::kPush;
}

void RequestReader::Restart() {
  is_begun_ = is_counted_ = has_number_ = false;
  left_ = number_ = 0;
  fields_.clear();
  at_ = 0;
}

bool RequestReader::Fail(std::string why) {
  why_ = std::move(why);
  return false;
}

bool RequestReader::Number(std::string_view bytes, size_t size, uint64_t* number) {
  if (bytes.size() - at_ < size) return false;
  *number = 0;
  std::memcpy(number, bytes.data() + at_, size);
  at_ += size;
  return true;
}

bool RequestReader::Text(std::string_view bytes, uint64_t most, Field* field) {
  const size_t begin = at_;
  if (!Number(bytes, sizeof field->length, &field->length)) return false;
  if (field->length > most) {
    return Fail(common::StrCat("a text of ", field->length, " bytes, of at most ", most));
  }
  if (at_ + field->length > kRequestBytesMax) {
    return Fail(common::StrCat("a request of more than ", kRequestBytesMax, " bytes"));
  }
  if (bytes.size() - at_ < field->length) {
    at_ = begin;
    return false;
  }
  field->at = at_;
  at_ += field->length;
  return true;
}

// False: more bytes are needed, or why_ is set.
bool RequestReader::Scan(std::string_view bytes) {
  if (!is_begun_) {
    if (bytes.empty()) return false;
    const auto op = static_cast<uint8_t>(bytes[0]);
    if (op > kLastOp) return Fail(common::StrCat("operation ", unsigned{op}, " is not known"));
    op_ = static_cast<Op>(op);
    is_begun_ = true;
    at_ = 1;
  }
  const Shape& shape = ShapeOf(op_);
  if (!is_counted_) {
    left_ = 1;
    if (shape.is_list && !Number(bytes, sizeof left_, &left_)) return false;
    if (left_ > kKeysMax) {
      return Fail(common::StrCat("a list of ", left_, " keys, of at most ", kKeysMax));
    }
    left_ *= static_cast<uint64_t>(shape.texts);
    is_counted_ = true;
  }
  for (; left_ > 0; --left_) {
    const bool is_key = fields_.size() % static_cast<size_t>(shape.texts) == 0;
    Field field;
    if (!Text(bytes, is_key ? kKeyBytesMax : kValueBytesMax, &field)) return false;
    fields_.push_back(field);
  }
  return shape.number_bytes == 0 || has_number_ ||
         (has_number_ = Number(bytes, shape.number_bytes, &number_));
}

void RequestReader::Fill(std::string_view bytes, Request* request) const {
  const Shape& shape = ShapeOf(op_);
  const auto text = [&](size_t i) { return bytes.substr(fields_[i].at, fields_[i].length); };
  request->op = op_;
  request->number = static_cast<int64_t>(number_);
  request->key = request->value = request->expected = {};
  request->keys.clear();
  request->values.clear();
  if (shape.is_list) {
    const auto step = static_cast<size_t>(shape.texts);
    for (size_t i = 0; i < fields_.size(); i += step) {
      request->keys.push_back(text(i));
      if (step == 2) request->values.push_back(text(i + 1));
    }
    return;
  }
  if (shape.texts > 0) request->key = text(0);
  if (shape.texts > 1) request->value = text(fields_.size() - 1);
  if (shape.texts > 2) request->expected = text(1);
}

RequestReader::Outcome RequestReader::Read(std::string_view bytes, Request* request) {
  used_ = 0;
  if (!Scan(bytes)) return why_.empty() ? Outcome::kPartial : Outcome::kBad;
  Fill(bytes, request);
  used_ = at_;
  Restart();
  return Outcome::kWhole;
}

void AppendNumber(std::string* out, uint64_t number) {
  out->append(reinterpret_cast<const char*>(&number), sizeof number);
}

void AppendText(std::string* out, std::string_view text) {
  AppendNumber(out, text.size());
  out->append(text);
}

void AppendAdd(std::string* out, std::string_view key, int64_t amount) {
  out->push_back(static_cast<char>(Op::kAdd));
  AppendText(out, key);
  AppendNumber(out, static_cast<uint64_t>(amount));
}

void AppendGet(std::string* out, std::string_view key) {
  out->push_back(static_cast<char>(Op::kGet));
  AppendText(out, key);
}

}  // namespace muster::rendezvous
