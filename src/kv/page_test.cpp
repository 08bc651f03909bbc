#include "kv/page.h"

#include <gtest/gtest.h>

#include <optional>

#include "support/support.h"

namespace rocmforge {
namespace {

TEST(PagePool, GivesEveryPageOnceAndThenSaysSo) {
  PagePool pool(3);
  std::vector<PageId> pages;
  for (int i = 0; i < 3; i++) pages.push_back(*pool.allocate());
  EXPECT_NE(pages[0], pages[1]);
  EXPECT_NE(pages[1], pages[2]);
  EXPECT_EQ(pool.allocate().error().code, ErrorCode::out_of_memory);
  pool.release(pages[1]);
  EXPECT_EQ(*pool.allocate(), pages[1]);
  EXPECT_TRUE(pool.is_consistent());
}

TEST(PagePool, ASharedPageIsFreeOnlyAfterItsLastHolder) {
  PagePool pool(1);
  const PageId page = *pool.allocate();
  pool.share(page);
  pool.release(page);
  EXPECT_EQ(pool.n_free(), 0u);
  pool.release(page);
  EXPECT_EQ(pool.n_free(), 1u);
}

TEST(PagePool, ReleasingAFreePageIsABug) {
  PagePool pool(1);
  const PageId page = *pool.allocate();
  pool.release(page);
  EXPECT_DEATH(pool.release(page), "broken invariant");
}

TEST(BlockTable, GrowsByPagesAllOrNothing) {
  PagePool pool(3);
  BlockTable a(pool), b(pool);
  ASSERT_TRUE(a.grow_to(1).ok());
  EXPECT_EQ(a.capacity(), 64u);
  ASSERT_TRUE(a.grow_to(65).ok());
  EXPECT_EQ(a.pages().size(), 2u);
  EXPECT_EQ(b.grow_to(129).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(pool.n_free(), 1u) << "a failed growth keeps nothing";
  a.shrink_to(64);
  EXPECT_TRUE(b.grow_to(128).ok());
}

TEST(BlockTable, GivesItsPagesBackWhenItEndsOrIsReplaced) {
  PagePool pool(4);
  {
    BlockTable a(pool);
    ASSERT_TRUE(a.grow_to(256).ok());
    BlockTable b = std::move(a);
    EXPECT_EQ(pool.n_free(), 0u);
    b = BlockTable(pool);
    EXPECT_EQ(pool.n_free(), 4u);
  }
  EXPECT_TRUE(pool.is_consistent());
}

TEST(BlockTable, RandomGrowthAndShrinkingConservesPages) {
  auto rng = testing::seeded_rng();
  PagePool pool(50);
  std::vector<std::optional<BlockTable>> tables(10);
  for (int step = 0; step < 20'000; step++) {
    auto& table = tables[rng() % tables.size()];
    const uint64_t n_tokens = rng() % 1000;
    switch (rng() % 3) {
      case 0:
        table.reset();
        break;
      case 1:
        if (!table) table.emplace(pool);
        if (!table->grow_to(n_tokens).ok()) table.reset();
        break;
      case 2:
        if (table) table->shrink_to(n_tokens);
        break;
    }
    size_t n_held = 0;
    for (const auto& t : tables) n_held += t ? t->pages().size() : 0;
    ASSERT_EQ(n_held + pool.n_free(), 50u);
  }
  EXPECT_TRUE(pool.is_consistent());
}

}  // namespace
}  // namespace rocmforge
