#include "base/json.h"

#include <fmt/core.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/entry_index.h"
#include "base/seeded_hash.h"
#include "base/utf8.h"

namespace rocmforge {
namespace {

// Builds a JsonValue from parser events. The stack holds the open containers; the parser bounds its depth.
class Builder {
 public:
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  using error_code = boost::json::error_code;
  using string_view = boost::json::string_view;

  explicit Builder(size_t max_members) : max_members_(max_members) {}

  JsonValue root;
  bool has_too_many_members = false;

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return open(JsonArray{}); }
  bool on_array_end(size_t, error_code& error) { return close(error); }
  bool on_object_begin(error_code&) { return open(JsonObject{}); }
  bool on_object_end(size_t, error_code& error) { return close(error); }
  bool on_string_part(string_view part, size_t, error_code&) { return append(part); }
  bool on_string(string_view part, size_t, error_code& error) {
    append(part);
    return add(std::exchange(text_, {}), error);
  }
  bool on_key_part(string_view part, size_t, error_code&) { return append(part); }
  bool on_key(string_view part, size_t, error_code&) {
    append(part);
    stack_.back().key = std::exchange(text_, {});
    return true;
  }
  bool on_number_part(string_view part, error_code&) { return append(part); }
  bool on_int64(int64_t v, string_view, error_code& error) { return text_.clear(), add(v, error); }
  bool on_uint64(uint64_t v, string_view, error_code& error) { return text_.clear(), add(v, error); }
  // Boost 1.81 computes doubles only approximately, so the digits are converted again, to the nearest double.
  bool on_double(double, string_view part, error_code& error) {
    append(part);
    const std::string digits = std::exchange(text_, {});
    double exact = 0;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), exact);
    if (failure == std::errc::result_out_of_range) {
      // Too small is zero, as everywhere; too large has no double.
      if (std::abs(std::strtod(digits.c_str(), nullptr)) > 1) {
        error = boost::json::error::exponent_overflow;
        return false;
      }
      exact = digits[0] == '-' ? -0.0 : 0.0;
    }
    return add(exact, error);
  }
  bool on_bool(bool v, error_code& error) { return add(v, error); }
  bool on_null(error_code& error) { return add(nullptr, error); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  struct Open {
    JsonValue value;
    std::string key;     // of the member being read
    EntryIndex members;  // by key: repeats stay linear
  };

  bool append(string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool open(JsonValue value) {
    stack_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close(error_code& error) {
    JsonValue done = std::move(stack_.back().value);
    stack_.pop_back();
    return add(std::move(done), error);
  }
  bool add(JsonValue value, error_code& error) {
    if (stack_.empty()) {
      root = std::move(value);
      return true;
    }
    Open& top = stack_.back();
    if (auto* array = std::get_if<JsonArray>(&top.value.state())) {
      array->push_back(std::move(value));
      return true;
    }
    auto& object = std::get<JsonObject>(top.value.state());
    const auto there = top.members.find(
        object.size(), [&] { return seeded_hash(top.key); }, [&](size_t i) { return object[i].first == top.key; });
    if (there) {
      object[*there].second = std::move(value);
      return true;
    }
    if (object.size() == max_members_) {
      has_too_many_members = true;
      error = boost::json::error::object_too_large;
      return false;
    }
    object.emplace_back(std::move(top.key), std::move(value));
    top.members.add_last(object.size(), [&](size_t i) { return seeded_hash(object[i].first); });
    return true;
  }

  size_t max_members_;
  std::vector<Open> stack_;
  std::string text_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto* object = as<JsonObject>();
  if (!object) return nullptr;
  for (const auto& [name, value] : *object) {
    if (name == key) return &value;
  }
  return nullptr;
}

Result<JsonValue> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("json: {} bytes, more than the limit of {}", text.size(), limits.max_bytes)};
  }
  boost::json::parse_options options;
  options.max_depth = limits.max_depth;
  boost::json::basic_parser<Builder> parser(options, limits.max_members);
  boost::json::error_code error;
  const size_t n_read = parser.write_some(false, text.data(), text.size(), error);
  if (!error && n_read < text.size()) error = boost::json::error::extra_data;
  if (parser.handler().has_too_many_members) {
    return Error{ErrorCode::limit_exceeded,
                 fmt::format("json: an object of more than {} members at byte {}", limits.max_members, n_read)};
  }
  if (error) {
    const bool too_deep = error == boost::json::error::too_deep;
    return Error{too_deep ? ErrorCode::json_depth : ErrorCode::json_syntax,
                 too_deep ? fmt::format("json: nested deeper than {} at byte {}", limits.max_depth, n_read)
                          : fmt::format("json: {} at byte {}", error.message(), n_read)};
  }
  return std::move(parser.handler().root);
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte >= 0x80) {
      const Utf8Step step = decode_utf8(text, at);
      if (step.valid) {
        out.append(text.substr(at, step.n_bytes));
      } else {
        append_utf8(out, kReplacementCharacter);
      }
      at += step.n_bytes;
      continue;
    }
    at++;
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte < 0x20) {
          out += fmt::format("\\u{:04x}", byte);
        } else {
          out.push_back(static_cast<char>(byte));
        }
    }
  }
  out.push_back('"');
}

void JsonWriter::newline() {
  if (style_ == Style::pretty) {
    out_.push_back('\n');
    out_.append(2 * has_items_.size(), ' ');
  }
}

void JsonWriter::separate() {
  if (std::exchange(after_key_, false) || has_items_.empty()) return;
  if (has_items_.back()) out_.push_back(',');
  has_items_.back() = true;
  newline();
}

void JsonWriter::open(char bracket) {
  separate();
  out_.push_back(bracket);
  has_items_.push_back(false);
}

void JsonWriter::close(char bracket) {
  CHECK(!has_items_.empty() && !after_key_);
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) newline();
  out_.push_back(bracket);
}

JsonWriter& JsonWriter::begin_object() {
  return open('{'), *this;
}
JsonWriter& JsonWriter::end_object() {
  return close('}'), *this;
}
JsonWriter& JsonWriter::begin_array() {
  return open('['), *this;
}
JsonWriter& JsonWriter::end_array() {
  return close(']'), *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  CHECK(!has_items_.empty() && !after_key_);
  separate();
  append_json_string(out_, name);
  out_ += style_ == Style::pretty ? ": " : ":";
  after_key_ = true;
  return *this;
}

template <class T>
void JsonWriter::number(T v) {
  separate();
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, v).ptr;
  out_.append(digits, end);
}

JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}
JsonWriter& JsonWriter::value(bool v) {
  separate();
  out_ += v ? "true" : "false";
  return *this;
}
JsonWriter& JsonWriter::value(int64_t v) {
  return number(v), *this;
}
JsonWriter& JsonWriter::value(uint64_t v) {
  return number(v), *this;
}
JsonWriter& JsonWriter::value(double v) {
  if (!std::isfinite(v)) return null();
  return number(v), *this;
}
JsonWriter& JsonWriter::value(float v) {
  if (!std::isfinite(v)) return null();
  return number(v), *this;
}
JsonWriter& JsonWriter::value(std::string_view v) {
  separate();
  append_json_string(out_, v);
  return *this;
}

JsonWriter& JsonWriter::value(const JsonValue& v) {
  struct Visitor {
    JsonWriter& w;
    void operator()(std::nullptr_t) const { w.null(); }
    void operator()(bool x) const { w.value(x); }
    void operator()(int64_t x) const { w.value(x); }
    void operator()(uint64_t x) const { w.value(x); }
    void operator()(double x) const { w.value(x); }
    void operator()(const std::string& x) const { w.value(std::string_view(x)); }
    void operator()(const JsonArray& items) const {
      w.begin_array();
      for (const JsonValue& item : items) w.value(item);
      w.end_array();
    }
    void operator()(const JsonObject& members) const {
      w.begin_object();
      for (const auto& [name, member] : members) w.key(name).value(member);
      w.end_object();
    }
  };
  std::visit(Visitor{*this}, v.state());
  return *this;
}

std::string JsonWriter::take() {
  CHECK(has_items_.empty() && !after_key_);
  if (style_ == Style::pretty) out_.push_back('\n');
  return std::exchange(out_, {});
}

}  // namespace rocmforge
