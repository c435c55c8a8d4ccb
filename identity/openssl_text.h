// Text in and out of OpenSSL, and owners for what it allocates. For sources that include OpenSSL.
#pragma once

#include <openssl/bio.h>

#include <memory>
#include <string>
#include <string_view>

namespace muster::identity {

// std::unique_ptr<X509, Freed<X509_free>>
template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* each) const {
    kFree(each);
  }
};
using BioHandle = std::unique_ptr<BIO, Freed<BIO_free>>;

// Reads from `text`, which must outlive it.
inline BioHandle Reading(std::string_view text) {
  return BioHandle(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

inline BioHandle Writing() { return BioHandle(BIO_new(BIO_s_mem())); }

inline std::string TextOf(const BioHandle& out) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<size_t>(size)};
}

}  // namespace muster::identity
