// Any bytes as the body of any route: an answer in the API's form, and never a failure of the server's.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "server/api/api.h"
#include "tokenizer/vocabulary_builder.h"

namespace {

using namespace rocmforge;
using namespace rocmforge::server;

constexpr const char* kPaths[] = {"/v1/chat/completions",
                                  "/v1/completions",
                                  "/v1/embeddings",
                                  "/generate",
                                  "/generate/stream",
                                  "/tokenize",
                                  "/detokenize",
                                  "/apply-template",
                                  "/v1/models/load",
                                  "/v1/models/unload",
                                  "/parse",
                                  "/v1/responses",
                                  "/v1/responses/input_tokens",
                                  "/v1/messages",
                                  "/v1/messages/count_tokens",
                                  "/api/chat",
                                  "/api/generate",
                                  "/api/embed",
                                  "/api/show"};

struct World {
  tokenizer::Tokenizer tokenizer = *tokenizer::Tokenizer::load(tokenizer::small_spm().finish("llama").build());
  chat::ChatTemplate chat_template =
      *chat::ChatTemplate::load({}, {.bos = "<s>", .eos = "</s>", .contains = [](std::string_view) { return false; }});
  chat::ModelFormat tool_format = *chat::find_model_format(chat_template, tokenizer);
  std::deque<std::function<void()>> work;
  std::deque<EventReceiver> receivers;
  std::unique_ptr<Api> api;

  World() {
    auto model = std::make_shared<ServedModel>();
    model->name = "m";
    model->n_context = 512;
    model->tokenizer = &tokenizer;
    model->chat_template = &chat_template;
    model->tool_format = &tool_format;
    model->generate = [this](const GenerationRequest& request, EventReceiver receiver) -> Result<RequestId> {
      CHECK(!request.prompt.empty() && request.prompt.size() < 512);
      receivers.push_back(std::move(receiver));
      return RequestId(receivers.size());
    };
    model->embed = [this](const EmbeddingRequest&, EventReceiver receiver) -> Result<RequestId> {
      receivers.push_back(std::move(receiver));
      return RequestId(receivers.size());
    };
    model->cancel = [](RequestId) {};
    ModelSource source;
    source.list = [] { return std::vector<ModelEntry>{}; };
    source.default_name = [] { return "m"; };
    source.acquire = [model](std::string_view name, const std::function<void(Result<ModelRef>)>& ready) {
      if (name != "m") return ready(Error{ErrorCode::model_not_found, "no such model"});
      ready(ModelRef(model));
    };
    source.load = source.unload = [](std::string_view) { return Result<ModelState>(ModelState::ready); };
    api = std::make_unique<Api>(std::move(source), ApiOptions{},
                                [this](std::function<void()> job, WorkSize) { work.push_back(std::move(job)); });
  }

  void do_work() {
    while (!work.empty() || !receivers.empty()) {
      if (work.empty()) {
        const EventReceiver receive = std::move(receivers.front());
        receivers.pop_front();
        TokenEvent token{.token = TokenId(5), .text = "\xff C"};
        token.logprobs = TokenLogprobs{.logprob = -1, .top = {{TokenId(3), -1}}};
        receive(std::move(token));
        receive(FinishEvent{.embedding = {1, 2}});
        continue;
      }
      const auto job = std::move(work.front());
      work.pop_front();
      job();
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World world;
  if (size == 0) return 0;
  Request request;
  request.method = "POST";
  request.target = kPaths[data[0] % std::size(kPaths)];
  request.headers = {{"host", "localhost"}};
  request.body.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto exchange = std::make_shared<Exchange>(std::move(request), SIZE_MAX / 2);
  world.api->handle(exchange);
  world.do_work();
  const Exchange::Output out = exchange->take();
  CHECK(out.head && out.finished);
  CHECK(out.head->status == 200 || (out.head->status >= 400 && out.head->status < 500));
  if (!out.is_stream) CHECK(parse_json(out.bytes).ok());
  return 0;
}
