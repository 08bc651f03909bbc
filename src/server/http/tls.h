#pragma once
// A certificate with its key, as a server shows it to clients. OpenSSL stays in tls.cpp and byte_stream.cpp.
//
// Threads: immutable; any number of connections may use one.

#include <memory>
#include <string>

#include "base/result.h"

struct ssl_ctx_st;

namespace rocmforge::server {

struct TlsFiles {
  std::string certificate;  // PEM: the server's own first, then those that lead to its authority
  std::string key;          // PEM, without a passphrase
};

class TlsContext {
 public:
  // TLS 1.2 and 1.3. A certificate that has expired is taken, with a warning in the log.
  // file_read: a file cannot be read. invalid_argument: it holds no certificate or key, the key has a passphrase, or
  // the two do not belong together.
  static Result<std::shared_ptr<const TlsContext>> load(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  ssl_ctx_st* native() const { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

}  // namespace rocmforge::server
