#include "chat/jinja/template.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/utf8.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/interpreter.h"
#include "chat/jinja/lexer.h"
#include "chat/jinja/parser.h"
#include "chat/jinja/text.h"

namespace rocmforge::jinja {
namespace {

// "template: line 3, column 7: message"
Error locate(Error error, std::string_view source, Offset at) {
  const std::string_view before = source.substr(0, at);
  const size_t line = static_cast<size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t column = count_characters(before.substr(before.rfind('\n') + 1)) + 1;
  return std::move(error).in(fmt::format("template: line {}, column {}", line, column));
}

}  // namespace

std::tm local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return local;
}

Template::Template(std::string source, std::shared_ptr<const Program> program)
    : source_(std::move(source)), program_(std::move(program)) {}

Result<Template> Template::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_source_bytes) {
    return Error{ErrorCode::template_limit,
                 fmt::format("template: {} bytes, more than {}", source.size(), limits.max_source_bytes)};
  }
  if (!is_valid_utf8(source)) return Error{ErrorCode::template_syntax, "template: the text is not UTF-8"};
  std::string text = normalize_newlines(source);
  Offset failed_at = 0;
  auto tokens = tokenize(text, failed_at);
  if (!tokens.ok()) return locate(std::move(tokens).error(), text, failed_at);
  auto program = Parser(std::move(*tokens), limits, failed_at).run();
  if (!program.ok()) return locate(std::move(program).error(), text, failed_at);
  return Template(std::move(text), std::make_shared<const Program>(std::move(*program)));
}

Result<std::string> Template::render(const JsonValue& context, const RenderOptions& options) const {
  Interpreter interpreter(*program_, options);
  auto result = interpreter.run(context);
  if (result.ok()) return result;
  return locate(std::move(result).error(), source_, interpreter.failed_at().value_or(0));
}

Result<std::string> render(std::string_view source, const JsonValue& context, const RenderOptions& options) {
  return TRY(Template::parse(source, options.limits)).render(context, options);
}

}  // namespace rocmforge::jinja
