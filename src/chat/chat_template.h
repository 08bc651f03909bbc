#pragma once
// Renders a conversation to the prompt format that the model was trained with, by the template in its file.
//
// The template is, in this order: a text given instead; the file's (tokenizer.chat_template, or a named one,
// tokenizer.chat_template.NAME; with tools the one named tool_use is preferred); with a warning, ChatML if the
// vocabulary has its tokens, else plain text joined by blank lines.
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
#include "chat/chat_messages.h"
#include "chat/jinja/template.h"
#include "gguf/metadata.h"

namespace rocmforge::chat {

// The facts about the vocabulary that a template needs.
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
  bool system = false;    // a system message appears in the prompt
  bool tools = false;     // offered tools appear in the prompt
  bool thinking = false;  // enable_thinking changes the prompt
};

struct ChatRequest {
  JsonArray messages;
  JsonArray tools;
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;
  JsonObject variables;  // further variables for the template (chat_template_kwargs); reserved names are refused
};

class ChatTemplate {
 public:
  enum class Source { given, model, chatml, plain };

  // Time limit on parsing the templates and rendering the small conversations; beyond it the load fails.
  static constexpr std::chrono::seconds kMaxLoadTime{10};

  // Of the model's templates only the chosen one and tool_use are parsed: a file may name any number of others.
  // Errors: gguf_key_missing (no template of that name), gguf_key_type, those of jinja::Template::parse, limit_exceeded
  // (time), cancelled (by `control`).
  static Result<ChatTemplate> load(const gguf::Metadata& metadata, ChatVocabulary vocabulary,
                                   const ChatTemplateChoice& choice = {}, const jinja::RenderOptions& options = {},
                                   const LoadControl& control = {});

  // Errors: invalid_argument (a message or variable that cannot be used), those of jinja::Template::render, and those
  // of `control`.
  Result<std::string> render(const ChatRequest& request) const { return render(request, options_.control); }
  Result<std::string> render(const ChatRequest& request, const LoadControl& control) const;

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
  // The rendering, or nullopt if it fails.
  std::optional<std::string> try_render(const Form& form, JsonArray messages, JsonObject more = {}) const;
  bool shows_marker(const Form& form, JsonArray messages, JsonObject more = {}) const;

  Source source_;
  Form main_;
  std::optional<Form> tool_use_;
  ChatVocabulary vocabulary_;
  jinja::RenderOptions options_;
  ChatCapabilities capabilities_;
};

}  // namespace rocmforge::chat

// Names that code outside this room still uses.
namespace rocmforge::tokenizer {
using chat::ChatRequest;
using chat::ChatTemplate;
}  // namespace rocmforge::tokenizer
