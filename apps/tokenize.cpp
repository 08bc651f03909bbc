#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/json.h"
#include "commands.h"
#include "gguf/reader.h"
#include "model_path.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::apps {
namespace {

using tokenizer::Tokenizer;

constexpr size_t kMaxInputBytes = Tokenizer::kMaxTextBytes;

Result<Tokenizer> load_tokenizer(const std::string& model) {
  const std::string path = TRY(find_model(model));
  const gguf::GgufFile file = TRY(gguf::GgufFile::open(path));
  return Tokenizer::load(file.metadata());
}

Result<std::string> read_input(const std::string& path) {
  return path == "-" ? read_standard_input(kMaxInputBytes) : read_whole_file(path, kMaxInputBytes);
}

void append_ids(std::string& out, std::span<const TokenId> ids) {
  std::string_view separator;
  for (const TokenId id : ids) {
    out += separator;
    out += std::to_string(id.value);
    separator = " ";
  }
  out += '\n';
}

void append_json(std::string& out, const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  JsonWriter json;
  json.begin_object().key("ids").begin_array();
  for (const TokenId id : ids) json.value(id.value);
  json.end_array().key("pieces").begin_array();
  for (const TokenId id : ids) json.value(tokenizer.token_text(id));
  json.end_array().end_object();
  out += json.take() + "\n";
}

// The first line of `text`, its newline included, is taken off.
std::string_view take_line(std::string_view& text) {
  const size_t newline = text.find('\n');
  const std::string_view line = text.substr(0, newline == std::string_view::npos ? text.size() : newline + 1);
  text.remove_prefix(line.size());
  return line;
}

Result<std::vector<TokenId>> parse_ids(std::string_view text) {
  std::vector<TokenId> ids;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,\t\r\n"), text.size()));
    if (text.empty()) return ids;
    const std::string_view word = text.substr(0, text.find_first_of(" ,\t\r\n"));
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      return Error{ErrorCode::tokenizer_input, fmt::format("'{}' is no token id", printable(word, 40))};
    }
    ids.push_back(TokenId(id));
    text.remove_prefix(word.size());
  }
}

}  // namespace

Result<void> tokenize(const TokenizeCommand& options) {
  const Tokenizer tokenizer = TRY(load_tokenizer(options.model));
  const bool by_line = options.file.has_value();
  const std::string input = options.text ? *options.text : TRY(read_input(options.file.value_or("-")));
  BufferedOutput out;
  std::string_view rest = input;
  do {
    const std::string_view text = by_line ? take_line(rest) : std::exchange(rest, {});
    if (by_line && text.empty()) break;  // an empty file has no lines
    const auto ids = TRY(tokenizer.encode(text, {.parse_special = options.special, .add_bos = options.bos}));
    if (options.json) {
      append_json(out.text, tokenizer, ids);
    } else {
      append_ids(out.text, ids);
    }
    TRY(out.print_if_large());
  } while (!rest.empty());
  return out.print_rest();
}

Result<void> detokenize(const DetokenizeCommand& options) {
  const Tokenizer tokenizer = TRY(load_tokenizer(options.model));
  if (!options.ids.empty()) {
    std::vector<TokenId> ids;
    for (const int32_t id : options.ids) ids.push_back(TokenId(id));
    return print(TRY(tokenizer.decode(ids, options.special)));
  }
  // Lines were encoded one by one, so each is decoded by itself: together they are the text again.
  const std::string input = TRY(read_input("-"));
  BufferedOutput out;
  for (std::string_view rest = input; !rest.empty();) {
    out.text += TRY(tokenizer.decode(TRY(parse_ids(take_line(rest))), options.special));
    TRY(out.print_if_large());
  }
  return out.print_rest();
}

}  // namespace rocmforge::apps
