// Text in and out of OpenSSL. For the sources of this folder.
#pragma once

#include <openssl/bio.h>

#include <memory>
#include <string>
#include <string_view>

namespace muster::identity {

using BioHandle = std::unique_ptr<BIO, decltype(&BIO_free)>;

// Reads from `text`, which must outlive it.
inline BioHandle Reading(std::string_view text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

inline BioHandle Writing() { return {BIO_new(BIO_s_mem()), BIO_free}; }

inline std::string TextOf(const BioHandle& out) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<size_t>(size)};
}

}  // namespace muster::identity
