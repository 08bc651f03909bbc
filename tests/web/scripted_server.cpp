// scripted_server MODEL: the APIs over HTTP, without an engine. What the model "writes" stands in the request: the text
// [[script HEX]] in its last message, HEX being JSON in hexadecimal digits:
//
//   {"tokens": ["a", "b"],         what it writes, token by token
//    "finish": "stop",             or "length", or "error": a failure after the tokens
//    "hang": true,                 no end: it waits for a cancel
//    "prompt": true}               it writes the prompt first, as the model would see it, without the script
//
// The vocabulary and the template are MODEL's. The ready line names the port. GET /metrics counts the cancels of those
// that hung.

#include <fmt/core.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>

#include "base/json.h"
#include "gguf/reader.h"
#include "server/api/api.h"
#include "server/api/deliveries.h"
#include "server/http/http_server.h"

using namespace rocmforge;
using namespace rocmforge::server;

namespace {

struct Script {
  std::vector<std::string> tokens;
  std::string finish = "stop";
  bool hangs = false;
  bool tells_prompt = false;
};

// The last one in the prompt, which is left without it.
Script take_script(std::string& prompt) {
  constexpr std::string_view kBegin = "[[script ", kEnd = "]]";
  Script script;
  const size_t at = prompt.rfind(kBegin);
  const size_t end = at == std::string::npos ? at : prompt.find(kEnd, at);
  if (end == std::string::npos) {
    script.tokens = {"No script."};
    return script;
  }
  std::string json;
  for (size_t i = at + kBegin.size(); i + 1 < end; i += 2) {
    json += static_cast<char>(std::stoi(prompt.substr(i, 2), nullptr, 16));
  }
  prompt.erase(at, end + kEnd.size() - at);
  const auto parsed = parse_json(json);
  if (!parsed.ok()) {
    script.tokens = {"A script that is no JSON: " + json};
    return script;
  }
  if (const JsonValue* tokens = parsed->find("tokens")) {
    for (const JsonValue& one : *tokens->as<JsonArray>()) script.tokens.push_back(*one.as<std::string>());
  }
  if (const JsonValue* finish = parsed->find("finish")) script.finish = *finish->as<std::string>();
  script.hangs = parsed->find("hang") != nullptr;
  script.tells_prompt = parsed->find("prompt") != nullptr;
  return script;
}

// Plays every request on a thread of its own.
class Player {
 public:
  explicit Player(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  ~Player() {
    {
      const std::lock_guard lock(mutex_);
      for (auto& [id, is_cancelled] : cancelled_) is_cancelled = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  RequestId play(const GenerationRequest& request, EventReceiver receiver) {
    const std::lock_guard lock(mutex_);
    const RequestId id(++n_);
    cancelled_[id.value] = false;
    threads_.emplace_back([this, id, request, receive = std::move(receiver)] { run(id, request, receive); });
    return id;
  }
  uint64_t n_cancelled() const { return n_cancelled_; }
  void cancel(RequestId id) {
    {
      const std::lock_guard lock(mutex_);
      cancelled_[id.value] = true;
    }
    changed_.notify_all();
  }

 private:
  void run(RequestId id, const GenerationRequest& request, const EventReceiver& send) {
    std::string prompt = *tokenizer_.decode(request.prompt, true);
    Script script = take_script(prompt);
    if (script.tells_prompt) script.tokens.insert(script.tokens.begin(), prompt);
    RequestUsage usage{.n_prompt = static_cast<uint32_t>(request.prompt.size()), .n_cached = 1};
    send(StartEvent{});
    for (const std::string& text : script.tokens) {
      TokenEvent event{.token = TokenId(300), .text = text};
      if (request.sampling.want_logprobs) event.logprobs = TokenLogprobs{.logprob = -0.5f};
      send(std::move(event));
      usage.n_generated++;
    }
    FinishEvent end{.reason = script.finish == "length" ? FinishReason::length : FinishReason::stop};
    if (script.finish == "error") {
      end.reason = FinishReason::error;
      end.error = Error{ErrorCode::device_failed, "scripted: the device has failed"};
    }
    if (script.hangs) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return cancelled_[id.value]; });
      end.reason = FinishReason::cancelled;
      n_cancelled_++;
    }
    usage.prefill_seconds = 0.01, usage.decode_seconds = 0.02;
    end.usage = usage;
    send(std::move(end));
  }

  const tokenizer::Tokenizer& tokenizer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, bool> cancelled_;
  std::vector<std::thread> threads_;
  uint64_t n_ = 0;
  std::atomic<uint64_t> n_cancelled_ = 0;
};

}  // namespace

int main(int n_arguments, char** arguments) {
  if (n_arguments != 2) return 2;
  auto file = gguf::GgufFile::open(arguments[1]);
  if (!file.ok()) return 1;
  const auto tokenizer = *tokenizer::Tokenizer::load(file->metadata());
  const auto chat_template = *chat::ChatTemplate::load(
      file->metadata(), {.bos = "<s>", .eos = "</s>", .contains = [](std::string_view) { return false; }});
  const auto format = *chat::find_model_format(chat_template, tokenizer);
  Player player(tokenizer);

  std::unique_ptr<HttpServer> http;
  std::unique_ptr<Api> api;
  HttpOptions options;
  options.port = 0;
  options.ping_after = std::chrono::milliseconds(200);
  options.sweep = std::chrono::milliseconds(50);
  http = *HttpServer::listen(
      options, [&](std::shared_ptr<Exchange> exchange) { api->handle(std::move(exchange)); },
      [&](const HttpError& error) { return api->answer_error(error); },
      [&](const Request& head) { return api->judge_head(head); });
  const auto deliveries = Deliveries::make([&](std::function<void()> call) { http->post(std::move(call)); });

  const auto model = std::make_shared<ServedModel>();
  model->name = "scripted";
  model->n_context = 65536;
  model->n_embedding = 8;
  model->tokenizer = &tokenizer;
  model->chat_template = &chat_template;
  model->tool_format = &format;
  model->generate = [&](const GenerationRequest& request, EventReceiver receiver) -> Result<RequestId> {
    return player.play(request, deliveries->to(std::move(receiver)));
  };
  model->embed = [](EmbeddingRequest, EventReceiver) -> Result<RequestId> {
    return Error{ErrorCode::unsupported, "scripted: no embeddings"};
  };
  model->cancel = [&](RequestId id) { player.cancel(id); };
  ModelSource source;
  source.list = [&] {
    std::vector<ModelEntry> entries(1);
    entries[0].name = "scripted";
    entries[0].state = ModelState::ready;
    entries[0].modified_seconds = 1700000000;
    entries[0].facts = ModelFacts{
        .architecture = "llama", .name = "", .n_context_train = 65536, .file_type = "", .chat_template = "roles"};
    entries[0].engine = EngineStats{};
    entries[0].counts.n_cancelled = player.n_cancelled();
    return entries;
  };
  source.default_name = [] { return "scripted"; };
  source.acquire = [&](std::string_view, const std::function<void(Result<ModelRef>)>& ready) {
    ready(ModelRef(model));
  };
  source.load = source.unload = [](std::string_view) -> Result<ModelState> { return ModelState::ready; };
  ApiOptions api_options;
  api_options.answer_tokens.max_bytes = 0;  // the ids of its tokens are not those of their texts
  api = std::make_unique<Api>(
      std::move(source), std::move(api_options),
      [&](std::function<void()> work, WorkSize size) { http->post_work(std::move(work), size); },
      [&](std::function<void()> work, WorkSize size) { return http->try_post_work(std::move(work), size); });
  http->on_signal([&](int) { http->stop(std::chrono::milliseconds(200)); });
  fmt::print("ready: http://{}\n", http->address());
  std::fflush(stdout);
  http->run();
  deliveries->close();
  return 0;
}
