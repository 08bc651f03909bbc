#include "tokenizer/stream_decoder.h"

#include <algorithm>

#include "base/utf8.h"
#include "tokenizer/control_marks.h"

namespace rocmforge::tokenizer {

void StreamDecoder::Stop::advance(char byte) {
  while (matched > 0 && text[matched] != byte) matched = fallback[matched];
  if (text[matched] == byte) matched++;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, const StreamOptions& options)
    : tokenizer_(&tokenizer), show_special_(options.show_special), marked_(options.marked) {
  for (size_t i = 0; i < options.stop.size(); i++) {
    if (options.stop[i].empty()) continue;
    Stop stop{.index = i, .text = to_valid_utf8(options.stop[i]), .fallback = {0, 0}};
    uint32_t border = 0;  // of text[0, n): the longest prefix that is also its end
    for (size_t n = 1; n < stop.text.size(); n++) {
      while (border > 0 && stop.text[border] != stop.text[n]) border = stop.fallback[border];
      if (stop.text[border] == stop.text[n]) border++;
      stop.fallback.push_back(border);
    }
    stops_.push_back(std::move(stop));
  }
}

bool StreamDecoder::is_marked(TokenId id) const {
  return marked_ && std::ranges::binary_search(*marked_, id.value, {}, &TokenId::value);
}

StreamDecoder::Output StreamDecoder::push(TokenId id) {
  if (!ended_ && is_marked(id)) {
    std::string text = to_valid_utf8(bytes_);
    bytes_.clear();
    text += kControlBegin;
    text += to_valid_utf8(tokenizer_->token_text(id));
    text += kControlEnd;
    return emit(text);
  }
  if (ended_ || (!show_special_ && !tokenizer_->is_shown(id))) return {};
  bytes_.append(tokenizer_->token_text(id));
  const size_t n_complete = bytes_.size() - incomplete_utf8_suffix(bytes_);
  const std::string valid = to_valid_utf8(std::string_view(bytes_).substr(0, n_complete));
  bytes_.erase(0, n_complete);
  return emit(valid);
}

StreamDecoder::Output StreamDecoder::finish() {
  if (ended_) return {};
  Output out = emit(to_valid_utf8(bytes_));
  bytes_.clear();
  if (!out.stopped) out.text.append(held_);
  held_.clear();
  ended_ = true;
  return out;
}

StreamDecoder::Output StreamDecoder::emit(std::string_view valid_text) {
  for (const char byte : valid_text) {
    held_.push_back(byte);
    const Stop* done = nullptr;  // the longest of those completed by this byte
    for (Stop& stop : stops_) {
      stop.advance(byte);
      if (stop.matched == stop.text.size() && (!done || stop.text.size() > done->text.size())) done = &stop;
    }
    if (done) {
      ended_ = true;
      held_.resize(held_.size() - done->text.size());
      return {std::move(held_), done->index};
    }
  }
  size_t n_kept = 0;
  for (const Stop& stop : stops_) n_kept = std::max<size_t>(n_kept, stop.matched);
  Output out{held_.substr(0, held_.size() - n_kept), std::nullopt};
  held_.erase(0, held_.size() - n_kept);
  return out;
}

}  // namespace rocmforge::tokenizer
