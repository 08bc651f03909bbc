#pragma once
// A conversation to the prompt the model was trained with, by the template in its file.
//
// Where the template comes from: a text given instead; else the model's file (tokenizer.chat_template, or a named one,
// tokenizer.chat_template.NAME; with tools the one named tool_use is preferred); else, with a warning, ChatML if the
// vocabulary has its tokens, and plain text joined by blank lines if not.
//
// Threads: immutable after loading; any number may render at once.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/load_control.h"
#include "base/result.h"
#include "gguf/metadata.h"
#include "tokenizer/chat_messages.h"
#include "tokenizer/jinja/template.h"

namespace rocmforge::tokenizer {

// What a template needs to know of the vocabulary.
struct ChatVocabulary {
  std::string bos, eos;  // the tokens' texts; empty where the model has none
  std::function<bool(std::string_view)> contains;
};

struct ChatTemplateChoice {
  std::optional<std::string> text;  // this template instead of the model's
  std::string name;                 // one of the model's named templates; empty for the default
};

// Found by rendering small conversations when the template is loaded.
struct ChatCapabilities {
  bool system = false;    // a system message shows in the prompt
  bool tools = false;     // tools offered show in the prompt
  bool thinking = false;  // enable_thinking changes the prompt
};

struct ChatRequest {
  JsonArray messages;
  JsonArray tools;
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;
  JsonObject variables;  // more for the template (chat_template_kwargs); reserved names are refused
};

class ChatTemplate {
 public:
  enum class Source { given, model, chatml, plain };

  // Parsing the templates and rendering the small conversations takes at most this long, or is refused.
  static constexpr std::chrono::seconds kMaxLoadTime{10};

  // Of the model's templates only the chosen one and tool_use are parsed: a file may name any number of others.
  // Errors: gguf_key_missing (no template of that name), gguf_key_type, those of jinja::Template::parse, limit_exceeded
  // (time), and cancelled when `control` says so.
  static Result<ChatTemplate> load(const gguf::Metadata& metadata, ChatVocabulary vocabulary,
                                   const ChatTemplateChoice& choice = {}, const jinja::RenderOptions& options = {},
                                   const LoadControl& control = {});

  // Errors: invalid_argument (a message or variable that cannot be used), and those of jinja::Template::render.
  Result<std::string> render(const ChatRequest& request) const;

  Source source() const { return source_; }
  const ChatCapabilities& capabilities() const { return capabilities_; }
  const std::string& text() const { return main_.text; }

 private:
  struct Form {
    std::string text;
    jinja::Template parsed;
    MessageForm messages;
  };

  ChatTemplate(Source source, Form main, ChatVocabulary vocabulary, jinja::RenderOptions options)
      : source_(source), main_(std::move(main)), vocabulary_(std::move(vocabulary)), options_(std::move(options)) {}

  static Result<Form> parse(std::string text, const jinja::RenderOptions& options);
  const Form& form_for(bool with_tools) const;
  JsonObject base_context() const;
  void find_message_form(Form& form) const;
  void find_capabilities();
  // The rendering, or nothing.
  std::optional<std::string> try_render(const Form& form, JsonArray messages, JsonObject more = {}) const;
  bool shows_marker(const Form& form, JsonArray messages, JsonObject more = {}) const;

  Source source_;
  Form main_;
  std::optional<Form> tool_use_;
  ChatVocabulary vocabulary_;
  jinja::RenderOptions options_;
  ChatCapabilities capabilities_;
};

}  // namespace rocmforge::tokenizer
