#include <fmt/core.h>
#include <time.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "commands.h"
#include "gguf/reader.h"
#include "model_path.h"
#include "terminal.h"
#include "tokenizer/jinja/template.h"

namespace rocmforge::apps {
namespace {

constexpr uint64_t kMaxContextBytes = 64u << 20;
constexpr uint64_t kMaxTemplateBytes = 1u << 20;

// Gives the variable `name` the text of the token that the model uses so, unless the context has one of its own.
void add_special_token(JsonObject& context, const gguf::Metadata& metadata, const char* name, const char* id_key) {
  if (std::ranges::any_of(context, [&](const auto& member) { return member.first == name; })) return;
  const auto id = metadata.u32(id_key);
  const auto tokens = metadata.strings("tokenizer.ggml.tokens");
  if (!id.ok() || !tokens.ok() || *id >= tokens->size()) return;
  context.emplace_back(name, std::string(*std::next(tokens->begin(), *id)));
}

// The template's text; of a model, its tokens join the context.
Result<std::string> load_template(const RenderCommand& options, JsonObject& context) {
  if (options.template_file) return read_whole_file(*options.template_file, kMaxTemplateBytes);
  const gguf::GgufFile file = TRY(gguf::GgufFile::open(TRY(find_model(options.model))));
  add_special_token(context, file.metadata(), "bos_token", "tokenizer.ggml.bos_token_id");
  add_special_token(context, file.metadata(), "eos_token", "tokenizer.ggml.eos_token_id");
  return std::string(TRY(file.metadata().string("tokenizer.chat_template")));
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
