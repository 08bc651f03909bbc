#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <map>

#include "support/support.h"

namespace rocmforge {
namespace {

using State = PrefixTree::State;

// n pages of tokens, those of page i all equal to values[i].
std::vector<TokenId> tokens_of(std::initializer_list<int> values) {
  std::vector<TokenId> tokens;
  for (const int value : values) tokens.insert(tokens.end(), kPageTokens, TokenId(value));
  return tokens;
}

struct Fixture {
  PagePool pool{8};
  PrefixTree tree{pool};

  // Ready pages for these tokens, held by nobody.
  std::vector<PageId> add(std::initializer_list<int> values, std::string_view salt = "") {
    const auto tokens = tokens_of(values);
    std::vector<PageId> pages = tree.find(salt, tokens).pages;
    for (const PageId page : pages) tree.hold(page);
    for (size_t i = pages.size(); i < values.size(); i++) {
      const auto parent = i > 0 ? std::optional(pages[i - 1]) : std::nullopt;
      const PageId page = pool.allocate().value();
      EXPECT_EQ(tree.insert(parent, salt, std::span(tokens).subspan(i * kPageTokens, kPageTokens), page, State::ready),
                page);
      pages.push_back(page);
    }
    for (size_t i = pages.size(); i > 0; i--) tree.release(pages[i - 1]);
    return pages;
  }
};

TEST(PrefixTree, FindsTheLongestCommonBeginningInWholePages) {
  Fixture f;
  const auto pages = f.add({1, 2, 3});
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2, 3, 4})).pages, pages);
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2, 4})).pages, std::vector(pages.begin(), pages.begin() + 2));
  EXPECT_TRUE(f.tree.find("", tokens_of({2, 3})).pages.empty());
  auto almost = tokens_of({1, 2});
  almost.pop_back();
  EXPECT_EQ(f.tree.find("", almost).pages.size(), 1u);
  EXPECT_TRUE(f.tree.is_consistent());
}

TEST(PrefixTree, SharesNothingBetweenSalts) {
  Fixture f;
  f.add({1, 2}, "alice");
  EXPECT_TRUE(f.tree.find("bob", tokens_of({1, 2})).pages.empty());
  EXPECT_TRUE(f.tree.find("", tokens_of({1, 2})).pages.empty());
  f.add({1, 2}, "bob");
  EXPECT_NE(f.tree.find("bob", tokens_of({1, 2})).pages, f.tree.find("alice", tokens_of({1, 2})).pages);
}

TEST(PrefixTree, APendingPageIsFoundButNotUsedAndLeavesWithItsOwner) {
  Fixture f;
  const auto tokens = tokens_of({7});
  const PageId page = f.pool.allocate().value();
  f.tree.insert(std::nullopt, "", tokens, page, State::pending);
  const auto match = f.tree.find("", tokens);
  EXPECT_TRUE(match.pages.empty());
  ASSERT_TRUE(match.pending);
  EXPECT_TRUE(f.tree.is_pending(*match.pending));
  f.tree.release(page);
  EXPECT_FALSE(f.tree.is_pending(*match.pending));
  EXPECT_EQ(f.pool.n_free(), 8u);

  // The same page pending again is another one.
  ASSERT_EQ(f.pool.allocate().value(), page);
  f.tree.insert(std::nullopt, "", tokens, page, State::pending);
  EXPECT_FALSE(f.tree.is_pending(*match.pending));
  f.tree.publish(page);
  EXPECT_EQ(f.tree.find("", tokens).pages, std::vector{page});
}

TEST(PrefixTree, TheSecondPageOfOneKeyIsToldOfTheFirst) {
  Fixture f;
  const auto first = f.add({1});
  const PageId second = f.pool.allocate().value();
  EXPECT_EQ(f.tree.insert(std::nullopt, "", tokens_of({1}), second, State::ready), first[0]);
  EXPECT_EQ(f.tree.state(second), State::absent);
}

TEST(PrefixTree, EvictsTheLeastRecentlyUsedChildrenFirst) {
  Fixture f;
  const auto a = f.add({1, 2});
  const auto b = f.add({3});
  f.tree.hold(a[0]);  // used again: now younger than b, but its child is not
  f.tree.release(a[0]);
  const auto is_there = [&](PageId page) { return f.tree.state(page) == State::ready; };
  ASSERT_TRUE(f.tree.evict());
  EXPECT_FALSE(is_there(a[1]));
  ASSERT_TRUE(f.tree.evict());
  EXPECT_FALSE(is_there(b[0]));
  EXPECT_TRUE(is_there(a[0]));
  f.tree.hold(a[0]);
  EXPECT_FALSE(f.tree.evict()) << "held pages stay";
  EXPECT_TRUE(f.tree.is_consistent());
}

TEST(PrefixTree, WhatIsNotToBeKeptLeavesUnlessOthersHoldIt) {
  Fixture f;
  const auto pages = f.add({1, 2});
  for (const PageId page : pages) f.tree.hold(page);
  f.tree.hold(pages[0]);
  f.tree.release(pages[1], false);
  f.tree.release(pages[0], false);
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2})).pages.size(), 1u);
  f.tree.release(pages[0], false);
  EXPECT_EQ(f.pool.n_free(), 8u);
}

// Against a plain map from whole keys to pages.
TEST(PrefixTree, AgreesWithAMapOverRandomLives) {
  auto rng = testing::seeded_rng();
  PagePool pool(12);
  PrefixTree tree(pool);
  std::map<std::vector<int>, PageId> known;
  for (int step = 0; step < 20'000; step++) {
    const int n = 1 + static_cast<int>(rng() % 3);
    std::vector<int> key;
    std::vector<TokenId> tokens;
    for (int i = 0; i < n; i++) {
      key.push_back(static_cast<int>(rng() % 3));
      tokens.insert(tokens.end(), kPageTokens, TokenId(key.back()));
    }
    if (rng() % 4 == 0) {
      const uint32_t n_free = pool.n_free();
      const bool evicted = tree.evict();
      ASSERT_EQ(evicted, !known.empty());
      ASSERT_EQ(pool.n_free(), n_free + evicted);
      std::erase_if(known, [&](const auto& entry) { return tree.state(entry.second) == State::absent; });
    } else {
      std::vector<PageId> pages = tree.find("", tokens).pages;
      for (size_t i = 0; i < pages.size(); i++) {
        ASSERT_EQ(known.at({key.begin(), key.begin() + static_cast<ptrdiff_t>(i) + 1}), pages[i]);
      }
      ASSERT_TRUE(pages.size() == key.size() ||
                  !known.contains({key.begin(), key.begin() + static_cast<ptrdiff_t>(pages.size()) + 1}));
      for (const PageId page : pages) tree.hold(page);
      for (size_t i = pages.size(); i < key.size() && pool.n_free() > 0; i++) {
        const auto parent = i > 0 ? std::optional(pages[i - 1]) : std::nullopt;
        pages.push_back(pool.allocate().value());
        tree.insert(parent, "", std::span(tokens).subspan(i * kPageTokens, kPageTokens), pages[i], State::ready);
        known[{key.begin(), key.begin() + static_cast<ptrdiff_t>(i) + 1}] = pages[i];
      }
      for (size_t i = pages.size(); i > 0; i--) tree.release(pages[i - 1]);
    }
    ASSERT_EQ(known.size() + pool.n_free(), 12u);
  }
  EXPECT_TRUE(tree.is_consistent());
}

}  // namespace
}  // namespace rocmforge
