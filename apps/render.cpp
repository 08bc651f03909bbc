#include <fmt/core.h>
#include <time.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "chat/chat_template.h"
#include "commands.h"
#include "gguf/reader.h"
#include "model_path.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::apps {
namespace {

constexpr uint64_t kMaxContextBytes = 64u << 20;
constexpr uint64_t kMaxTemplateBytes = 1u << 20;

void add_missing(JsonObject& context, const char* name, const std::string& text) {
  if (std::ranges::any_of(context, [&](const auto& member) { return member.first == name; })) return;
  context.emplace_back(name, text);
}

// The template's text. A model's tokens join the context where it does not name its own.
Result<std::string> load_template(const RenderCommand& options, JsonObject& context) {
  if (options.template_file) return read_whole_file(*options.template_file, kMaxTemplateBytes);
  const gguf::GgufFile file = TRY(gguf::GgufFile::open(TRY(find_model(options.model))));
  const auto tokenizer = TRY(tokenizer::Tokenizer::load(file.metadata()));
  const auto text_of = [&](std::optional<TokenId> id) { return std::string(id ? tokenizer.token_text(*id) : ""); };
  const chat::ChatVocabulary vocabulary{text_of(tokenizer.bos()), text_of(tokenizer.eos()),
                                        [&](std::string_view name) { return tokenizer.find(name).has_value(); }};
  add_missing(context, "bos_token", vocabulary.bos);
  add_missing(context, "eos_token", vocabulary.eos);
  return TRY(chat::ChatTemplate::load(file.metadata(), vocabulary)).text();
}

Result<std::tm> parse_time(const std::string& text) {
  std::tm time{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time);
  if (!end || *end != '\0') {
    return Error{ErrorCode::invalid_argument, fmt::format("--now '{}': not of the form 2026-01-02 03:04:05", text)};
  }
  return time;
}

}  // namespace

Result<void> render(const RenderCommand& options) {
  const std::string text = TRY(read_whole_file(options.context_file, kMaxContextBytes));
  auto context = parse_json(text);
  if (!context.ok()) return std::move(context).error().in(options.context_file);
  auto* members = std::get_if<JsonObject>(&context->state());
  if (!members) return Error{ErrorCode::json_type, options.context_file + ": a context is a JSON object"};
  const std::string source = TRY(load_template(options, *members));
  jinja::RenderOptions how;
  if (options.now) how.local_time = [now = TRY(parse_time(*options.now))] { return now; };
  auto rendered = jinja::render(source, *context, how);
  if (!rendered.ok()) return std::move(rendered).error();
  return print(*rendered);
}

}  // namespace rocmforge::apps
