#include "server/api/response_store.h"

#include <gtest/gtest.h>

#include <random>

namespace rocmforge::server {
namespace {

struct World {
  TimePoint now{};
  ResponseStore store;
  explicit World(ResponseStore::Limits limits) : store(limits, [this] { return now; }) {}
};

StoredResponse response(std::string id, std::string owner = "a", std::string previous = "", size_t n_bytes = 10) {
  StoredResponse out{.id = id, .owner = std::move(owner), .previous = std::move(previous)};
  out.json = std::string(n_bytes, 'x');
  out.input.push_back({"in_" + id, "{\"in\":\"" + id + "\"}"});
  out.output.push_back({"out_" + id, "{\"out\":\"" + id + "\"}"});
  return out;
}

TEST(ResponseStore, OnlyItsOwnerSeesOne) {
  World world({});
  ASSERT_TRUE(world.store.put(response("r1")));
  EXPECT_TRUE(world.store.find("r1", "a"));
  EXPECT_FALSE(world.store.find("r1", "b"));
  EXPECT_FALSE(world.store.chain("r1", "b"));
  EXPECT_TRUE(world.store.find_items({"out_r1"}, "b").empty());
  EXPECT_FALSE(world.store.erase("r1", "b"));
  const auto items = world.store.find_items({"out_r1", "in_r1", "no such"}, "a");
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items.at("out_r1")->json, R"({"out":"r1"})");
  EXPECT_EQ(items.at("in_r1")->json, R"({"in":"r1"})");
  EXPECT_TRUE(world.store.erase("r1", "a"));
  EXPECT_FALSE(world.store.find("r1", "a"));
  EXPECT_EQ(world.store.bytes(), 0u);
}

TEST(ResponseStore, OfItemsWithOneIdTheLatestIsFound) {
  World world({});
  for (const char* id : {"r1", "r2", "r3"}) {
    StoredResponse one = response(id);
    one.input[0] = {"item", id};
    world.store.put(std::move(one));
  }
  EXPECT_EQ(world.store.find_items({"item"}, "a").at("item")->json, "r3");
  world.store.find("r1", "a");
  const auto items = world.store.find_items({"item"}, "a");
  world.store.erase("r1", "a");
  EXPECT_EQ(items.at("item")->json, "r1") << "what was found stays";
}

TEST(ResponseStore, AChainIsToldFromItsBeginning) {
  World world({});
  world.store.put(response("r1"));
  world.store.put(response("r2", "a", "r1"));
  world.store.put(response("r3", "a", "r2"));
  const auto chain = world.store.chain("r3", "a");
  ASSERT_TRUE(chain);
  ASSERT_EQ(chain->size(), 3u);
  EXPECT_EQ((*chain)[0]->id, "r1");
  EXPECT_EQ((*chain)[2]->id, "r3");
  world.store.erase("r1", "a");
  EXPECT_FALSE(world.store.chain("r3", "a")) << "a conversation without its beginning is none";
}

TEST(ResponseStore, AChainInUseOutlivesOthers) {
  World world({.max_count = 3});
  world.store.put(response("r1"));
  world.store.put(response("other"));
  ASSERT_TRUE(world.store.chain("r1", "a"));
  world.store.put(response("r2", "a", "r1"));
  world.store.put(response("r3", "a", "r2"));
  EXPECT_FALSE(world.store.find("other", "a"));
  EXPECT_TRUE(world.store.chain("r3", "a"));
}

TEST(ResponseStore, OldOnesGo) {
  World world({.max_age = std::chrono::seconds(10)});
  world.store.put(response("r1"));
  world.now += std::chrono::seconds(8);
  EXPECT_TRUE(world.store.find("r1", "a"));
  world.now += std::chrono::seconds(8);
  EXPECT_TRUE(world.store.find("r1", "a")) << "it was used since";
  world.now += std::chrono::seconds(11);
  EXPECT_FALSE(world.store.find("r1", "a"));
  EXPECT_EQ(world.store.size(), 0u);
}

TEST(ResponseStore, WhatIsTooLargeIsNotHeldAndDropsNothing) {
  World world({.max_bytes = 4000});
  world.store.put(response("r1"));
  EXPECT_FALSE(world.store.put(response("r2", "a", "", 5000)));
  EXPECT_TRUE(world.store.find("r1", "a"));
}

TEST(ResponseStore, BoundsHoldWhateverComes) {
  constexpr uint64_t kMax = 20000, kMaxOfAll = 40000;
  World world({.max_count = 7, .max_bytes = kMax, .max_bytes_of_all = kMaxOfAll});
  std::mt19937 random(7);
  std::map<std::string, std::vector<std::string>> put;
  for (int i = 0; i < 3000; i++) {
    const std::string owner(1, static_cast<char>('a' + random() % 5));
    const std::string id = "r" + std::to_string(random() % 200);
    if (random() % 8 == 0) {
      world.store.erase(id, owner);
    } else if (world.store.put(response(id, owner, "", random() % 9000))) {
      EXPECT_TRUE(world.store.find(id, owner)) << "the newest is there";
    }
    EXPECT_LE(world.store.bytes(), kMaxOfAll);
    for (char one = 'a'; one < 'f'; one++) {
      uint64_t n_bytes = 0;
      size_t n = 0;
      for (int k = 0; k < 200; k++) {
        const auto found = i % 50 == 0 ? world.store.find("r" + std::to_string(k), std::string(1, one)) : nullptr;
        n += found ? 1 : 0;
        n_bytes += found ? found->bytes() : 0;
      }
      EXPECT_LE(n, 7u);
      EXPECT_LE(n_bytes, kMax);
    }
  }
}

}  // namespace
}  // namespace rocmforge::server
