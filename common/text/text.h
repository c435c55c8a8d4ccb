// Text for people: making any bytes safe to print, hiding secrets, suggesting corrections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace muster::common {

// Valid UTF-8 without control characters (except tab) and without characters that are invisible or
// reorder others: what a person sees is the whole text.
bool IsCleanUtf8(std::string_view text);
// The same, but invisible characters are allowed: for files and values that people wrote, such as
// an emoji made of several characters. Not for names.
bool IsUtf8Text(std::string_view text);
// Clean, and a single path component that is neither hidden nor "." nor "..": safe to build a path
// from.
bool IsPathName(std::string_view name);
// Control characters, invisible characters and bytes that are not UTF-8 become \xNN; newline and
// tab are kept if `keep_layout`.
std::string Printable(std::string_view bytes, bool keep_layout = false);
// The first `bytes_max` bytes, printable, and "…" if there are more.
std::string PrintableStart(std::string_view bytes, size_t bytes_max);
// Valid UTF-8: at most `bytes_max` bytes of it, cut at a character boundary, and "…" if there are
// more.
std::string Clipped(std::string_view text, size_t bytes_max);
// True if lists and objects in this JSON are nested deeper than `depth`, or would be if it were
// JSON. Check before a recursive parser or printer sees untrusted bytes.
bool NestsDeeper(std::string_view json, size_t depth);
// TOKEN, KEY, PASSWORD, SECRET, CREDENTIAL in the name, in any case.
bool LooksSecret(std::string_view variable_name);
// Damerau–Levenshtein distance (an adjacent transposition counts as one).
size_t EditDistance(std::string_view a, std::string_view b);
// The candidate nearest to `word` within distance 2, or empty.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);
// "; did you mean "x"?", or nothing for an empty one.
std::string DidYouMean(std::string_view nearest);
// "1 rank", "2 ranks": `noun` with an s unless there is exactly one.
std::string Counted(uint64_t count, std::string_view noun);

}  // namespace muster::common
