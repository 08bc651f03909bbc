// Requests in the shapes that well-known clients send (tests/data/clients), answered without a refusal.

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "server/api/scripted_model.h"

namespace rocmforge::server {
namespace {

using testing::Answer;
using testing::at;
using testing::text;

class ClientShapesTest : public testing::ScriptedApi {
 public:
  static std::vector<JsonValue> shapes() {
    std::vector<JsonValue> out;
    for (const auto& entry :
         std::filesystem::directory_iterator(rocmforge::testing::source_path("tests/data/clients"))) {
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      auto shape = parse_json(text.str());
      EXPECT_TRUE(shape.ok()) << entry.path();
      if (shape.ok()) out.push_back(std::move(*shape));
    }
    return out;
  }
};

TEST_F(ClientShapesTest, AreAnswered) {
  model_->n_context = 65536;
  model_->constrain = [](const grammar::Source&) -> Result<ConstraintChoice> { return ConstraintChoice{}; };
  const auto all = shapes();
  EXPECT_GE(all.size(), 14u);
  for (const JsonValue& shape : all) {
    SCOPED_TRACE(text(at(shape, "client")));
    std::vector<Header> headers;
    for (const auto& [name, value] : *at(shape, "headers").as<JsonObject>()) headers.push_back({name, text(value)});
    const size_t n_before = submitted_.size();
    const JsonValue& body = at(shape, "body");
    const auto exchange =
        send(text(at(shape, "method")), text(at(shape, "path")), body.is_null() ? "" : text(body), std::move(headers));
    if (submitted_.size() > n_before) {
      send_tokens(n_before, {"Hello", "."});
      send_finish(n_before);
    }
    const Answer answer = answer_of(exchange);
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.is_finished);
    EXPECT_EQ(answer.body.find("\"error\":{"), std::string::npos) << answer.body;
  }
}

}  // namespace
}  // namespace rocmforge::server
