// `chat`: a conversation at the terminal, or a line per turn from a pipe. Answers go to stdout, everything else to
// stderr.

#include <fmt/core.h>
#include <unistd.h>

#include <iostream>

#include "base/file.h"
#include "base/json.h"
#include "engine/chat_vocabulary.h"
#include "engine/conversation.h"
#include "engine_commands.h"
#include "line_editor.h"
#include "loading_line.h"
#include "terminal.h"
#include "user_folders.h"

namespace rocmforge::apps {
namespace {

constexpr std::string_view kHelp =
    "  /system TEXT   give the model this instruction from now on; without TEXT none\n"
    "  /reset         forget what was said\n"
    "  /save FILE     write the conversation to a file, as JSON\n"
    "  /help          this\n"
    "  /exit          leave; so does ctrl-D\n"
    "Ctrl-C stops an answer. A line that begins with a space is never a command.\n";

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") + 1 - first));
}

Result<void> save(const Conversation& conversation, const std::string& path) {
  JsonWriter w(JsonWriter::Style::pretty);
  w.begin_object().key("messages").begin_array();
  for (const ChatMessage& m : conversation.messages()) {
    w.begin_object().key("role").value(m.role).key("content").value(m.content).end_object();
  }
  w.end_array().end_object();
  const std::string text = w.take() + "\n";
  FileWriter writer = TRY(FileWriter::create(path));
  TRY(writer.write(std::as_bytes(std::span(text))));
  return writer.commit();
}

enum class Next { go_on, leave };

class Chat {
 public:
  Chat(Conversation& conversation, const ChatCommand& options, WeightStore& weights, bool is_terminal)
      : conversation_(conversation), options_(options), weights_(weights), is_terminal_(is_terminal) {}

  Result<Next> handle(const std::string& line) {
    if (line.starts_with('/')) return command(line);
    if (trimmed(line).empty()) return Next::go_on;
    TRY(turn(line));
    return Next::go_on;
  }

 private:
  Result<Next> command(const std::string& line) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string name = trimmed(line.substr(0, space)), rest = trimmed(line.substr(space));
    if (name == "/exit" || name == "/quit") return Next::leave;
    if (name == "/help") {
      note(kHelp);
    } else if (name == "/reset") {
      conversation_.reset();
      note("The conversation begins anew.\n");
    } else if (name == "/system") {
      conversation_.set_system(rest);
      note(rest.empty() ? "No instruction from now on.\n" : "The instruction holds from now on.\n");
    } else if (name == "/save" && !rest.empty()) {
      TRY(save(conversation_, rest));
      note(fmt::format("{} messages written to '{}'.\n", conversation_.messages().size(), printable(rest)));
    } else {
      return Error{ErrorCode::invalid_argument,
                   name == "/save" ? "/save needs a file name"
                                   : fmt::format("'{}' is no command; /help lists them", printable(name))};
    }
    return Next::go_on;
  }

  Result<void> turn(const std::string& text) {
    GenerateOptions generation;
    generation.sampling = options_.sampling;
    generation.sampling.seed += n_turns_++;  // the same numbers in every turn would favour the same words
    generation.max_tokens = options_.n_tokens == 0 ? UINT32_MAX : options_.n_tokens;
    LoadingLine loading(weights_);  // not while a line is being typed
    Result<void> printed;
    bool ends_line = true;
    const auto receive = [&](std::string_view piece) {
      loading.end();
      if (printed.ok()) printed = print(piece);
      ends_line = piece.ends_with('\n');
      return printed.ok();
    };
    if (is_terminal_) {
      InterruptFlag::clear();
      generation.should_stop = [] { return InterruptFlag::is_set(); };
    }
    auto answer = conversation_.ask(text, generation, receive);
    TRY(printed);
    loading.end();
    if (!answer.ok()) {
      if (answer.error().code != ErrorCode::limit_exceeded) return std::move(answer).error();
      answer.error().message += "; /reset begins a new conversation, --ctx asks for a larger context";
      return std::move(answer).error();
    }
    if (!ends_line || !is_terminal_) TRY(print("\n"));
    if (answer->is_context_full) note("The context is full: /reset begins a new conversation.\n");
    if (answer->generated.reason == FinishReason::cancelled) note("(stopped)\n");
    return {};
  }

  static void note(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

  Conversation& conversation_;
  const ChatCommand& options_;
  WeightStore& weights_;
  const bool is_terminal_;
  uint64_t n_turns_ = 0;
};

Result<void> talk_at_terminal(Chat& chat) {
  const InterruptFlag interrupts;
  LineEditor editor(chat_history_file());
  say("a conversation: /help shows the commands, ctrl-C stops an answer, ctrl-D leaves");
  while (true) {
    const LineEditor::Input input = editor.read("> ");
    switch (input.event) {
      case LineEditor::Event::end:
        std::fputc('\n', stderr);
        return {};
      case LineEditor::Event::interrupted:
        if (input.was_empty) say("ctrl-D or /exit leaves");
        continue;
      case LineEditor::Event::line:
        break;
    }
    const Result<Next> next = chat.handle(input.text);
    if (!next.ok()) {
      if (next.error().code == ErrorCode::cancelled) return next.error();  // nobody reads the answers
      say(next.error().message);
    } else if (*next == Next::leave) {
      return {};
    }
  }
}

Result<void> talk_through_pipe(Chat& chat) {
  for (std::string line; std::getline(std::cin, line);) {
    if (TRY(chat.handle(line)) == Next::leave) break;
  }
  return {};
}

}  // namespace

Result<void> chat(const ChatCommand& options) {
  TRY(check_options(options.sampling));
  const std::unique_ptr<Model> model = TRY(open_model(options.engine));
  Session session = TRY(open_session(*model, options.engine));
  TRY(model->load(options.engine.load));
  const tokenizer::Tokenizer& tokenizer = *TRY(model->tokenizer());
  const auto chat_template =
      TRY(tokenizer::ChatTemplate::load(model->file().metadata(), chat_vocabulary(tokenizer), {}));
  Conversation conversation(session, tokenizer, chat_template);
  conversation.set_system(options.system);
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  Chat chat(conversation, options, model->plan().weights(), is_terminal);
  return is_terminal ? talk_at_terminal(chat) : talk_through_pipe(chat);
}

}  // namespace rocmforge::apps
