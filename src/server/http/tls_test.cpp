// HTTPS on loopback with OpenSSL's own client, and certificates made here.

#include "server/http/tls.h"

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <fstream>
#include <memory>
#include <thread>

#include "server/http/http_server.h"
#include "server/http/test_client.h"
#include "support/support.h"

namespace rocmforge::server {
namespace {

using namespace std::chrono_literals;
using testing::TestClient;

template <class T, void (*free)(T*)>
struct Freed {
  void operator()(T* p) const { free(p); }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509, X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freed<SSL, SSL_free>>;
struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, CloseFile>;

// A key, and a certificate that it signs itself.
struct Identity {
  explicit Identity(const char* name, long from = 0, long until = 3600) : key(EVP_EC_gen("P-256")), own(X509_new()) {
    X509_set_version(own.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(own.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(own.get()), from);
    X509_gmtime_adj(X509_getm_notAfter(own.get()), until);
    X509_set_pubkey(own.get(), key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(own.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name), -1, -1, 0);
    X509_set_issuer_name(own.get(), X509_get_subject_name(own.get()));
    EXPECT_GT(X509_sign(own.get(), key.get(), EVP_sha256()), 0);
  }
  // Writes both; with a passphrase the key is encrypted.
  TlsFiles write(const rocmforge::testing::TempDir& dir, const std::string& name,
                 const char* passphrase = nullptr) const {
    TlsFiles files{dir.file(name + ".pem"), dir.file(name + ".key")};
    PEM_write_X509(File(std::fopen(files.certificate.c_str(), "w")).get(), own.get());
    PEM_write_PrivateKey(File(std::fopen(files.key.c_str(), "w")).get(), key.get(),
                         passphrase ? EVP_aes_128_cbc() : nullptr, nullptr, 0, nullptr, const_cast<char*>(passphrase));
    return files;
  }
  Key key;
  Certificate own;
};

class TlsTest : public ::testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.port = 0;
    options.sweep = 10ms;
    options.tls = TlsContext::load(first_.write(dir_, "first")).value();
    auto server = HttpServer::listen(
        options,
        [](std::shared_ptr<Exchange> exchange) {
          exchange->respond({.content_type = "text/plain"}, exchange->take_body().bytes + exchange->request().target);
        },
        [](const HttpError& error) {
          return std::pair(ResponseHead{.status = error.status}, std::string(error.reason));
        });
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    loop_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->stop(0ms);
    loop_.join();
  }

  rocmforge::testing::TempDir dir_;
  const Identity first_{"first"}, second_{"second"};
  std::unique_ptr<HttpServer> server_;
  std::thread loop_;
};

// OpenSSL's client over a socket.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int newest_version = 0)
      : socket_(port), context_(SSL_CTX_new(TLS_client_method())) {
    if (newest_version) SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_set_min_proto_version(context_.get(), 0);
    SSL_CTX_set_max_proto_version(context_.get(), newest_version);
    session_.reset(SSL_new(context_.get()));
    SSL_set_fd(session_.get(), socket_.descriptor());
    is_open_ = SSL_connect(session_.get()) == 1;
    ERR_clear_error();
  }
  bool is_open() const { return is_open_; }
  std::string name() const {
    const Certificate shown(SSL_get1_peer_certificate(session_.get()));
    char name[64] = "";
    if (shown) X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, name, sizeof name);
    return name;
  }
  bool send(std::string_view bytes) {
    return SSL_write(session_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }
  // Everything until `end` has come, or the server has closed.
  std::string read_until(std::string_view end) {
    std::string all;
    char buffer[4096];
    while (all.find(end) == std::string::npos) {
      const int n = SSL_read(session_.get(), buffer, sizeof buffer);
      if (n <= 0) break;
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }
  // Whether the server ends the session instead of just going away.
  bool is_ended_properly() {
    char byte;
    return SSL_read(session_.get(), &byte, 1) <= 0 && (SSL_get_shutdown(session_.get()) & SSL_RECEIVED_SHUTDOWN) != 0;
  }

 private:
  TestClient socket_;
  Context context_;
  Session session_;
  bool is_open_ = false;
};

TEST_F(TlsTest, AnswersRequestsOneAfterAnother) {
  start();
  TlsClient client(server_->port());
  ASSERT_TRUE(client.is_open());
  EXPECT_EQ(client.name(), "first");
  for (const std::string target : {"/one", "/two"}) {
    ASSERT_TRUE(client.send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_NE(client.read_until(target).find("HTTP/1.1 200"), std::string::npos);
  }
  const std::string body(300'000, 'b');  // many records
  ASSERT_TRUE(client.send("POST /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n"));
  for (size_t at = 0; at < body.size(); at += 10'000) ASSERT_TRUE(client.send(body.substr(at, 10'000)));
  EXPECT_NE(client.read_until("/end").find(body + "/end"), std::string::npos);
  EXPECT_TRUE(client.is_ended_properly());
}

TEST_F(TlsTest, TellsThoseWhoSpeakPlainHttp) {
  start();
  TestClient client(server_->port());
  ASSERT_TRUE(client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  const std::string answer = client.read_some();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 400")) << answer;
  EXPECT_NE(answer.find("https://"), std::string::npos) << answer;
}

TEST_F(TlsTest, ClosesOnThoseWhoDoNotFinishTheHandshake) {
  start({.first_byte = 100ms});
  TestClient silent(server_->port()), half(server_->port()), noise(server_->port());
  ASSERT_TRUE(half.send(std::string("\x16\x03\x01\x02\x00\x01", 6)));  // the beginning of a ClientHello
  ASSERT_TRUE(noise.send("\x16\x03\x01\xff\xff garbage"));
  for (TestClient* client : {&silent, &half, &noise}) {
    while (!client->read_some(5s).empty()) {
    }
    EXPECT_TRUE(client->is_closed_by_server());
  }
  EXPECT_TRUE(TlsClient(server_->port()).is_open()) << "others are served";
}

TEST_F(TlsTest, RefusesOldVersions) {
  start();
  EXPECT_FALSE(TlsClient(server_->port(), TLS1_1_VERSION).is_open());
  EXPECT_TRUE(TlsClient(server_->port(), TLS1_2_VERSION).is_open());
}

TEST_F(TlsTest, ShowsANewCertificateToNewConnections) {
  start();
  TlsClient old(server_->port());
  server_->set_tls(TlsContext::load(second_.write(dir_, "second")).value());
  ASSERT_TRUE(old.send("GET /old HTTP/1.1\r\nHost: x\r\n\r\n")) << "connections go on";
  EXPECT_NE(old.read_until("/old").find("200"), std::string::npos);
  EXPECT_EQ(TlsClient(server_->port()).name(), "second");
}

TEST_F(TlsTest, ACloseInTheMiddleOfAnAnswerHarmsNobody) {
  start();
  for (int i = 0; i < 20; i++) {
    TlsClient client(server_->port());
    ASSERT_TRUE(client.send("GET /gone HTTP/1.1\r\nHost: x\r\n\r\n"));
  }
  TlsClient client(server_->port());
  ASSERT_TRUE(client.send("GET /here HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_NE(client.read_until("/here").find("200"), std::string::npos);
}

// --- files

class TlsFilesTest : public TlsTest {
 protected:
  static void expect_refused(const TlsFiles& files, ErrorCode code, std::string_view part) {
    const auto loaded = TlsContext::load(files);
    ASSERT_FALSE(loaded.ok()) << part;
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
    EXPECT_NE(loaded.error().message.find(part), std::string::npos) << loaded.error().message;
  }
};

TEST_F(TlsFilesTest, ThatAreNoCertificateAndKeyAreRefusedByName) {
  const TlsFiles first = first_.write(dir_, "first"), second = second_.write(dir_, "second");
  const TlsFiles locked = first_.write(dir_, "locked", "secret");
  std::ofstream(dir_.file("noise.pem")) << "-----BEGIN CERTIFICATE-----\nnoise\n";
  expect_refused({"", first.key}, ErrorCode::invalid_argument, "--tls-cert");
  expect_refused({first.certificate, ""}, ErrorCode::invalid_argument, "--tls-key");
  expect_refused({dir_.file("none.pem"), first.key}, ErrorCode::file_read, "none.pem");
  expect_refused({first.certificate, dir_.file("none.key")}, ErrorCode::file_read, "none.key");
  expect_refused({dir_.file("noise.pem"), first.key}, ErrorCode::invalid_argument, "noise.pem");
  expect_refused({first.key, first.certificate}, ErrorCode::invalid_argument, "first.key' holds no usable certificate");
  expect_refused({first.certificate, second.key}, ErrorCode::invalid_argument, "second.key");
  expect_refused(locked, ErrorCode::invalid_argument, "passphrase");
  EXPECT_TRUE(TlsContext::load(first).ok());
}

TEST_F(TlsFilesTest, ThatHaveExpiredAreTaken) {
  EXPECT_TRUE(TlsContext::load(Identity("past", -7200, -3600).write(dir_, "past")).ok());
}

}  // namespace
}  // namespace rocmforge::server
