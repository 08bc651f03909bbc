#include "plan/fuse.h"

#include <algorithm>

#include "base/check.h"

namespace rocmforge {
namespace {

// The step at `i`, if it is of this kind.
template <class S>
const S* step_at(std::span<const Step> steps, size_t i) {
  return i < steps.size() ? std::get_if<S>(&steps[i]) : nullptr;
}

std::optional<RowStep> row_step(const Step& step) {
  if (const auto* norm = std::get_if<Norm>(&step)) return *norm;
  if (const auto* activate = std::get_if<Activate>(&step)) return *activate;
  if (const auto* add = std::get_if<Add>(&step)) return *add;
  return std::nullopt;
}

bool writes(std::span<const Step> steps, SlotId id) {
  return std::ranges::any_of(steps, [&](const Step& step) { return writes(step, id); });
}

class Fuser {
 public:
  Fuser(std::span<const Slot> slots, const Fusions& fusions) : slots_(slots), fusions_(fusions) {}

  std::vector<Step> fuse(std::span<const Step> steps) {
    for (size_t i = 0; i < steps.size();) {
      CHECK(!is_fused(steps[i]));
      const std::span<const Step> from_here = steps.subspan(i);
      size_t n = fuse_rows(from_here);
      if (n == 0) n = fuse_attention(from_here);
      if (n == 0) out_.push_back(steps[i]), n = 1;
      i += n;
    }
    return std::move(out_);
  }

 private:
  uint32_t width_of(SlotId id) const { return slots_[id.value].width; }

  // A step's slots are all of the batch's rows or all of the outputs'; else, and without slots, none.
  std::optional<SlotRows> rows_of(const Step& step) const {
    std::optional<SlotRows> rows;
    bool is_one = true;
    each_slot(step, [&](SlotId id, SlotUse) {
      const SlotRows these = slots_[id.value].rows;
      is_one = is_one && rows.value_or(these) == these;
      rows = these;
    });
    return is_one ? rows : std::nullopt;
  }

  // The row steps from here on that are over the same rows. Each reads, of what those before it wrote, its own row
  // alone: a row may go through all of them while others have not begun.
  size_t n_row_steps(std::span<const Step> steps) const {
    if (steps.empty() || !row_step(steps[0]) || !rows_of(steps[0])) return 0;
    size_t n = 1;
    while (n < steps.size() && row_step(steps[n]) && rows_of(steps[n]) == rows_of(steps[0])) n++;
    return n;
  }

  // How many steps became one; 0: none.
  size_t fuse_rows(std::span<const Step> steps) {
    const size_t n = n_row_steps(steps);
    if (n == 0) return 0;
    std::vector<RowStep> rows;
    for (const Step& step : steps.first(n)) rows.push_back(*row_step(step));
    // A product may take its rows some at a time and be done with them before it makes the next ones: it is as row by
    // row as the steps before it. Those that make no row of its input have nothing to do with it.
    const auto* product = step_at<Matmul>(steps, n);
    if (fusions_.rows_matmul && product != nullptr && writes(steps.first(n), product->in) &&
        rows_of(steps[n]) == rows_of(steps[0])) {
      out_.push_back(RowsMatmul{std::move(rows), *product});
      return n + 1;
    }
    if (!fusions_.row_chain || n == 1) return 0;
    out_.push_back(RowChain{std::move(rows)});
    return n;
  }

  // A key-value head of a row and its queries are rotated, stored and attended to by one task. No other task may read
  // or write what it does: keys, values and queries are slots of their own, the output is neither keys nor values, and
  // keys and values have as many heads as are attended to, of the same sizes.
  size_t fuse_attention(std::span<const Step> steps) {
    if (!fusions_.cached_attend) return 0;
    const auto* rope = step_at<Rope>(steps, 0);
    const size_t at = rope != nullptr ? 1 : 0;
    const auto* store = step_at<StoreKv>(steps, at);
    const auto* attend = step_at<Attend>(steps, at + 1);
    if (store == nullptr || attend == nullptr || store->layer != attend->layer) return 0;
    if (store->k == store->v || store->k == attend->q || store->v == attend->q) return 0;
    if (attend->out == store->k || attend->out == store->v) return 0;
    if (width_of(store->k) != uint64_t{attend->n_kv_heads} * attend->head_size) return 0;
    if (width_of(store->v) != uint64_t{attend->n_kv_heads} * attend->value_head()) return 0;
    if (rope != nullptr && (rope->q != attend->q || rope->k != store->k || rope->head_size != attend->head_size)) {
      return 0;
    }
    out_.push_back(CachedAttend{rope != nullptr ? std::optional(*rope) : std::nullopt, *store, *attend});
    return at + 2;
  }

  std::span<const Slot> slots_;
  Fusions fusions_;
  std::vector<Step> out_;
};

}  // namespace

std::vector<Step> fuse(std::span<const Step> steps, std::span<const Slot> slots, const Fusions& fusions) {
  return Fuser(slots, fusions).fuse(steps);
}

std::vector<Step> unfuse(std::span<const Step> steps) {
  std::vector<Step> out;
  for (const Step& step : steps) {
    each_part(step, [&](const auto& part) { out.push_back(part); });
  }
  return out;
}

}  // namespace rocmforge
