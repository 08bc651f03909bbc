#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include <map>

#include "support/support.h"

namespace rocmforge {
namespace {

using Phase = PrefixTree::Phase;

// n pages of tokens, those of page i all equal to values[i].
std::vector<TokenId> tokens_of(std::initializer_list<int> values) {
  std::vector<TokenId> tokens;
  for (const int value : values) tokens.insert(tokens.end(), kPageTokens, TokenId(value));
  return tokens;
}

struct Fixture {
  PagePool pool{8};
  StatePool states{3};
  PrefixTree tree{pool, states};

  // Ready nodes for these tokens, held by nobody.
  std::vector<NodeId> add(std::initializer_list<int> values, std::string_view salt = "") {
    const auto tokens = tokens_of(values);
    std::vector<NodeId> nodes = tree.find(salt, tokens).nodes;
    for (const NodeId node : nodes) tree.hold(node);
    for (size_t i = nodes.size(); i < values.size(); i++) {
      const auto parent = i > 0 ? std::optional(nodes[i - 1]) : std::nullopt;
      const PageId page = pool.allocate().value();
      nodes.push_back(
          tree.insert(parent, salt, std::span(tokens).subspan(i * kPageTokens, kPageTokens), page, Phase::ready));
      EXPECT_EQ(tree.page(nodes.back()), page);
    }
    for (size_t i = nodes.size(); i > 0; i--) tree.release(nodes[i - 1]);
    return nodes;
  }
};

TEST(PrefixTree, FindsTheLongestCommonBeginningInWholePages) {
  Fixture f;
  const auto nodes = f.add({1, 2, 3});
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2, 3, 4})).nodes, nodes);
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2, 4})).nodes, std::vector(nodes.begin(), nodes.begin() + 2));
  EXPECT_TRUE(f.tree.find("", tokens_of({2, 3})).nodes.empty());
  auto almost = tokens_of({1, 2});
  almost.pop_back();
  EXPECT_EQ(f.tree.find("", almost).nodes.size(), 1u);
  EXPECT_TRUE(f.tree.is_consistent());
}

TEST(PrefixTree, SharesNothingBetweenSalts) {
  Fixture f;
  f.add({1, 2}, "alice");
  EXPECT_TRUE(f.tree.find("bob", tokens_of({1, 2})).nodes.empty());
  EXPECT_TRUE(f.tree.find("", tokens_of({1, 2})).nodes.empty());
  f.add({1, 2}, "bob");
  EXPECT_NE(f.tree.find("bob", tokens_of({1, 2})).nodes, f.tree.find("alice", tokens_of({1, 2})).nodes);
}

TEST(PrefixTree, APendingPageIsFoundButNotUsedAndLeavesWithItsOwner) {
  Fixture f;
  const auto tokens = tokens_of({7});
  const PageId page = f.pool.allocate().value();
  const NodeId node = f.tree.insert(std::nullopt, "", tokens, page, Phase::pending);
  const auto match = f.tree.find("", tokens);
  EXPECT_TRUE(match.nodes.empty());
  ASSERT_TRUE(match.pending);
  EXPECT_TRUE(f.tree.is_pending(*match.pending));
  f.tree.release(node);
  EXPECT_FALSE(f.tree.is_pending(*match.pending));
  EXPECT_EQ(f.pool.n_free(), 8u);

  // The same node pending again is another one.
  ASSERT_EQ(f.tree.insert(std::nullopt, "", tokens, f.pool.allocate().value(), Phase::pending), node);
  EXPECT_FALSE(f.tree.is_pending(*match.pending));
  f.tree.publish(node);
  EXPECT_EQ(f.tree.find("", tokens).nodes, std::vector{node});
}

TEST(PrefixTree, TheSecondPageOfOneKeyIsToldOfTheFirst) {
  Fixture f;
  const auto first = f.add({1});
  const PageId second = f.pool.allocate().value();
  EXPECT_EQ(f.tree.insert(std::nullopt, "", tokens_of({1}), second, Phase::ready), first[0]);
  EXPECT_EQ(f.pool.n_holders(second), 1u) << "the tree does not hold it";
}

TEST(PrefixTree, EvictsTheLeastRecentlyUsedChildrenFirst) {
  Fixture f;
  const auto a = f.add({1, 2});
  const auto b = f.add({3});
  f.tree.hold(a[0]);  // used again: now younger than b, but its child is not
  f.tree.release(a[0]);
  const auto is_there = [&](NodeId node) { return f.tree.phase(node) == Phase::ready; };
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
  const auto nodes = f.add({1, 2});
  for (const NodeId node : nodes) f.tree.hold(node);
  f.tree.hold(nodes[0]);
  f.tree.release(nodes[1], false);
  f.tree.release(nodes[0], false);
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2})).nodes.size(), 1u);
  f.tree.release(nodes[0], false);
  EXPECT_EQ(f.pool.n_free(), 8u);
}

TEST(PrefixTree, TellsTheDeepestStateOfAMatch) {
  Fixture f;
  const auto nodes = f.add({1, 2, 3});
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2, 3})).n_to_state, 0u);
  const StateId state = *f.states.take();
  f.tree.keep_state(nodes[1], state);
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2, 3})).n_to_state, 2u);
  EXPECT_EQ(f.tree.find("", tokens_of({1, 4})).n_to_state, 0u);
  EXPECT_EQ(f.tree.resume_from(nodes[1]), state);
  EXPECT_EQ(f.states.n_holders(state), 3u) << "who computed it, the tree, and who goes on from it";
  EXPECT_TRUE(f.tree.is_consistent());
}

TEST(PrefixTree, EvictsTheLeastRecentlyUsedStateThatNobodyReads) {
  Fixture f;
  const auto nodes = f.add({1, 2, 3});
  std::vector<StateId> states;
  for (const NodeId node : nodes) {
    states.push_back(*f.states.take());
    f.tree.keep_state(node, states.back());
    f.states.release(states.back());
  }
  f.states.release(f.tree.resume_from(nodes[0]));  // used again: now the youngest
  const StateId read = f.tree.resume_from(nodes[1]);
  ASSERT_TRUE(f.tree.evict_state());
  EXPECT_FALSE(f.tree.state(nodes[2]).has_value());
  ASSERT_TRUE(f.tree.evict_state());
  EXPECT_FALSE(f.tree.state(nodes[0]).has_value());
  EXPECT_FALSE(f.tree.evict_state());
  EXPECT_EQ(f.tree.find("", tokens_of({1, 2, 3})).nodes, nodes) << "nodes stay";
  EXPECT_TRUE(f.tree.is_consistent());
  f.states.release(read);
  EXPECT_TRUE(f.tree.evict_state());
  EXPECT_EQ(f.states.n_free(), 3u);
}

TEST(PrefixTree, EvictsWindowPagesThatWerePassedBeforeThoseWhereOthersBegin) {
  PagePool pool{8}, windows{4};
  StatePool states{0};
  PrefixTree tree{pool, states, &windows};
  const auto tokens = tokens_of({1, 2, 3});
  std::vector<NodeId> nodes;
  for (size_t i = 0; i < 3; i++) {
    const auto parent = i > 0 ? std::optional(nodes[i - 1]) : std::nullopt;
    nodes.push_back(tree.insert(parent, "", std::span(tokens).subspan(i * kPageTokens, kPageTokens),
                                pool.allocate().value(), Phase::ready));
    const PageId page = windows.allocate().value();
    tree.keep_window_page(nodes[i], page);
    EXPECT_EQ(tree.window_page(nodes[i]), page);
    const PageId second = windows.allocate().value();
    tree.keep_window_page(nodes[i], second);
    EXPECT_EQ(tree.window_page(nodes[i]), page) << "the first stays";
    windows.release(second);
  }
  EXPECT_FALSE(tree.evict_window_page()) << "all are held";
  tree.release_window_page(nodes[0], true);
  tree.release_window_page(nodes[1], false);
  EXPECT_EQ(tree.n_window_pages_evictable(), 2u);
  ASSERT_TRUE(tree.evict_window_page());
  EXPECT_FALSE(tree.window_page(nodes[1]).has_value()) << "passed";
  EXPECT_TRUE(tree.is_consistent());
  const PageId again = tree.resume_window_page(nodes[0]);
  EXPECT_FALSE(tree.evict_window_page()) << "all are held";
  EXPECT_EQ(windows.n_holders(again), 2u);
  tree.release_window_page(nodes[0], false);
  tree.release_window_page(nodes[2], false);
  ASSERT_TRUE(tree.evict_window_page());
  EXPECT_FALSE(tree.window_page(nodes[2]).has_value()) << "others began behind the first";
  EXPECT_TRUE(tree.is_consistent());
  // A node takes its window page with it.
  for (size_t i = 3; i > 0; i--) tree.release(nodes[i - 1]);
  while (tree.evict()) continue;
  EXPECT_EQ(windows.n_free(), 4u);
  EXPECT_EQ(pool.n_free(), 8u);
  EXPECT_TRUE(tree.is_consistent());
}

TEST(PrefixTree, AStateGoesWithItsNode) {
  Fixture f;
  const auto nodes = f.add({1, 2});
  const StateId state = *f.states.take();
  f.tree.keep_state(nodes[1], state);
  f.states.release(state);
  ASSERT_TRUE(f.tree.evict());
  EXPECT_EQ(f.states.n_free(), 3u);
  EXPECT_EQ(f.tree.n_states(), 0u);
  EXPECT_TRUE(f.tree.is_consistent());
}

TEST(PrefixTree, KeepsTheFirstStateOfANodeAndGivesItUpWithOneThatFailed) {
  Fixture f;
  const auto nodes = f.add({1, 2});
  const StateId first = *f.states.take(), second = *f.states.take();
  f.tree.keep_state(nodes[0], first);
  EXPECT_FALSE(f.tree.is_state_shared(nodes[0]));
  f.tree.keep_state(nodes[0], second);
  EXPECT_TRUE(f.tree.is_state_shared(nodes[0]));
  EXPECT_EQ(f.tree.state(nodes[0]), first);
  EXPECT_EQ(f.states.n_holders(second), 1u);
  f.tree.hold(nodes[0]);
  f.tree.release(nodes[0], false);
  EXPECT_EQ(f.tree.phase(nodes[0]), Phase::ready) << "it has a child";
  EXPECT_FALSE(f.tree.state(nodes[0]).has_value());
  EXPECT_TRUE(f.tree.is_consistent());
}

// Against a plain map from whole keys to nodes.
TEST(PrefixTree, AgreesWithAMapOverRandomLives) {
  auto rng = testing::seeded_rng();
  PagePool pool(12);
  StatePool states(0);
  PrefixTree tree(pool, states);
  std::map<std::vector<int>, NodeId> known;
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
      std::erase_if(known, [&](const auto& entry) { return tree.phase(entry.second) == Phase::absent; });
    } else {
      std::vector<NodeId> nodes = tree.find("", tokens).nodes;
      for (size_t i = 0; i < nodes.size(); i++) {
        ASSERT_EQ(known.at({key.begin(), key.begin() + static_cast<ptrdiff_t>(i) + 1}), nodes[i]);
      }
      ASSERT_TRUE(nodes.size() == key.size() ||
                  !known.contains({key.begin(), key.begin() + static_cast<ptrdiff_t>(nodes.size()) + 1}));
      for (const NodeId node : nodes) tree.hold(node);
      for (size_t i = nodes.size(); i < key.size() && pool.n_free() > 0; i++) {
        const auto parent = i > 0 ? std::optional(nodes[i - 1]) : std::nullopt;
        nodes.push_back(tree.insert(parent, "", std::span(tokens).subspan(i * kPageTokens, kPageTokens),
                                    pool.allocate().value(), Phase::ready));
        known[{key.begin(), key.begin() + static_cast<ptrdiff_t>(i) + 1}] = nodes[i];
      }
      for (size_t i = nodes.size(); i > 0; i--) tree.release(nodes[i - 1]);
    }
    ASSERT_EQ(known.size() + pool.n_free(), 12u);
  }
  EXPECT_TRUE(tree.is_consistent());
}

}  // namespace
}  // namespace rocmforge
