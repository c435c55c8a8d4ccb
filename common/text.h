// Text for people: making any bytes safe to print, hiding secrets, suggesting what was meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace muster::common {

// Valid UTF-8 without control characters (tab excepted) and without characters that are invisible
// or turn the order of the others around: what is read is what is there.
bool IsCleanUtf8(std::string_view text);
// The same, but invisible characters may be in it: files and values that people wrote, such as an
// emoji of several characters. Not for names.
bool IsUtf8Text(std::string_view text);
// Clean, and one component of a path that is neither hidden nor "." nor "..": a name that is safe
// to build a path from.
bool IsPathName(std::string_view name);
// Control characters, invisible ones and bytes that are no UTF-8 become \xNN; newline and tab stay
// when `keep_layout`.
std::string Printable(std::string_view bytes, bool keep_layout = false);
// True when lists and objects of this JSON lie in each other deeper than `depth`, or would if it
// were JSON. Asked before a parser or a printer that recurses sees bytes of others.
bool NestsDeeper(std::string_view json, size_t depth);
// TOKEN, KEY, PASSWORD, SECRET, CREDENTIAL in the name, in any case.
bool LooksSecret(std::string_view variable_name);
// Damerau–Levenshtein distance (adjacent transpositions count one).
size_t EditDistance(std::string_view a, std::string_view b);
// The candidate nearest to `word` within distance 2, or empty.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);
// "1 rank", "2 ranks": `noun` with an s unless there is exactly one.
std::string Counted(uint64_t count, std::string_view noun);

}  // namespace muster::common
