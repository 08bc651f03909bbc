#include "server/http/tls.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <string_view>

#include "base/log.h"

namespace rocmforge::server {
namespace {

std::string reason_of_openssl() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason ? reason : "no reason was given";
}

Error wrong(std::string_view what) {
  return {ErrorCode::invalid_argument, fmt::format("tls: {}: {}", what, reason_of_openssl())};
}

Result<void> check_readable(const std::string& path, std::string_view flag) {
  if (path.empty()) return Error{ErrorCode::invalid_argument, fmt::format("tls: {} is missing", flag)};
  if (::access(path.c_str(), R_OK) != 0) {
    return Error{ErrorCode::file_read, fmt::format("tls: '{}' cannot be read", path)};
  }
  return {};
}

void warn_if_expired(const SSL_CTX* context, const std::string& path) {
  const X509* certificate = SSL_CTX_get0_certificate(context);
  if (!certificate) return;
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    log(LogLevel::warn, "tls: the certificate in '{}' has expired; clients will refuse it", path);
  } else if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    log(LogLevel::warn, "tls: the certificate in '{}' is not valid yet; clients will refuse it", path);
  }
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsFiles& files) {
  TRY(check_readable(files.certificate, "the certificate (--tls-cert)"));
  TRY(check_readable(files.key, "the key (--tls-key)"));
  ERR_clear_error();
  SSL_CTX* native = SSL_CTX_new(TLS_server_method());
  if (!native) return wrong("no context");
  const std::shared_ptr<const TlsContext> context(new TlsContext(native));
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  // OpenSSL would ask at the terminal.
  SSL_CTX_set_default_passwd_cb(native, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(native, files.certificate.c_str()) != 1) {
    return wrong(fmt::format("'{}' holds no usable certificate", files.certificate));
  }
  if (SSL_CTX_use_PrivateKey_file(native, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return wrong(fmt::format("'{}' holds no usable key for the certificate in '{}' (a key must have no passphrase)",
                             files.key, files.certificate));
  }
  if (SSL_CTX_check_private_key(native) != 1) {
    return wrong(fmt::format("the key in '{}' is not that of the certificate in '{}'", files.key, files.certificate));
  }
  warn_if_expired(native, files.certificate);
  return context;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

}  // namespace rocmforge::server
