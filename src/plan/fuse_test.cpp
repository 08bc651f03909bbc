// Each rule by a case of its own. Then random plans, run by a machine of hashes: fused steps in orders that a backend
// may take them, others one after the other, all to the same state.

#include "plan/fuse.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "support/support.h"

namespace rocmforge {
namespace {

constexpr Fusions kAll{.row_chain = true, .rows_matmul = true, .cached_attend = true};

// The first six are of the batch's rows, the others of the outputs'.
constexpr SlotId kX(0), kH(1), kQ(2), kK(3), kV(4), kAttended(5), kOutX(6), kOutH(7), kLogits(8);
const std::vector<Slot> kSlots = {
    {"x", 8, SlotRows::batch},       {"h", 8, SlotRows::batch},       {"q", 8, SlotRows::batch},
    {"k", 8, SlotRows::batch},       {"v", 8, SlotRows::batch},       {"attended", 8, SlotRows::batch},
    {"out x", 8, SlotRows::outputs}, {"out h", 8, SlotRows::outputs}, {"logits", 8, SlotRows::outputs}};

Norm norm(SlotId in, SlotId out) {
  return {NormKind::rms, 1e-5f, in, out, WeightId(1)};
}
Matmul product(SlotId in, SlotId out) {
  return {in, {{WeightId(2), {}, out}}};
}
Rope rope(SlotId q, SlotId k, uint32_t head_size = 4) {
  return {.rope = {.n_dims = 4}, .head_size = head_size, .q = q, .k = k};
}
Attend attend(uint32_t layer, SlotId q, SlotId out) {
  return {layer, 2, 2, 4, 0.5f, q, out};
}
Activate activate(SlotId gate, SlotId up, SlotId out) {
  return {Activation::silu, gate, up, out};
}

// The kinds of the steps, as indices of the variant.
std::vector<size_t> kinds(const std::vector<Step>& steps) {
  std::vector<size_t> out;
  for (const Step& step : steps) out.push_back(step.index());
  return out;
}
template <class... S>
std::vector<size_t> kinds_of() {
  return {Step(S()).index()...};
}
std::vector<Step> fused(const std::vector<Step>& steps, const Fusions& fusions = kAll) {
  return fuse(steps, kSlots, fusions);
}

TEST(Fuse, ANormIsMadeWhereItsProductTakesIt) {
  const auto steps = fused({norm(kX, kH), product(kH, kQ)});
  ASSERT_EQ(kinds(steps), (kinds_of<RowsMatmul>()));
  EXPECT_EQ(std::get<RowsMatmul>(steps[0]).before.size(), 1u);
  EXPECT_EQ(std::get<RowsMatmul>(steps[0]).product.in, kH);
}

TEST(Fuse, AnActivationIsMadeWhereItsProductTakesIt) {
  EXPECT_EQ(kinds(fused({activate(kQ, kK, kQ), product(kQ, kH)})), (kinds_of<RowsMatmul>()));
}

TEST(Fuse, ASumItsNormAndTheProductAreOne) {
  const auto steps = fused({product(kQ, kH), Add{kH, kX}, norm(kX, kH), product(kH, kQ), Add{kQ, kX}});
  ASSERT_EQ(kinds(steps), (kinds_of<Matmul, RowsMatmul, Add>()));
  EXPECT_EQ(std::get<RowsMatmul>(steps[1]).before.size(), 2u);
}

TEST(Fuse, RowStepsThatNoProductTakesAreAChain) {
  const auto steps = fused({norm(kQ, kQ), norm(kK, kK), rope(kQ, kK)});
  ASSERT_EQ(kinds(steps), (kinds_of<RowChain, Rope>()));
  EXPECT_EQ(std::get<RowChain>(steps[0]).out(), kK);
}

TEST(Fuse, AProductOfAnotherSlotDoesNotTakeTheRows) {
  EXPECT_EQ(kinds(fused({norm(kQ, kQ), norm(kK, kK), product(kH, kV)})), (kinds_of<RowChain, Matmul>()));
  EXPECT_EQ(kinds(fused({norm(kQ, kQ), product(kH, kV)})), (kinds_of<Norm, Matmul>()));
}

TEST(Fuse, RowsOfTheBatchAndOfTheOutputsStayApart) {
  EXPECT_EQ(kinds(fused({Add{kH, kX}, norm(kOutX, kOutH), product(kOutH, kLogits)})), (kinds_of<Add, RowsMatmul>()));
  EXPECT_EQ(kinds(fused({Add{kH, kX}, TakeRows{kX, kOutX}, norm(kOutX, kOutH)})), (kinds_of<Add, TakeRows, Norm>()));
}

TEST(Fuse, HeadsAreRotatedAndStoredByTheAttentionThatReadsThem) {
  const auto steps = fused({rope(kQ, kK), StoreKv{0, kK, kV}, attend(0, kQ, kAttended)});
  ASSERT_EQ(kinds(steps), (kinds_of<CachedAttend>()));
  EXPECT_TRUE(std::get<CachedAttend>(steps[0]).rope);
}

TEST(Fuse, WithoutRopeHeadsAreStoredByTheAttention) {
  const auto steps = fused({StoreKv{0, kK, kV}, attend(0, kQ, kAttended)});
  ASSERT_EQ(kinds(steps), (kinds_of<CachedAttend>()));
  EXPECT_FALSE(std::get<CachedAttend>(steps[0]).rope);
}

TEST(Fuse, ARopeOfOtherSlotsOrHeadsStaysAlone) {
  const std::vector<Step> others = {rope(kX, kK), rope(kQ, kH), rope(kQ, kK, 8)};
  for (const Step& other : others) {
    EXPECT_EQ(kinds(fused({other, StoreKv{0, kK, kV}, attend(0, kQ, kAttended)})), (kinds_of<Rope, CachedAttend>()));
  }
}

TEST(Fuse, WhatOtherHeadsStillReadIsNotWritten) {
  const auto alone = kinds_of<StoreKv, Attend>();
  EXPECT_EQ(kinds(fused({StoreKv{1, kK, kV}, attend(0, kQ, kAttended)})), alone) << "another layer's cache";
  EXPECT_EQ(kinds(fused({StoreKv{0, kK, kV}, attend(0, kQ, kK)})), alone) << "over the keys";
  EXPECT_EQ(kinds(fused({StoreKv{0, kK, kV}, attend(0, kQ, kV)})), alone) << "over the values";
  EXPECT_EQ(kinds(fused({StoreKv{0, kK, kV}, attend(0, kK, kAttended)})), alone) << "keys that are the queries";
}

TEST(Fuse, KeysAndValuesOfOtherSizesThanHeadsOfTheAttentionAreStoredAlone) {
  // Slots are two heads of four elements wide.
  Attend attends = attend(0, kQ, kAttended);
  const auto kinds_with = [&] { return kinds(fused({rope(kQ, kK), StoreKv{0, kK, kV}, attends})); };
  attends.value_size = 2;
  EXPECT_EQ(kinds_with(), (kinds_of<Rope, StoreKv, Attend>())) << "values";
  attends.value_size = 4;
  EXPECT_EQ(kinds_with(), (kinds_of<CachedAttend>())) << "values as long as keys";
  attends.n_kv_heads = 1;
  EXPECT_EQ(kinds_with(), (kinds_of<Rope, StoreKv, Attend>())) << "keys";

  const std::vector<Slot> half_values = {{"q", 8}, {"k", 8}, {"v", 4}, {"attended", 4}};
  attends = {.n_heads = 2, .n_kv_heads = 2, .head_size = 4, .q = SlotId(0), .out = SlotId(3), .value_size = 2};
  const std::vector<Step> steps = {StoreKv{0, SlotId(1), SlotId(2)}, attends};
  EXPECT_EQ(kinds(fuse(steps, half_values, kAll)), (kinds_of<CachedAttend>())) << "both";
}

TEST(Fuse, QueriesThatChangeBetweenRopeAndAttentionAreRotatedAlone) {
  EXPECT_EQ(kinds(fused({rope(kQ, kK), Temper{kQ, {}}, StoreKv{0, kK, kV}, attend(0, kQ, kAttended)})),
            (kinds_of<Rope, Temper, CachedAttend>()));
  EXPECT_EQ(kinds(fused({rope(kQ, kQ), attend(0, kQ, kAttended)})), (kinds_of<Rope, Attend>())) << "another's cache";
}

TEST(Fuse, ANormWithoutAWeightAndARareActivationAreRowStepsToo) {
  const Norm plain{NormKind::rms, 1e-5f, kX, kH, std::nullopt};
  const Activate rare{.kind = Activation::xielu, .gate = kH, .up = kV, .out = kH, .gated = false};
  EXPECT_EQ(kinds(fused({plain, rare, product(kH, kQ)})), (kinds_of<RowsMatmul>()));
}

TEST(Fuse, StepsOfFewFamiliesEndAChain) {
  const std::vector<Step> others = {Gate{OutputGate::sigmoid, kH, kV, kH}, Scale{kH, WeightId(3)},
                                    TakeColumns{kV, kH, 0}, WeighExperts{1, kV, {kH}}};
  for (const Step& other : others) {
    const auto steps = fused({Add{kH, kX}, norm(kX, kH), other, norm(kH, kH), product(kH, kQ)});
    EXPECT_EQ(steps.size(), 3u);
    EXPECT_EQ(kinds({steps.front(), steps.back()}), (kinds_of<RowChain, RowsMatmul>()));
  }
}

TEST(Fuse, ABackendIsGivenOnlyWhatItCanDo) {
  const std::vector<Step> steps = {Add{kH, kX},  norm(kX, kH), product(kH, kQ),    norm(kQ, kQ),
                                   norm(kK, kK), rope(kQ, kK), StoreKv{0, kK, kV}, attend(0, kQ, kAttended)};
  EXPECT_EQ(kinds(fused(steps, {})), kinds(steps));
  EXPECT_EQ(kinds(fused(steps, {.row_chain = true})), (kinds_of<RowChain, Matmul, RowChain, Rope, StoreKv, Attend>()));
  EXPECT_EQ(kinds(fused(steps, {.rows_matmul = true})), (kinds_of<RowsMatmul, Norm, Norm, Rope, StoreKv, Attend>()));
  EXPECT_EQ(kinds(fused(steps, {.cached_attend = true})), (kinds_of<Add, Norm, Matmul, Norm, Norm, CachedAttend>()));
  EXPECT_EQ(kinds(fused(steps)), (kinds_of<RowsMatmul, RowChain, CachedAttend>()));
}

TEST(Step, AFusedOneReadsWhatItsPartsDoNotWriteBefore) {
  const auto steps = fused({Add{kQ, kX}, norm(kX, kH), product(kH, kK)});
  ASSERT_EQ(steps.size(), 1u);
  for (const SlotId id : {kX, kQ}) EXPECT_TRUE(reads(steps[0], id)) << id.value;
  for (const SlotId id : {kH, kK, kV}) EXPECT_FALSE(reads(steps[0], id)) << id.value;
  for (const SlotId id : {kX, kH, kK}) EXPECT_TRUE(writes(steps[0], id)) << id.value;
  EXPECT_FALSE(writes(steps[0], kQ));
  EXPECT_TRUE(is_wanted(kX, steps));
  EXPECT_FALSE(is_wanted(kH, steps));
  std::vector<WeightId> weights = {WeightId(2)};
  add_weights(steps[0], weights);
  EXPECT_EQ(weights, (std::vector{WeightId(2), WeightId(1)}));
}

TEST(Step, OfFewFamiliesNamesItsSlotsAndWeights) {
  using Uses = std::vector<std::pair<SlotId, SlotUse>>;
  const auto uses_of = [](const Step& step) {
    Uses out;
    each_slot(step, [&](SlotId id, SlotUse use) { out.emplace_back(id, use); });
    return out;
  };
  EXPECT_EQ(uses_of(Temper{kQ, {}}), (Uses{{kQ, SlotUse::updated}}));
  EXPECT_EQ(uses_of(Scale{kX, WeightId(3)}), (Uses{{kX, SlotUse::updated}}));
  EXPECT_EQ(uses_of(Gate{OutputGate::sigmoid, kX, kV, kH}),
            (Uses{{kX, SlotUse::read}, {kV, SlotUse::read}, {kH, SlotUse::written}}));
  EXPECT_EQ(uses_of(TakeColumns{kX, kH, 2}), (Uses{{kX, SlotUse::read}, {kH, SlotUse::written}}));
  EXPECT_EQ(uses_of(WeighExperts{1, kV, {kX, kH}}),
            (Uses{{kV, SlotUse::updated}, {kX, SlotUse::updated}, {kH, SlotUse::updated}}));

  std::vector<WeightId> weights;
  Route route{.n_experts = 4, .n_used = 1, .logits = kX, .out = kH, .bias = WeightId(4)};
  route.expert_scale = WeightId(5);
  const std::vector<Step> steps = {Scale{kX, WeightId(3)}, route,
                                   Matmul{kX, {{WeightId(6), WeightId(7), kH}, {WeightId(8), {}, kQ, WeightId(9)}}}};
  for (const Step& step : steps) add_weights(step, weights);
  EXPECT_EQ(weights,
            (std::vector{WeightId(3), WeightId(4), WeightId(5), WeightId(6), WeightId(7), WeightId(8), WeightId(9)}));
}

// ---- random plans ----

constexpr size_t kRows = 5, kHeads = 2;
constexpr size_t kOutputs[] = {1, 4};

// A slot's row is a hash per head. What a step makes of it tells which step it was and all that it read.
class Machine {
 public:
  using Row = std::array<uint64_t, kHeads>;

  Machine() : rows_(kSlots.size()) {
    uint64_t n = 0;
    for (size_t s = 0; s < kSlots.size(); s++) {
      rows_[s].resize(kSlots[s].rows == SlotRows::batch ? kRows : std::size(kOutputs));
      for (Row& row : rows_[s]) row.fill(hash({n++}));
    }
  }

  void run(const Step& step) {
    std::visit([this](const auto& s) { run_all(s); }, step);
  }
  friend bool operator==(const Machine&, const Machine&) = default;

 private:
  static uint64_t hash(std::initializer_list<uint64_t> values) {
    uint64_t h = 1469598103934665603u;
    for (uint64_t value : values) h = (h ^ value) * 1099511628211u, h ^= h >> 29;
    return h;
  }
  Row& at(SlotId id, size_t r) { return rows_[id.value][r]; }
  size_t n_rows(SlotId id) const { return rows_[id.value].size(); }

  void make(SlotId out, size_t r, uint64_t step, const Row& a, const Row& b) {
    Row made;
    for (size_t h = 0; h < kHeads; h++) made[h] = hash({step, h, a[0], a[1], b[0], b[1]});
    at(out, r) = made;
  }
  void row(const Norm& s, size_t r) { make(s.out, r, 1, at(s.in, r), {s.weight ? s.weight->value : 0, 0}); }
  void row(const Activate& s, size_t r) { make(s.out, r, 2, at(s.gate, r), at(s.up, r)); }
  void row(const Add& s, size_t r) { make(s.out, r, 3, at(s.in, r), at(s.out, r)); }
  void row(const Matmul& s, size_t r) {
    for (const auto& part : s.parts) make(part.out, r, 4, at(s.in, r), {part.weight.value, 0});
  }
  void head(const Rope& s, size_t r, size_t h) {
    for (const SlotId id : {s.q, s.k}) at(id, r)[h] = hash({5, r, at(id, r)[h]});
  }
  void head(const StoreKv& s, size_t r, size_t h) { cache_[{s.layer, r, h}] = hash({at(s.k, r)[h], at(s.v, r)[h]}); }
  void head(const Attend& s, size_t r, size_t h) {
    at(s.out, r)[h] = hash({6, at(s.q, r)[h], cache_[{s.layer, r, h}]});
  }

  template <class S>
  void run_all(const S& s) {
    if constexpr (requires { row(s, 0); }) {
      for (size_t r = 0; r < n_rows(written(s)); r++) row(s, r);
    } else if constexpr (requires { head(s, 0, 0); }) {
      for (size_t r = 0; r < kRows; r++) {
        for (size_t h = 0; h < kHeads; h++) head(s, r, h);
      }
    } else {
      FAIL() << "no random plan has such a step";
    }
  }
  void run_all(const TakeRows& s) {
    for (size_t i = 0; i < std::size(kOutputs); i++) at(s.out, i) = at(s.in, kOutputs[i]);
  }
  void run_all(const RowChain& s) {
    for (size_t r = n_rows(s.out()); r-- > 0;) row_by_row(s.steps, r);
  }
  void run_all(const RowsMatmul& s) {
    constexpr size_t kTile = 2;
    const size_t n = n_rows(s.product.in);
    for (size_t first = 0; first < n; first += kTile) {
      const size_t end = std::min(n, first + kTile);
      for (size_t r = end; r-- > first;) row_by_row(s.before, r);
      for (size_t r = first; r < end; r++) row(s.product, r);
    }
  }
  void run_all(const CachedAttend& s) {
    for (size_t r = 0; r < kRows; r++) {
      for (size_t h = kHeads; h-- > 0;) {
        if (s.rope) head(*s.rope, r, h);
        head(s.store, r, h);
        head(s.attend, r, h);
      }
    }
  }
  void row_by_row(const std::vector<RowStep>& steps, size_t r) {
    for (const RowStep& one : steps) std::visit([&](const auto& s) { row(s, r); }, one);
  }
  static SlotId written(const Matmul& s) { return s.parts[0].out; }
  template <class S>
  static SlotId written(const S& s) {
    return s.out;
  }

  std::vector<std::vector<Row>> rows_;
  std::map<std::array<size_t, 3>, uint64_t> cache_;
};

std::vector<Step> random_plan(std::mt19937_64& rng) {
  const auto below = [&](uint64_t n) { return static_cast<uint32_t>(rng() % n); };
  std::vector<Step> steps;
  for (uint32_t i = 0, n = 1 + below(24); i < n; i++) {
    const bool of_batch = below(4) != 0;
    const auto slot = [&] { return of_batch ? SlotId(below(6)) : SlotId(6 + below(3)); };
    switch (below(7)) {
      case 0:
        steps.push_back(Norm{NormKind::rms, 0, slot(), slot(), WeightId(i)});
        break;
      case 1:
        steps.push_back(Activate{Activation::silu, slot(), slot(), slot(), below(2) == 0});
        break;
      case 2:
        steps.push_back(Add{slot(), slot()});
        break;
      case 3:
      case 4: {
        Matmul made{slot(), {}};
        for (uint32_t p = 0; p <= below(3); p++) made.parts.push_back({WeightId(100 + i), {}, slot()});
        steps.push_back(made);
        break;
      }
      case 5: {
        // Mostly as models have it.
        const auto or_any = [&](SlotId id) { return below(8) == 0 ? SlotId(below(6)) : id; };
        if (below(3) != 0) steps.push_back(rope(or_any(kQ), or_any(kK)));
        steps.push_back(StoreKv{below(8) == 0 ? 1u : 0u, or_any(kK), or_any(kV)});
        steps.push_back(attend(0, or_any(kQ), or_any(kAttended)));
        break;
      }
      case 6:
        steps.push_back(TakeRows{SlotId(below(6)), SlotId(6 + below(3))});
        break;
    }
  }
  return steps;
}

// What tells one step of a random plan from another.
std::vector<uint32_t> signature(const Step& step) {
  std::vector<uint32_t> out = {static_cast<uint32_t>(step.index())};
  each_slot(step, [&](SlotId id, SlotUse use) { out.push_back(id.value * 8 + static_cast<uint32_t>(use)); });
  std::vector<WeightId> weights;
  add_weights(step, weights);
  for (const WeightId id : weights) out.push_back(1000 + id.value);
  return out;
}

TEST(Fuse, RandomPlansKeepTheirStepsTheirOrderAndWhatTheyCompute) {
  std::mt19937_64 rng = testing::seeded_rng();
  size_t n_fused = 0;
  for (int i = 0; i < 20000; i++) {
    const std::vector<Step> plan = random_plan(rng);
    const Fusions fusions{rng() % 4 != 0, rng() % 4 != 0, rng() % 4 != 0};
    const std::vector<Step> steps = fused(plan, fusions);

    const std::vector<Step> parts = unfuse(steps);
    ASSERT_EQ(parts.size(), plan.size());
    for (size_t s = 0; s < plan.size(); s++) ASSERT_EQ(signature(parts[s]), signature(plan[s])) << s;

    Machine one_by_one, at_once;
    for (const Step& step : plan) one_by_one.run(step);
    for (const Step& step : steps) {
      ASSERT_TRUE(fusions.row_chain || !std::holds_alternative<RowChain>(step));
      ASSERT_TRUE(fusions.rows_matmul || !std::holds_alternative<RowsMatmul>(step));
      ASSERT_TRUE(fusions.cached_attend || !std::holds_alternative<CachedAttend>(step));
      n_fused += is_fused(step);
      at_once.run(step);
    }
    ASSERT_TRUE(one_by_one == at_once) << "plan " << i;
  }
  EXPECT_GT(n_fused, 20000u);
}

}  // namespace
}  // namespace rocmforge
