#pragma once
// The API with a model that a test plays itself: requests are recorded, and the test sends the events. No engine, no
// socket, no thread. The vocabulary is the bundled model's.

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "server/api/api.h"

namespace rocmforge::testing {
std::string source_path(std::string_view relative);  // support/support.h
}

namespace rocmforge::server::testing {

struct Answer {
  int status = 0;  // 0: none yet
  ResponseHead head;
  bool is_stream = false, is_finished = false;
  std::string body;

  JsonValue json() const {
    auto parsed = parse_json(body);
    EXPECT_TRUE(parsed.ok()) << body;
    return parsed.ok() ? std::move(*parsed) : JsonValue();
  }
  const std::string* header(std::string_view name) const {
    for (const Header& header : head.headers) {
      if (header.name == name) return &header.value;
    }
    return nullptr;
  }
  // The data of the stream's events, comments left out. An event's name, where it has one, is its type.
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (size_t at = 0; at < body.size();) {
      const size_t end = body.find("\n\n", at);
      EXPECT_NE(end, std::string::npos) << "an event without its end: " << body.substr(at);
      if (end == std::string::npos) break;
      std::string event = body.substr(at, end - at);
      if (event.starts_with("event: ")) {
        const size_t n = event.find('\n');
        const std::string name = event.substr(7, n - 7);
        event.erase(0, n + 1);
        const auto parsed = parse_json(event.substr(std::min<size_t>(6, event.size())));
        EXPECT_TRUE(parsed.ok() && parsed->find("type") && *parsed->find("type")->as<std::string>() == name) << event;
      }
      EXPECT_TRUE(event == ":" || (event.starts_with("data: ") && event.find('\n') == std::string::npos)) << event;
      if (event != ":") out.push_back(event.substr(6));
      at = end + 2;
    }
    return out;
  }
};

// A path through a JSON value: at(json, "choices", 0, "delta").
inline const JsonValue& step(const JsonValue& value, const char* key) {
  static const JsonValue kNone("(absent)");
  const JsonValue* found = value.find(key);
  return found ? *found : kNone;
}
inline const JsonValue& step(const JsonValue& value, int index) {
  static const JsonValue kNone("(absent)");
  const auto* array = value.as<JsonArray>();
  return array && index < static_cast<int>(array->size()) ? (*array)[static_cast<size_t>(index)] : kNone;
}
template <class... Steps>
const JsonValue& at(const JsonValue& value, Steps... steps) {
  const JsonValue* here = &value;
  ((here = &step(*here, steps)), ...);
  return *here;
}
inline std::string text(const JsonValue& value) {
  if (const auto* found = value.as<std::string>()) return *found;
  JsonWriter w;
  return w.value(value).take();
}

class ScriptedApi : public ::testing::Test {
 protected:
  struct Submitted {
    GenerationRequest request;
    EventReceiver send;
    RequestId id;
    bool is_cancelled = false;
  };

  void SetUp() override { start({}); }

  void start(ApiOptions options) {
    file_ = std::make_unique<gguf::GgufFile>(
        *gguf::GgufFile::open(rocmforge::testing::source_path("models/story-q4_k_m.gguf")));
    tokenizer_ = std::make_unique<tokenizer::Tokenizer>(*tokenizer::Tokenizer::load(file_->metadata()));
    template_ = std::make_unique<chat::ChatTemplate>(*chat::ChatTemplate::load(
        file_->metadata(), {.bos = "<s>", .eos = "</s>", .contains = [](std::string_view) { return false; }}));
    model_ = std::make_shared<ServedModel>();
    model_->name = "story";
    model_->n_context = 1024;
    model_->n_embedding = 512;
    model_->tokenizer = tokenizer_.get();
    model_->chat_template = template_.get();
    tool_format_ = *chat::find_model_format(*template_, *tokenizer_);
    model_->tool_format = &tool_format_;
    constraints_ = std::make_unique<grammar::VocabularyConstraints>(*tokenizer_);
    model_->constrain_message = [this](const chat::MessageRules& rules, std::optional<uint32_t> max_thinking_tokens) {
      return constrain_message(*constraints_, *tokenizer_, tool_format_, rules, max_thinking_tokens);
    };
    model_->generate = [this](GenerationRequest request, EventReceiver receiver) -> Result<RequestId> {
      if (refuse_with_ && submitted_.size() >= refuse_from_) return Error{*refuse_with_, "scripted"};
      const RequestId id(submitted_.size() + 1);
      submitted_.push_back({std::move(request), std::move(receiver), id});
      return id;
    };
    model_->embed = [this](EmbeddingRequest request, EventReceiver receiver) -> Result<RequestId> {
      embedded_.push_back({std::move(request), std::move(receiver)});
      return RequestId(embedded_.size() + 1000);
    };
    model_->cancel = [this](RequestId id) {
      for (Submitted& one : submitted_) {
        if (one.id == id) one.is_cancelled = true;
      }
    };
    ModelSource source;
    source.list = [this] { return entries_; };
    source.default_name = [] { return "story"; };
    source.acquire = [this](std::string_view name, std::function<void(Result<ModelRef>)> ready) {
      if (load_error_) return ready(*load_error_);
      if (name != "story" && name != "org/story:q4") return ready(Error{ErrorCode::model_not_found, "no such model"});
      if (!is_ready_) return waiting_.push_back(std::move(ready));
      ready(ModelRef(model_));
    };
    source.keep = [this](std::string_view name, Duration ttl) { kept_.emplace_back(name, ttl); };
    source.load = [this](std::string_view name) -> Result<ModelState> {
      for (const ModelEntry& entry : entries_) {
        if (entry.name == name) return entry.state;
      }
      return Error{ErrorCode::model_not_found, "no such model"};
    };
    source.unload = [this, load = source.load](std::string_view name) {
      n_unloads_++;
      return load(name);
    };
    entries_ = {
        {.name = "story", .path = "/secret/story.gguf", .modified_seconds = 1700000000, .state = ModelState::ready},
        {.name = "org/story:q4", .path = "/secret/other.gguf", .modified_seconds = 1700000001}};
    entries_[0].facts = ModelFacts{
        .architecture = "llama", .name = "", .n_context_train = 1024, .file_type = "", .chat_template = "joined"};
    entries_[0].engine = EngineStats{};
    api_ = std::make_unique<Api>(
        std::move(source), std::move(options),
        [this](std::function<void()> work, WorkSize size) {
          n_large_ += size == WorkSize::large;
          work_.push_back(std::move(work));
        },
        [this](std::function<void()> work, WorkSize size) {
          n_large_ += size == WorkSize::large;
          if (is_queue_full_) return false;
          work_.push_back(std::move(work));
          return true;
        });
  }

  // Sends a request; what is answered at once, and later, is collected by answer().
  std::shared_ptr<Exchange> send(std::string method, std::string target, std::string body = {},
                                 std::vector<Header> headers = {}) {
    Request request{.method = std::move(method),
                    .target = std::move(target),
                    .headers = std::move(headers),
                    .body = std::move(body)};
    if (!request.header("host")) request.headers.push_back({"host", "localhost:8080"});
    auto exchange = std::make_shared<Exchange>(std::move(request));
    api_->handle(exchange);
    do_work();
    return exchange;
  }
  // What the API has posted for its workers, done here.
  void do_work() {
    while (!work_.empty()) {
      const std::function<void()> next = std::move(work_.front());
      work_.pop_front();
      next();
    }
  }
  static void collect(const std::shared_ptr<Exchange>& exchange, Answer& answer) {
    Exchange::Output out = exchange->take();
    if (out.head) {
      answer.head = *out.head;
      answer.status = out.head->status;
    }
    answer.is_stream = out.is_stream;
    answer.is_finished = out.finished;
    answer.body += out.bytes;
  }
  static Answer answer_of(const std::shared_ptr<Exchange>& exchange) {
    Answer answer;
    collect(exchange, answer);
    return answer;
  }
  Answer ask(std::string method, std::string target, std::string body = {}, std::vector<Header> headers = {}) {
    return answer_of(send(std::move(method), std::move(target), std::move(body), std::move(headers)));
  }
  Answer post(std::string target, std::string body) { return ask("POST", std::move(target), std::move(body)); }
  // A chat with further members.
  static std::string chat(std::string_view more = "") {
    return R"({"messages":[{"role":"user","content":"Once upon a time"}])" +
           (more.empty() ? "" : "," + std::string(more)) + "}";
  }

  // A chat that gets 400 before anything is submitted.
  void expect_refused(const std::string& body, std::string_view param, std::string_view code = "") {
    const Answer answer = post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400) << body;
    const JsonValue json = answer.json();
    EXPECT_EQ(text(at(json, "error", "param")), param) << body << answer.body;
    EXPECT_EQ(text(at(json, "error", "type")), "invalid_request_error");
    if (!code.empty()) {
      EXPECT_EQ(text(at(json, "error", "code")), code);
    }
    EXPECT_EQ(submitted_.size(), 0u) << body;
  }

  void send_tokens(size_t request, std::initializer_list<const char*> texts) {
    int32_t id = 300;
    submitted_[request].send(StartEvent{});
    for (const char* one : texts) submitted_[request].send(TokenEvent{.token = TokenId(id++), .text = one});
  }
  void send_finish(size_t request, FinishReason reason = FinishReason::stop, std::string rest = {}) {
    submitted_[request].send(FinishEvent{
        .reason = reason,
        .text = std::move(rest),
        .usage = {.n_prompt = 7, .n_cached = 2, .n_generated = 3, .prefill_seconds = 0.02, .decode_seconds = 0.5}});
    do_work();
  }

  std::unique_ptr<gguf::GgufFile> file_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<chat::ChatTemplate> template_;
  chat::ModelFormat tool_format_;
  std::unique_ptr<grammar::VocabularyConstraints> constraints_;
  std::deque<std::function<void()>> work_;  // requests that the test leaves behind may still post some
  std::shared_ptr<ServedModel> model_;
  std::deque<Submitted> submitted_;
  std::deque<std::pair<EmbeddingRequest, EventReceiver>> embedded_;
  std::vector<ModelEntry> entries_;
  std::optional<Error> load_error_;
  std::optional<ErrorCode> refuse_with_;
  size_t refuse_from_ = 0;
  std::vector<std::pair<std::string, Duration>> kept_;  // models' own times
  int n_unloads_ = 0;
  int n_large_ = 0;  // pieces of work that were posted as large
  bool is_queue_full_ = false;
  bool is_ready_ = true;  // else acquires wait, in their order
  std::vector<std::function<void(Result<ModelRef>)>> waiting_;
  std::unique_ptr<Api> api_;
};

}  // namespace rocmforge::server::testing
