// SHA-256, in plain C++, with AVX2, and with the processor's SHA instructions where it has them
// (several times faster: checkpoints are hashed while they are written, so it counts).
#include "base/sha256.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace muster {
namespace {

alignas(16) constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Forced into its callers, so that each compiles it for its own set of instructions.
#define MUSTER_INLINE inline __attribute__((always_inline))

MUSTER_INLINE uint32_t rotate_right(uint32_t value, int bits) {
  return (value >> bits) | (value << (32 - bits));
}

// One round on the eight words of the state; the caller rotates their names instead of moving them.
MUSTER_INLINE void round_of(uint32_t a, uint32_t b, uint32_t c, uint32_t& d, uint32_t e, uint32_t f,
                            uint32_t g, uint32_t& h, uint32_t word) {
  h +=
      (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) + (g ^ (e & (f ^ g))) + word;
  d += h;
  h += (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) | (c & (a | b)));
}

// The 64 rounds; words[stride * (i / 4) + i % 4] is message word i plus the constant of round i.
MUSTER_INLINE void rounds(uint32_t* state, const uint32_t* words, int stride) {
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 8; ++i) {
    const uint32_t* low = words + 2 * i * stride;
    const uint32_t* high = low + stride;
    round_of(a, b, c, d, e, f, g, h, low[0]);
    round_of(h, a, b, c, d, e, f, g, low[1]);
    round_of(g, h, a, b, c, d, e, f, low[2]);
    round_of(f, g, h, a, b, c, d, e, low[3]);
    round_of(e, f, g, h, a, b, c, d, high[0]);
    round_of(d, e, f, g, h, a, b, c, high[1]);
    round_of(c, d, e, f, g, h, a, b, high[2]);
    round_of(b, c, d, e, f, g, h, a, high[3]);
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

void compress_plain(uint32_t* state, const uint8_t* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
           uint32_t{block[4 * i + 2]} << 8 | uint32_t{block[4 * i + 3]};
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  for (int i = 0; i < 64; ++i) w[i] += kRoundConstants[i];
  rounds(state, w, 4);
}

void compress_plain_blocks(uint32_t* state, const uint8_t* blocks, size_t count) {
  for (size_t i = 0; i < count; ++i) compress_plain(state, blocks + 64 * i);
}

#if defined(__x86_64__)
bool processor_has_sha() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & (1u << 29)) == 0) return false;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) != 0 && (c & bit_SSSE3) != 0;
}

bool processor_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

template <int kBits>
MUSTER_INLINE __attribute__((target("avx2,bmi2"))) __m256i rotate_words(__m256i words) {
  return _mm256_or_si256(_mm256_srli_epi32(words, kBits), _mm256_slli_epi32(words, 32 - kBits));
}

MUSTER_INLINE __attribute__((target("avx2,bmi2"))) __m256i small_sigma1(__m256i words) {
  return _mm256_xor_si256(_mm256_xor_si256(rotate_words<17>(words), rotate_words<19>(words)),
                          _mm256_srli_epi32(words, 10));
}

// The message words of two blocks at once, the first one in the low halves: four new words from the
// sixteen before. The last two of the four need the first two.
MUSTER_INLINE __attribute__((target("avx2,bmi2"))) __m256i next_words(__m256i w0, __m256i w4,
                                                                      __m256i w8, __m256i w12) {
  const __m256i ago15 = _mm256_alignr_epi8(w4, w0, 4);
  const __m256i s0 =
      _mm256_xor_si256(_mm256_xor_si256(rotate_words<7>(ago15), rotate_words<18>(ago15)),
                       _mm256_srli_epi32(ago15, 3));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(w0, s0), _mm256_alignr_epi8(w12, w8, 4));
  const __m256i zero = _mm256_setzero_si256();
  const __m256i last_two = _mm256_unpackhi_epi64(w12, zero);
  const __m256i first =
      _mm256_add_epi32(sum, _mm256_blend_epi32(small_sigma1(last_two), zero, 0xcc));
  const __m256i second = small_sigma1(_mm256_unpacklo_epi64(zero, first));
  return _mm256_add_epi32(first, _mm256_blend_epi32(second, zero, 0x33));
}

// The schedule is a third of the work and runs for two blocks together; the rounds depend on each
// other and stay scalar, with three-operand rotations.
// Source: Gueron and Krasnov, "Simultaneous Hashing of Multiple Messages", 2012.
__attribute__((target("avx2,bmi2"))) void compress_avx2_blocks(uint32_t* state,
                                                               const uint8_t* blocks,
                                                               size_t count) {
  const __m256i byte_order =
      _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL));
  alignas(32) uint32_t words[128];
  for (; count >= 2; count -= 2, blocks += 128) {
    __m256i w[4];
    for (int i = 0; i < 4; ++i) {
      const auto* low = reinterpret_cast<const __m128i*>(blocks + 16 * i);
      const auto* high = reinterpret_cast<const __m128i*>(blocks + 64 + 16 * i);
      w[i] =
          _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                                      _mm_loadu_si128(high), 1),
                              byte_order);
    }
#pragma GCC unroll 16  // keeps the words in registers
    for (int i = 0; i < 16; ++i) {
      const __m256i constants = _mm256_broadcastsi128_si256(
          _mm_load_si128(reinterpret_cast<const __m128i*>(kRoundConstants + 4 * i)));
      _mm256_store_si256(reinterpret_cast<__m256i*>(words + 8 * i),
                         _mm256_add_epi32(w[i % 4], constants));
      if (i < 12) w[i % 4] = next_words(w[i % 4], w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]);
    }
    rounds(state, words, 8);
    rounds(state, words + 4, 8);
  }
  compress_plain_blocks(state, blocks, count);
}

// Four rounds per message word vector; the schedule runs in a ring of four vectors.
// Source: Intel, "New Instructions Supporting the Secure Hash Algorithm", 2013.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_sha(uint32_t* state,
                                                              const uint8_t* block) {
  const __m128i byte_order = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  __m128i abcd = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state));
  __m128i efgh = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state + 4));
  // The instructions keep the state as ABEF and CDGH.
  abcd = _mm_shuffle_epi32(abcd, 0xb1);
  efgh = _mm_shuffle_epi32(efgh, 0x1b);
  __m128i abef = _mm_alignr_epi8(abcd, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, abcd, 0xf0);
  const __m128i abef_before = abef;
  const __m128i cdgh_before = cdgh;

  __m128i words[4];
  for (int i = 0; i < 4; ++i) {
    words[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * i)),
                                byte_order);
  }
  for (int i = 0; i < 16; ++i) {
    const __m128i current = words[i % 4];
    __m128i sum = _mm_add_epi32(
        current, _mm_load_si128(reinterpret_cast<const __m128i*>(kRoundConstants + 4 * i)));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
    sum = _mm_shuffle_epi32(sum, 0x0e);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
    if (i >= 12) continue;
    // words[i + 4] from words[i], [i + 1], [i + 2], [i + 3].
    const __m128i next = words[(i + 1) % 4];
    const __m128i last = words[(i + 3) % 4];
    const __m128i shifted = _mm_alignr_epi8(last, words[(i + 2) % 4], 4);
    words[i % 4] =
        _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(current, next), shifted), last);
  }
  abef = _mm_add_epi32(abef, abef_before);
  cdgh = _mm_add_epi32(cdgh, cdgh_before);
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

__attribute__((target("sha,sse4.1,ssse3"))) void compress_sha_blocks(uint32_t* state,
                                                                     const uint8_t* blocks,
                                                                     size_t count) {
  for (size_t i = 0; i < count; ++i) compress_sha(state, blocks + 64 * i);
}
#endif

#undef MUSTER_INLINE

using Compress = void (*)(uint32_t* state, const uint8_t* blocks, size_t count);

Compress fastest_compress() {
#if defined(__x86_64__)
  if (processor_has_sha()) return compress_sha_blocks;
  if (processor_has_avx2()) return compress_avx2_blocks;
#endif
  return compress_plain_blocks;
}

}  // namespace

void Sha256::compress(const uint8_t* blocks, size_t count) {
  static const Compress function = fastest_compress();
  function(state_.data(), blocks, count);
}

void Sha256::update(const void* data, size_t bytes) {
  const auto* input = static_cast<const uint8_t*>(data);
  total_bytes_ += bytes;
  if (tail_bytes_ > 0) {
    const size_t taken = std::min(bytes, tail_.size() - tail_bytes_);
    std::memcpy(tail_.data() + tail_bytes_, input, taken);
    tail_bytes_ += taken;
    input += taken;
    bytes -= taken;
    if (tail_bytes_ < tail_.size()) return;
    compress(tail_.data(), 1);
    tail_bytes_ = 0;
  }
  compress(input, bytes / 64);
  tail_bytes_ = bytes % 64;
  if (tail_bytes_ > 0) std::memcpy(tail_.data(), input + bytes - tail_bytes_, tail_bytes_);
}

std::string Sha256::hex_digest() {
  const uint64_t bits = total_bytes_ * 8;
  uint8_t padding[72] = {0x80};
  const size_t zeros = (tail_bytes_ < 56 ? 56 : 120) - tail_bytes_;
  for (int i = 0; i < 8; ++i) padding[zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(padding, zeros + 8);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += kDigits[(word >> shift) & 15];
  }
  return hex;
}

}  // namespace muster
