#include "exported/symbolic_size.h"

#include <charconv>

namespace muster {
namespace {

constexpr int kDepthMax = 32;
const SymbolicSize kUnknown{.is_known = false};

class Expression {
 public:
  explicit Expression(std::string_view text) : rest_(text) {}

  SymbolicSize read() {
    const SymbolicSize size = term(0);
    return rest_.empty() ? size : kUnknown;
  }

 private:
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  SymbolicSize term(int depth) {
    if (depth > kDepthMax) return kUnknown;
    if (take("Integer(")) return number();
    if (take("Symbol('")) return symbol();
    const bool is_sum = take("Add(");
    if (!is_sum && !take("Mul(")) return kUnknown;
    SymbolicSize result{.offset = is_sum ? 0 : 1};
    do {
      combine(result, term(depth + 1), is_sum);
    } while (result.is_known && take(", "));
    if (!take(")")) return kUnknown;
    return result;
  }

  SymbolicSize number() {
    SymbolicSize size;
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), size.offset);
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return error == std::errc() && take(")") ? size : kUnknown;
  }

  SymbolicSize symbol() {
    const size_t quote = rest_.find('\''), end = rest_.find(')');
    if (quote == std::string_view::npos || end == std::string_view::npos || end < quote)
      return kUnknown;
    constexpr size_t kSymbolBytesMax = 64;
    if (quote > kSymbolBytesMax) return kUnknown;
    SymbolicSize size{.symbol = std::string(rest_.substr(0, quote)), .factor = 1};
    rest_.remove_prefix(end + 1);
    return size;
  }

  static void combine(SymbolicSize& left, const SymbolicSize& right, bool is_sum) {
    const bool both = !left.symbol.empty() && !right.symbol.empty();
    bool fits = left.is_known && right.is_known && !both;
    if (fits && is_sum) {
      fits = !__builtin_add_overflow(left.offset, right.offset, &left.offset);
      left.factor += right.factor;  // one of them is 0
    } else if (fits) {
      const SymbolicSize& open = right.symbol.empty() ? left : right;
      const int64_t scale = right.symbol.empty() ? right.offset : left.offset;
      int64_t factor = 0, offset = 0;
      fits = !__builtin_mul_overflow(open.factor, scale, &factor) &&
             !__builtin_mul_overflow(open.offset, scale, &offset);
      const std::string symbol = open.symbol;
      left = {symbol, factor, offset};
    }
    if (left.symbol.empty() && is_sum) left.symbol = right.symbol;
    if (!fits) left.is_known = false;
  }

  std::string_view rest_;
};

}  // namespace

SymbolicSize parse_symbolic_size(std::string_view expression) {
  return Expression(expression).read();
}

}  // namespace muster
