// Who may use the API: keys, hosts, origins, and paths with tricks in them.

#include "server/api/access.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <random>
#include <set>

#include "base/clock.h"
#include "server/api/scripted_model.h"
#include "server/api/sha256.h"
#include "support/sanitized.h"
#include "support/support.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::ScriptedApi;
using testing::text;

class OpenTest : public ScriptedApi {};

TEST(Sha256, EqualsThePublishedVectors) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

class AccessTest : public ScriptedApi {
 protected:
  void SetUp() override {
    ApiOptions options;
    options.access.keys.users = {"first-key", "second-key"};
    start(std::move(options));
  }
};

const std::pair<const char*, const char*> kClosed[] = {{"POST", "/v1/chat/completions"},
                                                       {"POST", "/v1/completions"},
                                                       {"POST", "/v1/embeddings"},
                                                       {"GET", "/v1/models"},
                                                       {"GET", "/v1/models/story"},
                                                       {"POST", "/v1/models/load"},
                                                       {"POST", "/v1/models/unload"},
                                                       {"POST", "/tokenize"},
                                                       {"POST", "/schema/check"},
                                                       {"POST", "/detokenize"},
                                                       {"POST", "/apply-template"},
                                                       {"GET", "/metrics"},
                                                       {"POST", "/generate"},
                                                       {"POST", "/generate/stream"},
                                                       {"GET", "/status/x"},
                                                       {"POST", "/cancel/x"},
                                                       {"GET", "/nothing"},
                                                       {"DELETE", "/v1/models/story"},
                                                       {"GET", "/v1/chat/completions"},
                                                       {"PUT", "/"}};

TEST_F(AccessTest, EveryRouteWithEveryKindOfCredential) {
  const std::pair<std::vector<Header>, bool> credentials[] = {
      {{}, false},
      {{{"authorization", "Bearer wrong"}}, false},
      {{{"authorization", "Bearer "}}, false},
      {{{"authorization", "Bearer"}}, false},
      {{{"authorization", "Basic first-key"}}, false},
      {{{"authorization", "first-key"}}, false},
      {{{"authorization", "Bearer first-key x"}}, false},
      {{{"authorization", "Bearer  first-key"}}, false},
      {{{"authorization", "Bearer first-ke"}}, false},
      {{{"authorization", "Bearer first-keyy"}}, false},
      {{{"authorization", "Bearer FIRST-KEY"}}, false},
      {{{"x-api-key", "wrong"}}, false},
      {{{"x-api-key", ""}}, false},
      {{{"authorization", "Bearer first-key"}, {"authorization", "Bearer first-key"}}, false},
      {{{"authorization", "Bearer wrong"}, {"x-api-key", "first-key"}}, false},
      {{{"authorization", "Bearer first-key"}, {"x-api-key", "wrong"}}, false},
      {{{"authorization", "Bearer first-key"}, {"x-api-key", "second-key"}}, false},
      {{{"authorization", "Bearer first-key"}}, true},
      {{{"authorization", "bearer second-key"}}, true},
      {{{"x-api-key", "second-key"}}, true},
      {{{"authorization", "Bearer first-key"}, {"x-api-key", "first-key"}}, true},
  };
  for (const auto& [method, path] : kClosed) {
    for (const auto& [headers, good] : credentials) {
      const Answer answer = ask(method, path, "{}", headers);
      EXPECT_EQ(answer.status != 401, good) << method << path << (headers.empty() ? "" : headers[0].value);
      if (!good) {
        EXPECT_EQ(text(at(answer.json(), "error", "code")), "invalid_api_key");
        EXPECT_EQ(*answer.header("WWW-Authenticate"), "Bearer");
      }
    }
  }
  EXPECT_TRUE(submitted_.empty());
}

TEST_F(AccessTest, OpenRoutesNeedNoKey) {
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/ready").status, 200);
  EXPECT_EQ(ask("GET", "/").status, 200);
  EXPECT_EQ(ask("HEAD", "/").status, 200);
  EXPECT_EQ(ask("OPTIONS", "/v1/chat/completions").status, 204);
  EXPECT_EQ(ask("OPTIONS", "*").status, 204);
}

TEST_F(AccessTest, NoTrickWithThePathOpensARoute) {
  for (const char* path : {"//v1/models",
                           "/v1//models",
                           "/v1/./models",
                           "/v1/../v1/models",
                           "/health/../v1/models",
                           "/health/../metrics",
                           "/%76%31/models",
                           "/v1/%6dodels",
                           "/v1/models%2f",
                           "/v1/models%00",
                           "/v1/models;x",
                           "/;/v1/models",
                           "/health;/../v1/models",
                           "/V1/models",
                           "/v1/MODELS",
                           "/v1/models.json",
                           "http://localhost/v1/models",
                           "http://x/health",
                           "https://localhost/health",
                           "/v1/v1/models",
                           "/health/v1/models",
                           "/healthz",
                           "/health%20",
                           "/metrics?/health",
                           "/v1/models#/health",
                           "/page/../v1/models",
                           "/./metrics",
                           "/ready/../../metrics",
                           "*",
                           "v1/models",
                           "/v1/health/../models",
                           "\\v1\\models",
                           "/%2e%2e/metrics",
                           "/health//",
                           "?/health",
                           "/../health"}) {
    for (const char* method : {"GET", "POST", "HEAD"}) {
      const Answer answer = ask(method, path, "{}");
      EXPECT_EQ(answer.status, 401) << method << " " << path;
      const Answer with_key = ask(method, path, "{}", {{"authorization", "Bearer first-key"}});
      const bool is_metrics = std::string_view(path) == "/metrics?/health",
                 is_models = std::string_view(path).starts_with("/v1/models");
      if (!is_metrics && !is_models) {
        EXPECT_TRUE(with_key.status == 404 || with_key.status == 405) << method << " " << path;
      }
    }
  }
}

TEST_F(AccessTest, ARequestBelongsToTheKeyItCameWith) {
  const auto exchange =
      send("POST", "/generate/stream", R"({"prompt":"Once"})", {{"authorization", "Bearer first-key"}});
  submitted_[0].send(TokenEvent{.token = TokenId(9), .text = "x"});
  const std::string id = text(at(*parse_json(answer_of(exchange).events().at(0)), "request_id"));
  EXPECT_EQ(ask("GET", "/status/" + id, "", {{"authorization", "Bearer second-key"}}).status, 404);
  EXPECT_EQ(ask("POST", "/cancel/" + id, "", {{"authorization", "Bearer second-key"}}).status, 404);
  EXPECT_FALSE(submitted_[0].is_cancelled);
  EXPECT_EQ(ask("GET", "/status/" + id, "", {{"authorization", "Bearer first-key"}}).status, 200);
  send("POST", "/generate", R"({"prompt":"Once"})", {{"authorization", "Bearer second-key"}});
  EXPECT_NE(submitted_[0].request.cache_salt, submitted_[1].request.cache_salt);
  EXPECT_NE(submitted_[0].request.client, submitted_[1].request.client) << "keys take turns in the queue";
  EXPECT_NE(submitted_[0].request.client, ClientId{});
  EXPECT_EQ(submitted_[0].request.cache_salt.find("key"), std::string::npos);
}

TEST(ApiKeys, ShortOnesAndThoseThatNoHeaderCarriesAreRefused) {
  for (const char* key :
       {"", "a", "1234567", "long-enough\n", "long\tenough", " long-enough", "long-enough ", "long-enough\x7f"}) {
    EXPECT_EQ(ApiKeys::check(key).error().code, ErrorCode::invalid_argument) << key;
    if (std::string_view(key).size() > 5) {
      EXPECT_EQ(ApiKeys::check(key).error().message.find(key), std::string::npos) << "a message shows no key";
    }
  }
  for (const char* key : {"12345678", "a key of words", "schl\xc3\xbcssel-1"}) EXPECT_TRUE(ApiKeys::check(key).ok());
}

// `--api-key "$UNSET"` used to open the server to an empty x-api-key.
TEST(Access, AnEmptyCredentialOpensNothing) {
  const Access access({.keys = {.users = {""}, .admins = {""}}});
  for (const Header& header : {Header{"x-api-key", ""}, Header{"authorization", "Bearer "}}) {
    const Request request{.method = "GET", .target = "/", .headers = {header}, .body = {}};
    EXPECT_FALSE(access.identify(request)) << header.name;
  }
}

TEST(Access, NewKeysCountFromTheNextRequestOn) {
  Access access({.keys = {.users = {"old-key-1"}}});
  const auto opens = [&](const std::string& key) {
    return access.identify({.method = "GET", .target = "/", .headers = {{"x-api-key", key}}, .body = {}}).has_value();
  };
  EXPECT_TRUE(opens("old-key-1"));
  access.set_keys({.users = {"new-key-1"}});
  EXPECT_FALSE(opens("old-key-1"));
  EXPECT_TRUE(opens("new-key-1"));
}

TEST_F(OpenTest, LoadAndUnloadAreForAdmins) {
  const std::string user = "user-key-1", admin = "admin-key-1";
  struct Case {
    ApiKeys keys;
    int none, as_user, as_admin;  // the status of a load without a key, with the user's, with the admin's
  };
  const Case cases[] = {{{}, 200, 200, 200},
                        {{.users = {user}}, 401, 403, 401},
                        {{.users = {user}, .users_are_admins = true}, 401, 200, 401},
                        {{.users = {user}, .admins = {admin}}, 401, 403, 200},
                        {{.admins = {admin}}, 403, 403, 200}};
  for (const Case& one : cases) {
    ApiOptions options;
    options.access.keys = one.keys;
    start(options);
    for (const char* path : {"/v1/models/load", "/v1/models/unload", "/models/load/"}) {
      EXPECT_EQ(ask("POST", path, R"({"model":"story"})").status, one.none) << path;
      EXPECT_EQ(ask("POST", path, R"({"model":"story"})", {{"x-api-key", user}}).status, one.as_user) << path;
      EXPECT_EQ(ask("POST", path, R"({"model":"story"})", {{"x-api-key", admin}}).status, one.as_admin) << path;
    }
    EXPECT_EQ(ask("GET", "/v1/models", "", {{"x-api-key", admin}}).status, one.as_admin == 401 ? 401 : 200)
        << "an admin may ask, too";
  }
  ApiOptions options;
  options.access.keys.users = {user};
  start(options);
  const Answer refused = ask("POST", "/v1/models/load", R"({"model":"story"})", {{"x-api-key", user}});
  EXPECT_EQ(text(at(refused.json(), "error", "code")), "admin_key_required");
  EXPECT_NE(text(at(refused.json(), "error", "message")).find("--admin-key"), std::string::npos);
}

TEST_F(AccessTest, HealthNamesModelsOnlyToThoseWithAKey) {
  for (const std::vector<Header>& headers : {std::vector<Header>{}, {{"x-api-key", "wrong-key"}}}) {
    const Answer answer = ask("GET", "/health", "", headers);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, R"({"status":"ok","draining":false})");
  }
  const Answer answer = ask("GET", "/health", "", {{"x-api-key", "first-key"}});
  EXPECT_EQ(text(at(answer.json(), "models", 0, "name")), "story");
  start({});
  EXPECT_EQ(text(at(ask("GET", "/health").json(), "models", 0, "name")), "story") << "without keys nobody needs one";
}

// Ids were a bijection of a counter and a salt: from one own id followed every other id, and every random seed.
TEST_F(OpenTest, IdsAndSeedsFollowFromNoOthers) {
  std::set<std::string> halves;
  std::set<uint64_t> seeds;
  for (int i = 0; i < 64; i++) {
    send("POST", "/generate/stream", R"({"prompt":"Once"})");
    submitted_.back().send(FinishEvent{});
    seeds.insert(submitted_.back().request.sampling.seed);
    const std::string id = make_id("gen");
    ASSERT_EQ(id.size(), 4 + 24u);
    halves.insert(id.substr(4, 16));
    halves.insert(id.substr(20));  // a counter would show here
  }
  EXPECT_EQ(halves.size(), 128u);
  EXPECT_EQ(seeds.size(), 64u);
  uint64_t last_digits = 0;
  for (int i = 0; i < 512; i++) last_digits |= uint64_t{1} << (make_id("x").back() % 64);
  EXPECT_EQ(std::popcount(last_digits), 16) << "every digit comes last sometimes";
}

// Welch's t of the times that two kinds of wrong key take, the slowest tenth left out.
double time_difference(const Access& access, const std::string& near, const std::string& far, std::mt19937_64& rng) {
  constexpr size_t kSamples = 100'000;
  // Both keys stand at one address: where a text lies in memory takes time, too.
  Request request{.method = "GET", .target = "/", .headers = {{"authorization", "Bearer " + near}}, .body = {}};
  const std::string values[] = {"Bearer " + near, "Bearer " + far};
  std::vector<double> times[2];
  for (size_t i = 0; i < kSamples; i++) {
    const size_t kind = rng() & 1;
    std::ranges::copy(values[kind], request.headers[0].value.begin());
    const auto begin = std::chrono::steady_clock::now();
    const bool found = access.identify(request).has_value();
    times[kind].push_back(seconds(std::chrono::steady_clock::now() - begin));
    EXPECT_FALSE(found);
  }
  double mean[2], error[2];
  for (size_t kind = 0; kind < 2; kind++) {
    std::ranges::sort(times[kind]);
    times[kind].resize(times[kind].size() * 9 / 10);
    const auto n = static_cast<double>(times[kind].size());
    double sum = 0, squares = 0;
    for (const double t : times[kind]) sum += t;
    mean[kind] = sum / n;
    for (const double t : times[kind]) squares += (t - mean[kind]) * (t - mean[kind]);
    error[kind] = squares / (n - 1) / n;
  }
  return std::abs(mean[0] - mean[1]) / std::sqrt(error[0] + error[1]);
}

TEST(Access, TimeSaysNothingAboutAKey) {
  if (rocmforge::testing::kSanitized) GTEST_SKIP() << "what a sanitizer adds depends on addresses";
  auto rng = rocmforge::testing::seeded_rng();
  const Access access({.keys = {.users = {"another-key", "correct-horse-battery-staple-0123456789"}}});
  double least = 1e9;  // other work on the machine can only add to it
  for (int i = 0; i < 5 && least >= 4.5; i++) {
    least = std::min(least, time_difference(access, "correct-horse-battery-staple-012345678X",
                                            "Xorrect-horse-battery-staple-0123456789", rng));
  }
  EXPECT_LT(least, 4.5);
}

TEST_F(OpenTest, OnlyThisMachinesNamesAreAnsweredTo) {
  for (const char* host :
       {"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8080", "[::1]:65535"}) {
    EXPECT_EQ(ask("GET", "/v1/models", "", {{"host", host}}).status, 200) << host;
  }
  for (const char* host : {"evil.example",
                           "localhost.evil.example",
                           "127.0.0.1.evil.example",
                           "evil.example:8080",
                           "",
                           "[::2]",
                           "192.168.1.5",
                           "0.0.0.0",
                           "[::1]evil",
                           "[::1]evil:80",
                           "[::1]:80:80",
                           "localhost:80:80",
                           "localhost:",
                           "localhost:x",
                           "localhost:80x",
                           "localhost:-1",
                           "localhost:65536",
                           "localhost:000080",
                           "[::1",
                           "[",
                           ":",
                           ":80",
                           "[]",
                           "@localhost"}) {
    for (const char* path : {"/v1/models", "/", "/health"}) {
      const Answer answer = ask("GET", path, "", {{"host", host}});
      EXPECT_EQ(answer.status, 403) << host;
      EXPECT_EQ(text(at(answer.json(), "error", "type")), "permission_error");
    }
  }
  ApiOptions options;
  options.access.allowed_hosts = {"my.box"};
  start(options);
  EXPECT_EQ(ask("GET", "/health", "", {{"host", "My.Box:99"}}).status, 200);
  options.access.any_host = true;
  start(options);
  EXPECT_EQ(ask("GET", "/health", "", {{"host", "anything"}}).status, 200);
}

TEST_F(OpenTest, CorsIsOffUnlessAnOriginIsAllowed) {
  const std::vector<Header> from_page = {{"origin", "https://app.example"}};
  EXPECT_FALSE(ask("OPTIONS", "/v1/models", "", from_page).header("Access-Control-Allow-Origin"));
  EXPECT_FALSE(ask("GET", "/v1/models", "", from_page).header("Access-Control-Allow-Origin"));
  EXPECT_EQ(ask("POST", "/v1/chat/completions", chat(), from_page).status, 403);
  EXPECT_EQ(ask("POST", "/v1/chat/completions", chat(), {{"origin", "null"}}).status, 403);
  send("POST", "/v1/chat/completions", chat(), {{"origin", "http://localhost:8080"}});
  EXPECT_EQ(submitted_.size(), 1u) << "the server's own page may ask";

  ApiOptions options;
  options.access.cors_origins = {"https://app.example"};
  start(options);
  const Answer preflight = ask("OPTIONS", "/v1/chat/completions", "", from_page);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(*preflight.header("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_NE(preflight.header("Access-Control-Allow-Headers")->find("Authorization"), std::string::npos);
  EXPECT_EQ(*ask("GET", "/v1/models", "", from_page).header("Access-Control-Allow-Origin"), "https://app.example");
  EXPECT_FALSE(
      ask("GET", "/v1/models", "", {{"origin", "https://app.example.evil"}}).header("Access-Control-Allow-Origin"));
  EXPECT_EQ(*ask("POST", "/v1/chat/completions", "{", from_page).header("Vary"), "Origin") << "errors can be read, too";
}

}  // namespace
}  // namespace rocmforge::server
