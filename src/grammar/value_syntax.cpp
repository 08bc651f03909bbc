#include "grammar/value_syntax.h"

#include "grammar/schema_shape.h"

namespace rocmforge::grammar {
namespace {

Regex characters(RegexPool& pool, std::string_view all) {
  ByteSet set{};
  for (const char c : all) set[static_cast<uint8_t>(c) >> 6] |= uint64_t{1} << (static_cast<uint8_t>(c) & 63);
  return pool.bytes(set);
}

Regex bare_key(RegexPool& pool) {
  const Regex letter =
      pool.either({pool.bytes(byte_range('a', 'z')), pool.bytes(byte_range('A', 'Z')), pool.byte('_')});
  const Regex more = pool.either({letter, pool.bytes(byte_range('0', '9')), characters(pool, "-.$")});
  return pool.concat(letter, pool.star(more));
}

}  // namespace

Regex texts_without(RegexPool& pool, Regex excluded) {
  return pool.negate(pool.concat({kAnyBytes, excluded, kAnyBytes}));
}

// What the readers of calls take for JSON begins with one of these, or is a word.
Regex texts_unlike_json(RegexPool& pool) {
  const Regex space = pool.star(characters(pool, " \t\r\n"));
  const Regex first = pool.concat({space, characters(pool, "+-.0123456789{[(\"'"), kAnyBytes});
  std::vector<Regex> words = {kEmptyText};
  for (const char* one : {"true", "false", "null", "True", "False", "None"}) words.push_back(pool.literal(one));
  return pool.negate(pool.either(first, pool.concat({space, pool.either(std::move(words)), space})));
}

Regex Scalars::spelled(const Shape& scalar) {
  switch (scalar.type) {
    case JsonType::null:
      return null_word();
    case JsonType::boolean: {
      const Regex no = scalar.has_false ? boolean(false) : kNothing;
      return pool_->either(no, scalar.has_true ? boolean(true) : kNothing);
    }
    case JsonType::number:
      return scalar.number == Shape::Number::any       ? any_number()
             : scalar.number == Shape::Number::integer ? any_integer()
                                                       : scalar.text;
    case JsonType::string:
      return quoted(scalar.text);
    case JsonType::array:
    case JsonType::object:
      return kNothing;
  }
  return kNothing;
}

Regex Scalars::word(std::string_view json, std::string_view python) {
  return pool_->either(pool_->literal(json), syntax_.has_python_words ? pool_->literal(python) : kNothing);
}

Regex Scalars::quoted(Regex text) {
  const Regex quote = pool_->literal(syntax_.quote);
  // Characters of escaped forms never spell the quote.
  if (syntax_.chars == Spelling::Form::utf8 && !syntax_.quote.empty()) {
    text = pool_->both(text, texts_without(*pool_, quote));
  }
  if (!syntax_.excluded.empty()) text = pool_->both(text, texts_without(*pool_, pool_->literal(syntax_.excluded)));
  return pool_->concat({quote, text, quote});
}

Regex Scalars::key(Regex text) {
  if (!syntax_.has_bare_keys) return quoted(text);
  const Regex bare = bare_key(*pool_);
  return pool_->either(pool_->both(text, bare), quoted(pool_->both(text, pool_->negate(bare))));
}

}  // namespace rocmforge::grammar
