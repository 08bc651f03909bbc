#include "text_lines.h"

#include <algorithm>

#include "base/file.h"
#include "terminal.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge::apps {

Result<std::vector<std::string>> lines_of(const std::string& file) {
  const bool is_standard_input = file.empty() || file == "-";
  const std::string all = TRY(is_standard_input ? read_standard_input(tokenizer::Tokenizer::kMaxTextBytes)
                                                : read_whole_file(file, tokenizer::Tokenizer::kMaxTextBytes));
  std::vector<std::string> lines;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    lines.push_back(all.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

}  // namespace rocmforge::apps
