// The protocol of torch's TCPStore, as its clients of torch 2.11 to 2.14 speak it: one byte for the operation, then
// its fields in native byte order; a text is its u64 length and its bytes. PyTorch does not document it; it was
// observed between torch 2.13's own client and server. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::rendezvous {

enum class Op : uint8_t {
  kValidate = 0,     // u32 kMagic; the first request of every connection, and not answered
  kSet = 1,          // key, value; not answered
  kCompareSet = 2,   // key, expected, value; answer: a text, the value after the call
  kGet = 3,          // key; answer: a text
  kAdd = 4,          // key, i64; answer: i64, the sum, which is stored as decimal text
  kCheck = 5,        // keys; answer: u8, kAllThere or kNotAllThere
  kWait = 6,         // keys; answer: u8 kGoOn, once all are there
  kCount = 7,        // answer: i64, the number of keys
  kDelete = 8,       // key; answer: i64, how many were deleted
  kAppend = 9,       // key, value; not answered
  kMultiGet = 10,    // keys; answer: a text for each
  kMultiSet = 11,    // u64, then key and value of each; not answered
  kCancelWait = 12,  // answer: u8 kCanceled; the only request that may come while another one waits
  kPing = 13,        // u32; answer: the same
  kPush = 14,        // key, value; not answered
  kPop = 15,         // key; answer: i64, the length before the call, and if it is not 0 a text
  kLength = 16,      // key; answer: i64
  kList = 17,        // answer: u64, and as many texts
  kBarrier = 18,     // key, i64; answer: u8 kGoOn, once the key was in so many of these calls
};
inline constexpr uint8_t kLastOp = 18;

inline constexpr uint32_t kMagic = 0x3C85F7CE;
inline constexpr char kAllThere = 0, kNotAllThere = 1;
inline constexpr char kGoOn = 0, kCanceled = 1;

// The limits of torch's own server.
// limit: rendezvous: bytes of a key; the connection is closed
inline constexpr uint64_t kKeyBytesMax = 8 << 10;
// limit: rendezvous: bytes of a value; the connection is closed
inline constexpr uint64_t kValueBytesMax = 8 << 20;
// limit: rendezvous: keys of a request; the connection is closed
inline constexpr uint64_t kKeysMax = 131'072;
// limit: rendezvous: bytes of a request; the connection is closed
inline constexpr uint64_t kRequestBytesMax = 64 << 20;

// The views are into the bytes that were read.
struct Request {
  Op op = Op::kPing;
  std::string_view key, value, expected;
  int64_t number = 0;  // of kAdd and kBarrier; kPing's nonce, kValidate's magic
  std::vector<std::string_view> keys, values;

  bool IsAnswered() const;
};

// Reads requests from the beginning of a buffer that grows. What was read of an unfinished request is not read
// again, so that the cost does not depend on the pieces in which it comes.
class RequestReader {
 public:
  enum class Outcome { kWhole, kPartial, kBad };
  // kWhole: `request` is set, and takes the first Used() bytes, which the next call no longer gets. kBad: Why() is
  // the reason, and nothing after it can be read.
  Outcome Read(std::string_view bytes, Request* request);
  size_t Used() const { return used_; }
  const std::string& Why() const { return why_; }

 private:
  struct Field {
    size_t at = 0;
    uint64_t length = 0;
  };
  bool Number(std::string_view bytes, size_t size, uint64_t* number);
  bool Text(std::string_view bytes, uint64_t most, Field* field);
  bool Scan(std::string_view bytes);
  void Fill(std::string_view bytes, Request* request) const;
  bool Fail(std::string why);
  void Restart();

  Op op_ = Op::kPing;
  bool is_begun_ = false;
  bool is_counted_ = false;
  uint64_t left_ = 0;  // texts of a list that are to come
  uint64_t number_ = 0;
  bool has_number_ = false;
  std::vector<Field> fields_;
  size_t at_ = 0;
  size_t used_ = 0;
  std::string why_;
};

// What a server answers, and what a client asks.
void AppendNumber(std::string* out, uint64_t number);
void AppendText(std::string* out, std::string_view text);
void AppendAdd(std::string* out, std::string_view key, int64_t amount);
void AppendGet(std::string* out, std::string_view key);

}  // namespace muster::rendezvous
