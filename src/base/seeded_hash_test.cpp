#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/colliding_keys.h"

namespace rocmforge {
namespace {

constexpr size_t kKeys = 1u << 12;

// Keys of the hash that do not change from run to run.
std::vector<HashKey> some_hash_keys() {
  std::mt19937_64 rng(19);
  std::vector<HashKey> keys(4);
  for (HashKey& key : keys) key = {{rng(), rng(), rng(), rng() | 1}};
  return keys;
}

// Throws n hashes into n buckets, by low and by high bits. By chance n/e stay empty and the fullest holds about 7.
template <class HashOf>
void expect_spread(const HashOf& hash_of, const std::string& name) {
  for (const HashKey& key : some_hash_keys()) {
    for (const int shift : {0, 32}) {
      std::vector<int> counts(kKeys);
      for (size_t i = 0; i < kKeys; i++) counts[(hash_of(i, key) >> shift) & (kKeys - 1)]++;
      EXPECT_LT(std::count(counts.begin(), counts.end(), 0), kKeys * 0.42) << name << ", bits from " << shift;
      EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 16) << name << ", bits from " << shift;
    }
  }
}

void expect_spread(const std::vector<std::string>& texts, const std::string& name) {
  expect_spread([&](size_t i, const HashKey& key) { return seeded_hash(texts[i], 0, key); }, name);
}

TEST(SeededHash, SpreadsKeysMadeAgainstKnownHashes) {
  expect_spread(testing::colliding_keys(kKeys), "keys that collide under std::hash");
  expect_spread(testing::colliding_tokens(kKeys), "texts that collide under a fixed multiplier");
}

TEST(SeededHash, SpreadsTextsOfEveryLength) {
  for (size_t length = 2; length <= 40; length++) {
    std::vector<std::string> front, back;
    for (size_t i = 0; i < kKeys; i++) {
      const char digits[] = {static_cast<char>(i & 0x7F), static_cast<char>(i >> 7)};
      const std::string filler(length - 2, '<');
      front.push_back(std::string(digits, 2) + filler);
      back.push_back(filler + std::string(digits, 2));
    }
    expect_spread(front, "differ in front, bytes: " + std::to_string(length));
    expect_spread(back, "differ at the end, bytes: " + std::to_string(length));
  }
}

TEST(SeededHash, SpreadsPairsOfNumbers) {
  expect_spread([](size_t i, const HashKey& key) { return seeded_hash(i % 64, i / 64, key); }, "a grid");
  expect_spread([](size_t i, const HashKey& key) { return seeded_hash(i, 0, key); }, "counted numbers");
  expect_spread([](size_t i, const HashKey& key) { return seeded_hash(i << 32, 7, key); }, "numbers far apart");
}

TEST(SeededHash, DependsOnTheKeyTheSaltAndEveryByte) {
  const HashKey a = some_hash_keys()[0], b = some_hash_keys()[1];
  EXPECT_NE(seeded_hash("text", 0, a), seeded_hash("text", 0, b));
  EXPECT_EQ(seeded_hash("text", 0, a), seeded_hash("text", 0, a));
  EXPECT_NE(seeded_hash("text", 0), seeded_hash("text", 1));
  for (size_t length = 0; length < 70; length++) {
    std::set<uint64_t> seen = {seeded_hash(std::string(length, 'a'))};
    for (size_t i = 0; i < length; i++) {
      std::string changed(length, 'a');
      changed[i] = 'b';
      EXPECT_TRUE(seen.insert(seeded_hash(changed)).second) << length << " bytes, byte " << i;
    }
    EXPECT_TRUE(seen.insert(seeded_hash(std::string(length + 1, 'a'))).second) << length;
  }
}

}  // namespace
}  // namespace rocmforge
