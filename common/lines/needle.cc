#include "common/lines/needle.h"

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace muster::common {
namespace {

// Bytes that are frequent in logs, the most frequent first; all others are rare.
constexpr std::string_view kCommonBytes =
    " e0t1an2ois3r5l4d.6789:c\npmu/h_f,-gb[]='\"ywvTkIxES(){}zRDANOWLjCPMFqBUGHV+\t|";

size_t Commonness(char byte) {
  const size_t place = kCommonBytes.find(byte);
  return place == std::string_view::npos ? 0 : kCommonBytes.size() - place;
}

// Of the places other than `but`, unless that is the only one.
size_t RarestPlace(std::string_view bytes, size_t but) {
  size_t rarest = bytes.size() > 1 && but == 0 ? 1 : 0;
  for (size_t i = rarest + 1; i < bytes.size(); ++i) {
    if (i != but && Commonness(bytes[i]) < Commonness(bytes[rarest])) rarest = i;
  }
  return rarest;
}

}  // namespace

Needle::Needle(std::string bytes) : bytes_(std::move(bytes)) {
  rarest_ = RarestPlace(bytes_, bytes_.size());
  second_ = RarestPlace(bytes_, rarest_);
}

size_t Needle::FindByRarest(std::string_view text, size_t from) const {
  const size_t behind = bytes_.size() - rarest_;
  for (size_t at = from + rarest_; at + behind <= text.size(); ++at) {
    const void* hit = std::memchr(text.data() + at, bytes_[rarest_], text.size() - behind + 1 - at);
    if (hit == nullptr) return text.npos;
    at = static_cast<size_t>(static_cast<const char*>(hit) - text.data());
    if (std::memcmp(text.data() + at - rarest_, bytes_.data(), bytes_.size()) == 0)
      return at - rarest_;
  }
  return text.npos;
}

#if defined(__SSE2__)
size_t Needle::Find(std::string_view text, size_t from) const {
  constexpr size_t kStep = sizeof(__m128i);
  const __m128i rarest = _mm_set1_epi8(bytes_[rarest_]);
  const __m128i second = _mm_set1_epi8(bytes_[second_]);
  const char* const data = text.data();
  size_t at = from;
  for (; at + bytes_.size() + kStep <= text.size(); at += kStep) {
    const auto* one = reinterpret_cast<const __m128i*>(data + at + rarest_);
    const auto* other = reinterpret_cast<const __m128i*>(data + at + second_);
    const __m128i both = _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128(one), rarest),
                                       _mm_cmpeq_epi8(_mm_loadu_si128(other), second));
    for (auto hits = static_cast<uint32_t>(_mm_movemask_epi8(both)); hits != 0; hits &= hits - 1) {
      const size_t place = at + static_cast<size_t>(__builtin_ctz(hits));
      if (std::memcmp(data + place, bytes_.data(), bytes_.size()) == 0) return place;
    }
  }
  return FindByRarest(text, at);
}
#else
size_t Needle::Find(std::string_view text, size_t from) const { return FindByRarest(text, from); }
#endif

}  // namespace muster::common
