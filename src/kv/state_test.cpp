#include "kv/state.h"

#include <gtest/gtest.h>

#include <map>

#include "support/support.h"

namespace rocmforge {
namespace {

TEST(StatePool, GivesEverySlotOnceAndThenNothing) {
  StatePool pool(2);
  const auto a = pool.take(), b = pool.take();
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_FALSE(pool.take());
  EXPECT_FALSE(StatePool(0).take());
}

TEST(StatePool, ASlotThatChangesHandsIsNeverFreeBetween) {
  StatePool pool(1);
  const StateId slot = *pool.take();
  pool.share(slot);    // the tree keeps it
  pool.release(slot);  // the sequence goes on elsewhere
  EXPECT_EQ(pool.n_free(), 0u);
  pool.release(slot);
  EXPECT_EQ(pool.take(), slot);
}

TEST(StatePool, ReleasingAFreeSlotIsABug) {
  StatePool pool(1);
  const StateId slot = *pool.take();
  pool.release(slot);
  EXPECT_DEATH(pool.release(slot), "broken invariant");
  EXPECT_DEATH(pool.share(slot), "broken invariant");
}

TEST(StatePool, CountsHoldersLikeAMapOverRandomLives) {
  auto rng = testing::seeded_rng();
  StatePool pool(5);
  std::map<StateId, uint32_t> held;
  for (int step = 0; step < 20'000; step++) {
    if (held.empty() || rng() % 3 == 0) {
      const auto slot = pool.take();
      ASSERT_EQ(slot.has_value(), held.size() < 5);
      ASSERT_TRUE(!slot || held.emplace(*slot, 1).second) << "a held slot was given again";
    } else {
      auto at = held.begin();
      std::advance(at, static_cast<ptrdiff_t>(rng() % held.size()));
      if (rng() % 3 == 0) {
        pool.share(at->first);
        at->second++;
      } else {
        pool.release(at->first);
        if (--at->second == 0) held.erase(at);
      }
    }
    ASSERT_EQ(pool.n_free() + held.size(), 5u);
    for (const auto& [slot, n] : held) ASSERT_EQ(pool.n_holders(slot), n);
    ASSERT_TRUE(pool.is_consistent());
  }
}

}  // namespace
}  // namespace rocmforge
