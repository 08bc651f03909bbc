#include "server/http/request_parser.h"

#include <gtest/gtest.h>

#include "support/support.h"

namespace rocmforge::server {
namespace {

using State = RequestParser::State;

const std::string kGet = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string post(std::string_view headers, std::string_view body) {
  return "POST /x HTTP/1.1\r\nHost: a\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

// The status of the refusal, or 200.
int status_of(std::string_view bytes, const HttpLimits& limits = {}) {
  RequestParser parser(limits);
  parser.feed(bytes);
  if (parser.state() == State::failed) return parser.error().status;
  return parser.state() == State::done ? 200 : 0;
}

TEST(RequestParser, ReadsARequest) {
  RequestParser parser;
  const std::string bytes = post("Content-Length: 5\r\nX-Thing:  a b \t\r\n", "hello");
  EXPECT_EQ(parser.feed(bytes + "GET"), bytes.size());
  ASSERT_EQ(parser.state(), State::done);
  const Request request = parser.take();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/x");
  EXPECT_EQ(*request.header("x-thing"), "a b");
  EXPECT_EQ(request.body, "hello");
  EXPECT_EQ(parser.state(), State::head);
  EXPECT_FALSE(parser.has_begun());
}

TEST(RequestParser, ReadsTheSameWhereverTheBytesAreCut) {
  const std::string bytes =
      post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n") + kGet;
  for (size_t first = 1; first < bytes.size(); first++) {
    RequestParser parser;
    size_t at = parser.feed(std::string_view(bytes).substr(0, first));
    if (parser.state() != State::done) at += parser.feed(std::string_view(bytes).substr(at));
    ASSERT_EQ(parser.state(), State::done) << first;
    EXPECT_EQ(parser.take().body, "hello 0123456789");
    EXPECT_EQ(bytes.size() - at, kGet.size());
  }
  RequestParser parser;
  for (const char c : bytes.substr(0, bytes.size() - kGet.size())) ASSERT_EQ(parser.feed({&c, 1}), 1u);
  ASSERT_EQ(parser.state(), State::done);
}

TEST(RequestParser, RefusesWhatTwoReadersMightReadDifferently) {
  const std::pair<std::string, int> cases[] = {
      {"GET / HTTP/1.1\nHost: a\n\n", 400},                      // bare LF
      {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400},                  // bare LF after a header
      {"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400},  // obs-fold
      {"GET / HTTP/1.1\r\nHost: a\r\nX: 1\rY: 2\r\n\r\n", 400},  // bare CR
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},               // a space before the colon
      {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},         // no name
      {"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 34), 400},  // NUL
      {"GET / HTTP/1.1\r\n\r\n", 400},                                       // no Host
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},                 // two of them
      {"GET / HTTP/1.1\r\nHost: x/v1/models?\r\n\r\n", 400},                 // CVE-2026-48746
      {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},  // two spaces
      {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},  // HTTP/0.9
      {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"\x16\x03\x01\x02\x01\xfc\x03\x03\n", 400},  // TLS
      {post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400},
      {post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400},
      {post("Content-Length: 5, 5\r\n", "hello"), 400},
      {post("Content-Length: +5\r\n", "hello"), 400},
      {post("Content-Length: -5\r\n", "hello"), 400},
      {post("Content-Length: 0x5\r\n", "hello"), 400},
      {post("Content-Length: 5 5\r\n", "hello"), 400},
      {post("Content-Length:\r\n", "hello"), 400},
      {post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
      {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501},
      {post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), 501},
      {post("Transfer-Encoding: identity\r\n", "0\r\n\r\n"), 501},
      {post("Transfer-Encoding: chunked\r\n", "-2\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", " 5\r\nhello\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "5;a=b\r\nhello\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "5\nhello\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "\r\nhello\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "5\r\nhello!\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "5\r\nhello\n0\r\n\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFF\r\n"), 413},
      {post("Transfer-Encoding: chunked\r\n", "10000000000000005\r\n"), 400},
      {post("Transfer-Encoding: chunked\r\n", "0\r\nX: y\r\n\r\n"), 400},
      {post("Content-Encoding: gzip\r\nContent-Length: 1\r\n", "x"), 415},
      {post("Expect: 200-ok\r\n", ""), 417},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
  };
  for (const auto& [bytes, status] : cases) EXPECT_EQ(status_of(bytes), status) << bytes;
}

TEST(RequestParser, AcceptsWhatIsAllowed) {
  for (const std::string& bytes :
       {kGet, "\r\n" + kGet, post("Transfer-Encoding: Chunked\r\n", "0\r\n\r\n"), post("Content-Length: 0\r\n", ""),
        post("Content-Length: 0000000000000000000005\r\n", "hello"), post("content-encoding: identity\r\n", ""),
        std::string("GET / HTTP/1.0\r\n\r\n"), std::string("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nHost: [::1]:80\r\nX: \xc3\xa9\r\n\r\n")}) {
    EXPECT_EQ(status_of(bytes), 200) << bytes;
  }
}

TEST(RequestParser, ReadsTargetsThatNameTheHost) {
  const auto target_of = [](const std::string& target, const std::string& host) -> std::string {
    RequestParser parser;
    parser.feed("GET " + target + " HTTP/1.1\r\n" + host + "\r\n");
    if (parser.state() != State::done) return std::to_string(parser.error().status);
    return parser.take().target;
  };
  EXPECT_EQ(target_of("http://localhost:80/v1/models?x=http://y", "Host: localhost:80\r\n"), "/v1/models?x=http://y");
  EXPECT_EQ(target_of("HTTP://LocalHost/a", "Host: localHOST\r\n"), "/a");
  EXPECT_EQ(target_of("http://a", "Host: a\r\n"), "/");
  EXPECT_EQ(target_of("http://a?b", "Host: a\r\n"), "/?b");
  EXPECT_EQ(target_of("http://a//b", "Host: a\r\n"), "//b");
  EXPECT_EQ(target_of("http://evil/health", "Host: localhost\r\n"), "400");
  EXPECT_EQ(target_of("http://localhost@evil/health", "Host: localhost\r\n"), "400");
  EXPECT_EQ(target_of("http:///health", "Host: localhost\r\n"), "400");
  EXPECT_EQ(target_of("https://a/health", "Host: a\r\n"), "https://a/health") << "not ours: no path is called that";
  RequestParser old;
  old.feed("GET http://a/ HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.state(), State::failed) << "nothing to compare the host with";
}

TEST(RequestParser, EnforcesEveryLimitAtItsBorder) {
  const HttpLimits limits{.max_line_bytes = 100, .max_head_bytes = 200, .max_headers = 4, .max_body_bytes = 50};
  const auto line = [](size_t n) { return "GET /" + std::string(n - 14, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"; };
  EXPECT_EQ(status_of(line(100), limits), 200);
  EXPECT_EQ(status_of(line(101), limits), 414);
  const auto headers = [](size_t n) {  // bytes of headers, with their CRLFs
    return "GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(n - 9 - 5, 'a') + "\r\n\r\n";
  };
  EXPECT_EQ(status_of(headers(200), limits), 200);
  EXPECT_EQ(status_of(headers(203), limits), 431);
  const auto count = [](size_t n) {
    std::string out = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (size_t i = 1; i < n; i++) out += "X: y\r\n";
    return out + "\r\n";
  };
  EXPECT_EQ(status_of(count(4), limits), 200);
  EXPECT_EQ(status_of(count(5), limits), 431);
  EXPECT_EQ(status_of(post("Content-Length: 50\r\n", std::string(50, 'x')), limits), 200);
  EXPECT_EQ(status_of(post("Content-Length: 51\r\n", ""), limits), 413);
  EXPECT_EQ(status_of(post("Content-Length: 99999999999999999999999999\r\n", ""), limits), 413);
  EXPECT_EQ(
      status_of(post("Transfer-Encoding: chunked\r\n", "32\r\n" + std::string(50, 'x') + "\r\n0\r\n\r\n"), limits),
      200);
  EXPECT_EQ(status_of(post("Transfer-Encoding: chunked\r\n", "32\r\n" + std::string(50, 'x') + "\r\n1\r\n"), limits),
            413);
}

TEST(RequestParser, HoldsNoMoreThanALineOfWhatNeverEnds) {
  RequestParser parser;
  const std::string many(1 << 20, 'a');
  EXPECT_EQ(status_of(many), 414);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: " + many), 431);
  std::string endless = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 1'000'000; i++) endless += "a:b\r\n";
  EXPECT_EQ(status_of(endless), 431);
}

TEST(RequestParser, ReadsManySmallChunksInLinearTime) {
  std::string body;
  for (int i = 0; i < 500'000; i++) body += "1\r\nx\r\n";
  RequestParser parser;
  const std::string bytes = post("Transfer-Encoding: chunked\r\n", body + "0\r\n\r\n");
  EXPECT_EQ(parser.feed(bytes), bytes.size());
  ASSERT_EQ(parser.state(), State::done);
  EXPECT_EQ(parser.take().body.size(), 500'000u);
}

TEST(RequestParser, SurvivesEveryTruncationAndEveryByteChanged) {
  const std::string good = post("Transfer-Encoding: chunked\r\nX: y\r\n", "5\r\nhello\r\n0\r\n\r\n");
  for (size_t n = 0; n < good.size(); n++) EXPECT_EQ(status_of(good.substr(0, n)), 0) << n;
  for (size_t at = 0; at < good.size(); at++) {
    for (int value = 0; value < 256; value++) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      RequestParser parser;
      const size_t n = parser.feed(bad);
      EXPECT_LE(n, bad.size());
    }
  }
}

}  // namespace
}  // namespace rocmforge::server
