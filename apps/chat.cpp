// `chat`: a conversation at the terminal, or a line per turn from a pipe. Answers go to stdout, everything else to
// stderr.

#include <fmt/core.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/file_writer.h"
#include "base/json.h"
#include "base/random.h"
#include "chat/chat_vocabulary.h"
#include "constraint_flags.h"
#include "engine/conversation.h"
#include "engine_commands.h"
#include "grammar/vocabulary_constraints.h"
#include "line_editor.h"
#include "loading_line.h"
#include "terminal.h"
#include "user_folders.h"

namespace rocmforge::apps {
namespace {

constexpr std::string_view kHelp =
    "  /system TEXT   give the model this instruction from now on; without TEXT none\n"
    "  /reset         forget what was said\n"
    "  /save FILE     write the conversation to a new file, as JSON; /save --overwrite FILE replaces one\n"
    "  /help          this\n"
    "  /exit          leave; so does ctrl-D\n"
    "A text of several lines stands between two lines of \"\"\".\n"
    "Ctrl-C stops an answer, a second one leaves. A line that begins with a space is never a command.\n";

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") + 1 - first));
}

Result<void> save(const Conversation& conversation, const std::string& path, ExistingFile existing) {
  JsonWriter w(JsonWriter::Style::pretty);
  w.begin_object().key("messages").begin_array();
  for (const ChatMessage& m : conversation.messages()) {
    w.begin_object().key("role").value(m.role).key("content").value(m.content).end_object();
  }
  w.end_array().end_object();
  const std::string text = w.take() + "\n";
  FileWriter writer = TRY(FileWriter::create(path, {.existing = existing}));
  TRY(writer.write(std::as_bytes(std::span(text))));
  return writer.commit();
}

// Lines between two lines of three quotes are one text; the quotes may stand before the first and after the last line.
class LineJoiner {
 public:
  bool is_open() const { return is_open_; }
  // The text that this line completes.
  std::optional<std::string> push(std::string line) {
    constexpr std::string_view kQuotes = "\"\"\"";
    if (!is_open_) {
      if (!line.starts_with(kQuotes)) return line;
      is_open_ = true;
      line.erase(0, kQuotes.size());
      if (line.empty()) return std::nullopt;
    }
    const bool ends = line.ends_with(kQuotes);
    if (ends) line.resize(line.size() - kQuotes.size());
    if (!ends || !line.empty()) text_ += (text_.empty() ? "" : "\n") + line;
    if (!ends) return std::nullopt;
    is_open_ = false;
    return std::exchange(text_, {});
  }

 private:
  bool is_open_ = false;
  std::string text_;
};

enum class Next { go_on, leave };

class Chat {
 public:
  Chat(Conversation& conversation, const ChatCommand& options, WeightStore& weights, bool is_terminal)
      : conversation_(conversation), options_(options), weights_(weights), is_terminal_(is_terminal) {}

  Result<Next> handle(const std::string& line) {
    if (line.starts_with('/') && line.find('\n') == std::string::npos) return command(line);
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
      TRY(save_to(rest));
    } else {
      return Error{ErrorCode::invalid_argument, name == "/save"
                                                    ? "/save needs a file name"
                                                    : fmt::format("'{}' is no command; /help lists them", name)};
    }
    return Next::go_on;
  }

  Result<void> save_to(std::string_view rest) {
    constexpr std::string_view kOverwrite = "--overwrite ";
    const bool overwrite = rest.starts_with(kOverwrite);
    const std::string path = trimmed(overwrite ? rest.substr(kOverwrite.size()) : rest);
    auto saved = save(conversation_, path, overwrite ? ExistingFile::replace : ExistingFile::refuse);
    if (!saved.ok() && saved.error().code == ErrorCode::file_exists) {
      saved.error().message += fmt::format("; /save {}{} replaces it", kOverwrite, path);
    }
    TRY(saved);
    note(fmt::format("{} messages written to '{}'.\n", conversation_.messages().size(), printable(path)));
    return {};
  }

  Result<void> turn(const std::string& text) {
    GenerateOptions generation;
    generation.sampling = options_.sampling;
    generation.sampling.seed = seed_ + n_turns_++;  // the same numbers in every turn would favour the same words
    generation.max_tokens = options_.n_tokens == 0 ? Conversation::kHalfOfTheRest : options_.n_tokens;
    LoadingLine loading(weights_);  // not while a line is being typed
    AnswerOutput output;
    Result<void> printed;
    bool ends_line = true;
    // Reasoning is shown at a terminal alone: a pipe gets answers.
    bool is_dim = false;
    PrintableStream reasoning;
    const auto dim = [&](bool wanted) {
      if (std::exchange(is_dim, wanted) != wanted) note(wanted ? "\x1b[2m" : "\x1b[0m\n");
    };
    const auto receive = [&](std::string_view piece, Conversation::Part part) {
      loading.end();
      const bool is_reasoning = part == Conversation::Part::reasoning;
      if (is_reasoning && !is_terminal_) return true;
      dim(is_reasoning);
      if (is_reasoning) {
        note(reasoning.push(piece));
        return true;
      }
      if (printed.ok()) printed = output.print(piece);
      ends_line = piece.ends_with('\n');
      return printed.ok();
    };
    // The editor cleared the flag before it read the line: a ctrl-C that came since then stops this answer.
    if (is_terminal_) generation.should_stop = [] { return InterruptFlag::is_set(); };
    auto answer = [&] {
      const auto second_leaves = is_terminal_ ? std::make_unique<SecondInterruptLeaves>() : nullptr;
      return conversation_.ask(text, generation, receive);
    }();
    dim(false);
    TRY(printed);
    TRY(output.finish());
    loading.end();
    if (!answer.ok()) {
      if (answer.error().code != ErrorCode::limit_exceeded) return std::move(answer).error();
      answer.error().message += "; /reset begins a new conversation, --ctx asks for a larger context";
      return std::move(answer).error();
    }
    if (!ends_line || !is_terminal_) TRY(print("\n"));
    if (answer->is_context_full) note("The context is full: /reset begins a new conversation.\n");
    if (answer->is_cut) note("(cut here to keep room for a next question; -n sets the length)\n");
    if (answer->generated.reason == FinishReason::cancelled) note("(stopped)\n");
    return {};
  }

  static void note(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

  Conversation& conversation_;
  const ChatCommand& options_;
  WeightStore& weights_;
  const bool is_terminal_;
  const uint64_t seed_ = options_.seed.value_or(random_bits());
  uint64_t n_turns_ = 0;
};

Result<void> talk_at_terminal(Chat& chat) {
  const InterruptFlag interrupts;
  LineEditor editor(chat_history_file());
  say("a conversation: /help shows the commands, ctrl-C stops an answer, ctrl-D leaves");
  LineJoiner joiner;
  while (true) {
    const LineEditor::Input input = editor.read(joiner.is_open() ? ". " : "> ");
    switch (input.event) {
      case LineEditor::Event::end:
        std::fputc('\n', stderr);
        return {};
      case LineEditor::Event::interrupted:
        joiner = {};
        if (input.was_empty) say("ctrl-D or /exit leaves");
        continue;
      case LineEditor::Event::line:
        break;
    }
    const auto text = joiner.push(input.text);
    if (!text) continue;
    const Result<Next> next = chat.handle(*text);
    if (!next.ok()) {
      if (next.error().code == ErrorCode::cancelled) return next.error();  // nobody reads the answers
      say(next.error().message);
    } else if (*next == Next::leave) {
      return {};
    }
  }
}

Result<void> talk_through_pipe(Chat& chat) {
  std::optional<Error> first_error;
  LineJoiner joiner;
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = joiner.push(line);
    if (!text) continue;
    const Result<Next> next = chat.handle(*text);
    if (next.ok() && *next == Next::leave) break;
    if (next.ok()) continue;
    // Nobody reads the answers, or the device failed: there is no use in going on.
    const ErrorCode code = next.error().code;
    const bool is_mistake = code == ErrorCode::invalid_argument || code == ErrorCode::limit_exceeded ||
                            code == ErrorCode::file_exists || code == ErrorCode::file_write;
    if (!is_mistake) return next.error();
    say(next.error().message);
    if (!first_error) first_error = Error{ErrorCode::invalid_argument, "not all lines could be answered, see above"};
  }
  if (first_error) return *first_error;
  return {};
}

}  // namespace

Result<std::string> read_chat_template(const std::string& path) {
  constexpr uint64_t kMaxBytes = 1u << 20;
  return read_whole_file(path, kMaxBytes);
}

Result<void> chat(const ChatCommand& options) {
  TRY(check_options(options.sampling));
  const bool is_terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  const std::unique_ptr<Model> model =
      TRY(open_model(options.engine, {.in_token_loop = true}, is_terminal ? Telling::always : Telling::if_needed));
  const std::unique_ptr<Generator> generator = TRY(open_generator(*model, options.engine));
  TRY(model->load(options.engine.load));
  const tokenizer::Tokenizer& tokenizer = *TRY(model->tokenizer());
  chat::ChatTemplateChoice choice;
  if (!options.template_file.empty()) choice.text = TRY(read_chat_template(options.template_file));
  const auto chat_template =
      TRY(chat::ChatTemplate::load(model->file().metadata(), chat::chat_vocabulary(tokenizer), choice));
  const chat::ModelFormat format = TRY(chat::find_model_format(chat_template, tokenizer));
  Conversation conversation(*generator, tokenizer, chat_template, format);
  conversation.set_system(options.system);
  grammar::VocabularyConstraints constraints(tokenizer);
  if (auto answer = TRY(read_constraint_source(options.constraint))) {
    TRY(constraints.compile(*answer));  // a source that is wrong is told before the first turn
    conversation.constrain(constraints, *std::move(answer));
  }
  Chat chat(conversation, options, model->plan().weights(), is_terminal);
  return is_terminal ? talk_at_terminal(chat) : talk_through_pipe(chat);
}

}  // namespace rocmforge::apps
