// One line of a .gitignore or .musterignore, matched as in gitignore(5) and git's wildmatch, in time
// proportional to pattern × path, whatever the pattern is. Pure, any thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::tree {

inline constexpr size_t kPatternBytesMax = 4'096;  // longer ones match nothing

class IgnorePattern {
 public:
  // nullopt: a comment, an empty line, or one that can match nothing. Without its line break.
  static std::optional<IgnorePattern> Parse(std::string_view line);

  // `path` is relative to the directory of the file that has the line.
  bool Matches(std::string_view path, bool is_directory) const;
  bool negative() const { return negative_; }  // "!…": paths that match are not ignored after all

 private:
  struct Token {
    enum Type : uint8_t { kByte, kAny, kClass, kStar } type;
    char byte = 0;             // of kByte
    uint16_t class_index = 0;  // of kClass
  };
  struct Segment {
    bool any_directories = false;  // "**" alone between slashes
    uint32_t begin = 0, end = 0;   // of tokens_
  };

  bool Compile(std::string_view glob);
  // Reads "[…]" from `at`, which is just after the "["; moves `at` to just after the "]".
  bool CompileClass(std::string_view glob, size_t* at);
  bool MatchesToken(const Token& token, char c) const;
  bool MatchesSegment(const Segment& segment, std::string_view name) const;
  bool MatchesSegments(std::string_view path) const;

  bool negative_ = false;
  bool directories_only_ = false;
  bool any_depth_ = false;  // no slash: the last component is compared, at any depth
  bool is_suffix_ = false;  // "*.pyc": literal_ is ".pyc"
  std::string literal_;     // the part before the first special character
  bool has_glob_ = false;   // something follows literal_
  std::vector<Token> tokens_;
  std::vector<Segment> segments_;
  std::vector<std::bitset<256>> classes_;
};

}  // namespace muster::tree
