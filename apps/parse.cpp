#include <fmt/core.h>

#include <memory>

#include "base/file.h"
#include "base/utf8.h"
#include "chat/format_probe.h"
#include "chat/message.h"
#include "chat/model_format.h"
#include "chat/usable_template.h"
#include "commands.h"
#include "gguf/reader.h"
#include "model_path.h"
#include "terminal.h"

namespace rocmforge::apps {
namespace {

constexpr size_t kMaxTextBytes = 64u << 20, kMaxToolsBytes = 16u << 20;

Result<void> print_formats() {
  std::string out;
  for (const chat::ToolFormat& format : chat::tool_formats()) out += std::string(format.name) + "\n";
  return print(out);
}

Result<void> read_model_format(const std::string& model, chat::ParserOptions& options) {
  const gguf::GgufFile file = TRY(gguf::GgufFile::open(TRY(find_model(model))));
  const auto tokenizer = TRY(tokenizer::Tokenizer::load(file.metadata()));
  const auto chat_template = TRY(chat::usable_template(file.metadata(), tokenizer));
  if (!options.format) options.format = TRY(chat::find_model_format(chat_template, tokenizer)).format;
  for (const TokenId token : chat::marker_tokens(*options.format, tokenizer)) {
    options.control.emplace_back(tokenizer.token_text(token));
  }
  return {};
}

}  // namespace

Result<void> parse_text(const ParseCommand& command) {
  if (command.list) return print_formats();
  chat::ParserOptions options;
  if (!command.format.empty()) {
    options.format = chat::find_tool_format(command.format);
    if (!options.format) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("--format '{}': there is none of that name; --list names them", command.format)};
    }
  }
  if (command.format.empty() || !command.model.empty()) TRY(read_model_format(command.model, options));
  if (command.tools_file) {
    const auto tools = chat::parse_tools(TRY(read_whole_file(*command.tools_file, kMaxToolsBytes)));
    if (!tools.ok()) return Error(tools.error()).in(*command.tools_file);
    options.tools = std::make_shared<const chat::ToolSet>(*tools);
  }
  options.prompt_tail = command.prompt_tail;
  for (const std::string& token : command.special) options.control.push_back(token);
  options.tells_early = command.stream;
  const std::string text = to_valid_utf8(TRY(read_standard_input(kMaxTextBytes)));
  JsonWriter w;
  chat::write_message(w, chat::parse_message(chat::mark_controls(text, options.control), options, command.n_chunk));
  return print(w.take() + "\n");
}

}  // namespace rocmforge::apps
