// The tables under the tokenizers: texts by number, longest prefixes, GPT-2's bytes, the order of merges.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/colliding_keys.h"
#include "support/cpu_time.h"
#include "support/support.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/join_filter.h"
#include "tokenizer/merge.h"
#include "tokenizer/phrase_finder.h"
#include "tokenizer/text_table.h"
#include "tokenizer/trie.h"

namespace rocmforge::tokenizer {
namespace {

std::string random_word(std::mt19937_64& rng, size_t max_bytes, int n_letters) {
  std::string word(1 + rng() % max_bytes, ' ');
  for (char& c : word) c = static_cast<char>('a' + rng() % static_cast<uint64_t>(n_letters));
  return word;
}

TEST(TextTable, FindsTheFirstOfEqualTexts) {
  TextTable table(4, 16);
  EXPECT_EQ(table.add("one"), std::nullopt);
  EXPECT_EQ(table.add(""), std::nullopt);
  EXPECT_EQ(table.add("two"), std::nullopt);
  EXPECT_EQ(table.add("one"), 0u);
  EXPECT_EQ(table.size(), 4u);
  EXPECT_EQ(table[3], "one");
  EXPECT_EQ(table.find("one"), 0u);
  EXPECT_EQ(table.find("two"), 2u);
  EXPECT_EQ(table.find("tw"), std::nullopt);
  EXPECT_EQ(table.find(""), std::nullopt);
  EXPECT_EQ(TextTable().find("x"), std::nullopt);
}

TEST(TextTable, EqualsAMapOnRandomTexts) {
  auto rng = testing::seeded_rng();
  TextTable table(5000, 200'000);
  std::map<std::string, uint32_t> map;
  for (uint32_t i = 0; i < 5000; i++) {
    const std::string word = random_word(rng, i % 40 + 1, 3);
    const auto [place, is_new] = map.emplace(word, i);
    EXPECT_EQ(table.add(word), is_new ? std::nullopt : std::optional(place->second));
  }
  for (int i = 0; i < 5000; i++) {
    const std::string word = random_word(rng, 8, 3);
    const auto place = map.find(word);
    EXPECT_EQ(table.find(word), place == map.end() ? std::nullopt : std::optional(place->second));
  }
}

// 200,000 such tokens, 6.5 MB of a file, took 78 s.
TEST(TextTable, CollidingTokensTakeNoLongerThanOthers) {
  constexpr size_t kTokens = 10'000;
  const std::vector<std::string> hostile = testing::colliding_tokens(kTokens);
  std::vector<std::string> ordinary;
  for (size_t i = 0; i < kTokens; i++) ordinary.push_back("token number " + std::to_string(100 + i % 900 + i));
  const auto fill = [&](const std::vector<std::string>& texts) {
    return testing::cpu_seconds_of([&] {
      TextTable table(kTokens, 32 * kTokens);
      for (const std::string& text : texts) table.add(text);
      EXPECT_EQ(table.size(), kTokens);
    });
  };
  EXPECT_LT(fill(hostile), 8 * fill(ordinary));
}

TEST(PhraseFinder, EqualsASearchOfAllPhrases) {
  auto rng = testing::seeded_rng();
  for (int round = 0; round < 50; round++) {
    std::set<std::string> words;
    while (words.size() < 20) words.insert(random_word(rng, 7, 2));
    std::vector<PhraseFinder::Phrase> phrases;
    for (const std::string& word : words) phrases.push_back({word, static_cast<int32_t>(phrases.size())});
    const PhraseFinder finder(phrases);
    const std::string text = random_word(rng, 60, 3);
    PhraseFinder::Scan scan(finder, text);
    for (size_t at = 0; at < text.size(); at++) {
      const PhraseFinder::Phrase* best = nullptr;
      for (const PhraseFinder::Phrase& phrase : phrases) {
        const bool fits = std::string_view(text).substr(at).starts_with(phrase.text);
        if (fits && (!best || phrase.text.size() > best->text.size())) best = &phrase;
      }
      const auto match = scan.longest_at(at);
      ASSERT_EQ(match.has_value(), best != nullptr) << text << " at " << at;
      if (!best) continue;
      EXPECT_EQ(match->value, best->value);
      EXPECT_EQ(match->n_bytes, best->text.size());
    }
  }
  EXPECT_FALSE(PhraseFinder::Scan(PhraseFinder(), "x").longest_at(0).has_value());
}

TEST(PhraseFinder, FindsPhrasesAcrossBlocks) {
  const PhraseFinder finder({{"<|im_end|>", 1}, {"<|", 2}});
  std::string text;
  for (int i = 0; i < 30'000; i++) text += "<|im_end|>";
  PhraseFinder::Scan scan(finder, text);
  for (size_t at = 0; at < text.size(); at += 10) {
    const auto match = scan.longest_at(at);
    ASSERT_TRUE(match.has_value()) << at;
    ASSERT_EQ(match->value, 1) << at;
  }
}

// Names of 990 '<' made a trie walk 990 steps at every byte of "<<<<...".
TEST(PhraseFinder, LongPhrasesTakeNoLongerThanShortOnes) {
  const std::string text(200'000, '<');
  const auto scan_for = [&](const std::vector<std::string>& names) {
    std::vector<PhraseFinder::Phrase> phrases;
    for (const std::string& name : names) phrases.push_back({name, static_cast<int32_t>(phrases.size())});
    const PhraseFinder finder(phrases);
    return testing::cpu_seconds_of([&] {
      PhraseFinder::Scan scan(finder, text);
      for (size_t at = 0; at < text.size(); at++) EXPECT_FALSE(scan.longest_at(at).has_value());
    });
  };
  std::vector<std::string> short_names, long_names;
  for (char c = 'a'; c <= 'z'; c++) {
    short_names.push_back(std::string("<<") + c);
    long_names.push_back(std::string(990, '<') + c);
    long_names.push_back(std::string(1, c) + std::string(990, '<'));
    short_names.push_back(c + std::string("<<"));
  }
  EXPECT_LT(scan_for(long_names), 8 * scan_for(short_names));
}

TEST(Trie, EqualsASearchOfAllTexts) {
  auto rng = testing::seeded_rng();
  std::set<std::string> words;
  while (words.size() < 200) words.insert(random_word(rng, 6, 3));
  std::vector<Trie::Entry> entries;
  for (const std::string& word : words) entries.push_back({word, static_cast<int32_t>(entries.size())});
  const Trie trie(entries);
  for (int i = 0; i < 2000; i++) {
    const std::string text = random_word(rng, 12, 4);
    const size_t at = rng() % text.size();
    const Trie::Entry* best = nullptr;
    for (const Trie::Entry& entry : entries) {
      const bool fits = std::string_view(text).substr(at).starts_with(entry.text);
      if (fits && (!best || entry.text.size() > best->text.size())) best = &entry;
    }
    const auto match = trie.longest(text, at);
    ASSERT_EQ(match.has_value(), best != nullptr);
    if (best) {
      EXPECT_EQ(match->value, best->value);
      EXPECT_EQ(match->n_bytes, best->text.size());
    }
  }
  EXPECT_TRUE(Trie().empty());
  EXPECT_FALSE(Trie().longest("x", 0).has_value());
}

TEST(ByteLevel, SpellsEveryByteAsItsOwnPrintableCharacter) {
  std::set<char32_t> seen;
  std::string all;
  for (int byte = 0; byte < 256; byte++) {
    seen.insert(spelled_byte(static_cast<uint8_t>(byte)));
    all.push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(seen.size(), 256u);
  EXPECT_EQ(spelled_byte('a'), U'a');
  EXPECT_EQ(spelled_byte(' '), U'Ġ');
  EXPECT_EQ(spelled_byte('\n'), U'Ċ');
  EXPECT_EQ(spelled_byte(0xAD), U'Ń');
  std::string spelled;
  spell_bytes(spelled, all);
  EXPECT_EQ(unspell_bytes(spelled), all);
  EXPECT_EQ(unspell_bytes("a b"), std::nullopt);  // a space spells no byte
  EXPECT_EQ(unspell_bytes("中"), std::nullopt);
  EXPECT_EQ(unspell_bytes("\xFF"), std::nullopt);
}

TEST(JoinFilter, CutsOnlyWhereNoTokenJoins) {
  JoinFilter filter;
  for (const char* token : {"ab", "bc", "é中", "x"}) filter.add(token);
  std::vector<std::string> words;
  filter.split("abcab é中x", [&](std::string_view word) { words.emplace_back(word); });
  EXPECT_EQ(words, (std::vector<std::string>{"abc", "ab", " ", "é中", "x"}));
  filter.split("", [&](std::string_view) { FAIL(); });
}

TEST(MergeQueue, GivesTheLowestRankThenTheLeftmost) {
  auto rng = testing::seeded_rng();
  MergeQueue queue;
  std::multiset<std::pair<uint32_t, uint32_t>> expected;
  for (int i = 0; i < 20'000; i++) {
    if (expected.empty() || rng() % 5 < 3) {
      const auto rank = static_cast<uint32_t>(rng() % 300), position = static_cast<uint32_t>(rng() % 1000);
      queue.push(rank, position);
      expected.emplace(rank, position);
    } else {
      const auto due = queue.pop();
      ASSERT_TRUE(due.has_value());
      ASSERT_EQ(std::pair(due->rank, due->position), *expected.begin());
      expected.erase(expected.begin());
    }
  }
  while (const auto due = queue.pop()) {
    ASSERT_EQ(std::pair(due->rank, due->position), *expected.begin());
    expected.erase(expected.begin());
  }
  EXPECT_TRUE(expected.empty());
}

// The definition, word for word: the best pair of all, the leftmost among equals, until none is left.
std::vector<std::string> merge_by_definition(std::string_view word, const std::map<std::string, uint32_t>& ranks) {
  std::vector<std::string> parts;
  for (const char c : word) parts.emplace_back(1, c);
  while (true) {
    size_t best = parts.size();
    uint32_t best_rank = kNoRank;
    for (size_t i = 0; i + 1 < parts.size(); i++) {
      const auto rank = ranks.find(parts[i] + parts[i + 1]);
      if (rank != ranks.end() && rank->second < best_rank) best = i, best_rank = rank->second;
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeSymbols, FollowsTheDefinitionOnShortAndLongWords) {
  auto rng = testing::seeded_rng();
  for (int round = 0; round < 200; round++) {
    // Ranks in no sensible order and often equal, as a file may have them.
    std::map<std::string, uint32_t> ranks;
    for (int i = 0; i < 60; i++) ranks.emplace(random_word(rng, 6, 3), static_cast<uint32_t>(rng() % 20));
    const std::string word = random_word(rng, round % 2 ? 40 : 400, 3);
    std::vector<Symbol> symbols;
    for (uint32_t i = 0; i < word.size(); i++) symbols.push_back({.begin = i, .token = word[i]});
    const auto end_of = [&](uint32_t i) {
      return symbols[i].next == kNoSymbol ? word.size() : symbols[symbols[i].next].begin;
    };
    merge_symbols(symbols, [&](uint32_t left, uint32_t right) {
      const auto rank = ranks.find(word.substr(symbols[left].begin, end_of(right) - symbols[left].begin));
      return rank == ranks.end() ? Joined{} : Joined{rank->second, 1};
    });
    std::vector<std::string> parts;
    for (uint32_t i = 0; i != kNoSymbol; i = symbols[i].next) {
      parts.push_back(word.substr(symbols[i].begin, end_of(i) - symbols[i].begin));
    }
    ASSERT_EQ(parts, merge_by_definition(word, ranks)) << word;
  }
}

}  // namespace
}  // namespace rocmforge::tokenizer
