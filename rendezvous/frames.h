// What the relay of a node and the root say to each other: u32 length of the rest, u8 kind, fields; native byte order,
// texts as in requests.h. In order, so that a relay learns of a change before it gets an answer that was given after
// the change. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster::rendezvous {

enum class Frame : uint8_t {
  // relay to root
  kAsk = 1,      // u64 number, then a request as a client sends it; answered by kAnswer in any case
  kWatch = 2,    // key: to be told when it is there
  kUnwatch = 3,  // key
  // u64 number, key, i64 ranks needed, i64 ranks that arrived here; answered by kAnswer: kGoOn, or kCanceled if
  // others are missing, and kPassed follows
  kArrive = 4,
  kCounts = 5,   // u64 exited, stuck: of the node's ranks
  kWatchOn = 6,  // key: as kWatch, for those who waited when the relay was last told of this queue
  kDecline = 7,  // key of a queue: the relay was told of an item, and no rank is left that wants it
  kDropped = 8,  // as kOutdated asked
  // root to relay
  kAnswer = 16,    // u64 number, u8: kMayKeep or 0, the answer
  kThere = 17,     // key, u8: kMayKeep or kIsQueue or neither, the value if it may be kept
  kOutdated = 18,  // key: its value has changed; answered by kDropped
  kPassed = 19,    // key: of the barrier
  kRefused = 20,   // u64 number, the reason: the request breaks a rule or a limit
  kEnd = 21,       // no rank is left that could end the waits
};

inline constexpr uint8_t kMayKeep = 1;  // the value, until kOutdated
inline constexpr uint8_t kIsQueue = 2;  // with something for one of those that wait

// limit: rendezvous: bytes of a message between nodes; the connection is closed
inline constexpr uint32_t kFrameBytesMax = (64 << 20) + 1024;

// Appends a frame whose fields are appended to `out` until it is finished.
class FrameWriter {
 public:
  FrameWriter(std::string* out, Frame kind);
  ~FrameWriter();
  FrameWriter(const FrameWriter&) = delete;
  FrameWriter& Number(uint64_t number);
  FrameWriter& Byte(uint8_t byte);
  FrameWriter& Text(std::string_view text);
  FrameWriter& Rest(std::string_view bytes);

 private:
  std::string* out_;
  size_t begin_;
};

// Reads the fields of a frame. Past its end it returns zeros and empty texts, and IsBad() is true.
class FrameReader {
 public:
  explicit FrameReader(std::string_view fields) : rest_(fields) {}
  uint64_t Number();
  uint8_t Byte();
  std::string_view Text();
  std::string_view Rest() { return rest_; }
  bool IsBad() const { return is_bad_; }

 private:
  std::string_view Take(uint64_t count);
  std::string_view rest_;
  bool is_bad_ = false;
};

// The next frame of a buffer. kPartial: more bytes are needed; kBad: it is longer than a frame may be.
enum class Split { kWhole, kPartial, kBad };
Split NextFrame(std::string_view bytes, Frame* kind, std::string_view* fields, size_t* used);

}  // namespace muster::rendezvous
