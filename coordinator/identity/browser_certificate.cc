#include "coordinator/identity/browser_certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "identity/openssl_text.h"

namespace muster::coordinator {
namespace {

using common::StrCat;
using Leaf = std::unique_ptr<X509, identity::Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, identity::Freed<EVP_PKEY_free>>;

constexpr size_t kBrowserPemMax = 256 * 1024;

absl::Status Unusable(std::string what, std::string why, std::string fix) {
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1369", .what = std::move(what), .why = std::move(why), .fix = std::move(fix)});
}

absl::StatusOr<std::string> ReadPem(const std::string& path, const char* flag) {
  absl::StatusOr<std::string> text = common::ReadFile(path, kBrowserPemMax);
  if (text.ok()) return text;
  return Unusable(StrCat(flag, " ", path, " cannot be read"), common::MessageOf(text.status()),
                  StrCat("name a file in PEM that this user may read: ", flag, " FILE"));
}

// In the form of a Host field; empty: neither a name nor an address.
std::string HostOfName(const GENERAL_NAME* name) {
  const ASN1_STRING* value = name->type == GEN_DNS     ? name->d.dNSName
                             : name->type == GEN_IPADD ? name->d.iPAddress
                                                       : nullptr;
  if (value == nullptr) return "";
  const unsigned char* bytes = ASN1_STRING_get0_data(value);
  const int size = ASN1_STRING_length(value);
  if (name->type == GEN_DNS) {
    return {reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)};
  }
  char text[INET6_ADDRSTRLEN] = {};
  if (size == 4) inet_ntop(AF_INET, bytes, text, sizeof text);
  if (size == 16) inet_ntop(AF_INET6, bytes, text, sizeof text);
  return text;
}

Leaf LeafOf(std::string_view pem) {
  return Leaf(PEM_read_bio_X509(identity::Reading(pem).get(), nullptr, nullptr, nullptr));
}

Key KeyOf(std::string_view pem) {
  char none[] = "";  // an empty passphrase: never ask the terminal for one
  Key key(PEM_read_bio_PrivateKey(identity::Reading(pem).get(), nullptr, nullptr, none));
  ERR_clear_error();
  return key;
}

bool IsFor(X509* leaf, const std::string& host) {
  return X509_check_host(leaf, host.data(), host.size(), 0, nullptr) == 1 ||
         X509_check_ip_asc(leaf, host.c_str(), 0) == 1;
}

absl::Status CheckTime(X509* leaf, const std::string& path, int64_t now_ms) {
  time_t now = now_ms / 1'000;
  const bool is_over = X509_cmp_time(X509_get0_notAfter(leaf), &now) < 0;
  if (!is_over && X509_cmp_time(X509_get0_notBefore(leaf), &now) <= 0) return absl::OkStatus();
  return Unusable(
      StrCat("the certificate in ", path, is_over ? " has expired" : " is not valid yet"),
      "browsers would warn of it, as of the cluster's own",
      is_over ? "have it renewed" : "wait, or set this machine's clock");
}

}  // namespace

BrowserFiles BrowserFilesIn(const std::string& keys_dir) {
  return {.certificate = StrCat(keys_dir, "/browser.pem"), .key = StrCat(keys_dir, "/browser.key")};
}

std::vector<std::string> HostsOfCertificate(std::string_view pem) {
  std::vector<std::string> hosts;
  const Leaf leaf = LeafOf(pem);
  if (leaf == nullptr) return hosts;
  auto* const all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(leaf.get(), NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    std::string host = HostOfName(sk_GENERAL_NAME_value(all, i));
    if (!host.empty()) hosts.push_back(std::move(host));
  }
  GENERAL_NAMES_free(all);
  return hosts;
}

absl::StatusOr<BrowserCertificate> ReadBrowserCertificate(const BrowserFiles& files,
                                                          const std::vector<std::string>& hosts,
                                                          int64_t now_ms) {
  BrowserCertificate read;
  ASSIGN_OR_RETURN(read.certificate_pem, ReadPem(files.certificate, "--certificate"));
  ASSIGN_OR_RETURN(read.key_pem, ReadPem(files.key, "--key"));
  const Leaf leaf = LeafOf(read.certificate_pem);
  const Key key = KeyOf(read.key_pem);
  if (leaf == nullptr || key == nullptr || X509_check_private_key(leaf.get(), key.get()) != 1) {
    return Unusable(
        StrCat("the certificate in ", files.certificate, " and the key in ", files.key,
               " cannot be used together"),
        leaf == nullptr  ? "the first is not a certificate in PEM"
        : key == nullptr ? "the second is not an unencrypted private key in PEM"
                         : "the key is another certificate's",
        "name the certificate, with its chain behind it, and the unencrypted key that it was made "
        "for, both in PEM");
  }
  RETURN_IF_ERROR(CheckTime(leaf.get(), files.certificate, now_ms));
  for (const std::string& host : hosts) {
    if (IsFor(leaf.get(), host)) return read;
  }
  if (hosts.empty()) return read;
  return Unusable(
      StrCat("the certificate in ", files.certificate, " is not for ",
             absl::StrJoin(hosts, " or ")),
      StrCat("it is for ", absl::StrJoin(HostsOfCertificate(read.certificate_pem), ", ")),
      "name with --host what people type in the browser, or have a certificate for it");
}

}  // namespace muster::coordinator
