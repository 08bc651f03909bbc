#include "server/api/infill.h"

#include <optional>
#include <string_view>

namespace rocmforge::server {
namespace {

constexpr std::string_view kRepository = "myproject\n", kThisFile = "filename\n";  // llama.cpp's, and so its clients'
constexpr std::string_view kSnippet = "\n\n--- snippet ---\n\n";  // before a file, where a model has no mark for it

class Writer {
 public:
  explicit Writer(const tokenizer::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void mark(std::optional<TokenId> id) { tokens_.push_back(*id); }
  Result<void> text(std::string_view text) {
    const auto more = TRY(tokenizer_.encode(text));
    tokens_.insert(tokens_.end(), more.begin(), more.end());
    return {};
  }
  std::vector<TokenId> take() { return std::move(tokens_); }

 private:
  const tokenizer::Tokenizer& tokenizer_;
  std::vector<TokenId> tokens_;
};

Result<void> write_files(Writer& out, const tokenizer::SpecialTokens& marks, const std::vector<InfillFile>& files) {
  if (marks.fim_rep) {
    out.mark(marks.fim_rep);
    TRY(out.text(kRepository));
  }
  for (const InfillFile& file : files) {
    if (marks.fim_sep) {
      out.mark(marks.fim_sep);
      TRY(out.text(file.name + "\n"));
    } else {
      TRY(out.text(kSnippet));
    }
    TRY(out.text(file.text));
  }
  if (!marks.fim_sep) return {};
  out.mark(marks.fim_sep);
  return out.text(kThisFile);
}

}  // namespace

bool can_infill(const tokenizer::Tokenizer& tokenizer) {
  const tokenizer::SpecialTokens& marks = tokenizer.vocabulary().special;
  return marks.fim_pre && marks.fim_suf && marks.fim_mid;
}

Result<std::vector<TokenId>> infill_prompt(const tokenizer::Tokenizer& tokenizer, const InfillText& text) {
  const tokenizer::Vocabulary& vocabulary = tokenizer.vocabulary();
  const tokenizer::SpecialTokens& marks = vocabulary.special;
  Writer out(tokenizer);
  if (vocabulary.add_bos && marks.bos) out.mark(marks.bos);
  if (!text.files.empty()) TRY(write_files(out, marks, text.files));
  out.mark(marks.fim_pre);
  TRY(out.text(text.before));
  out.mark(marks.fim_suf);
  TRY(out.text(text.behind));
  out.mark(marks.fim_mid);
  TRY(out.text(text.beginning));
  return out.take();
}

std::vector<TokenId> read_infill(Fields& fields, std::string_view param, const tokenizer::Tokenizer& tokenizer,
                                 const InfillText& text) {
  if (!can_infill(tokenizer)) {
    fields.refuse(param, "is not supported by this model: its vocabulary has no marks to fill in the middle.",
                  "unsupported_feature");
    return {};
  }
  auto tokens = infill_prompt(tokenizer, text);
  if (!tokens.ok()) fields.refuse(ApiError::from(tokens.error()));
  return tokens.ok() ? std::move(*tokens) : std::vector<TokenId>{};
}

}  // namespace rocmforge::server
