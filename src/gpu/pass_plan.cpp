#include "gpu/pass_plan.h"

#include <algorithm>

#include "base/check.h"
#include "gpu/kernels/norm.h"
#include "gpu/supported.h"

namespace rocmforge::gpu {
namespace {

// The rotations that rows get, by the first layer that wants them.
struct Rotations {
  RopeSpec rope;
  std::optional<WeightId> factors;
  bool is_windowed = false;  // the rows' positions in the cache are made with them
  friend bool operator==(const Rotations&, const Rotations&) = default;
};

class Planner {
 public:
  Planner(const PassFacts& facts, std::span<const std::span<const Step>> stages) : facts_(facts) {
    out_.stages.push_back(0);
    for (const auto& stage : stages) {
      for (const Step& step : stage) steps_.push_back(&step);
      out_.stages.push_back(steps_.size());
    }
  }

  Result<PassPlan> plan() {
    for (const Step* step : steps_) TRY(check_supported(*step, *facts_.weights));
    while (at_ < steps_.size()) {
      const size_t n = put();
      out_.ends.insert(out_.ends.end(), n, out_.steps.size() - 1);
      if (!facts_.device.joins_steps) bytes_.reset();
      at_ += n;
    }
    out_.ends.push_back(out_.steps.size());
    return std::move(out_);
  }

 private:
  // The step at `i`, if it is of this kind.
  template <class S>
  const S* step_at(size_t i) const {
    return i < steps_.size() ? std::get_if<S>(steps_[i]) : nullptr;
  }
  DType dtype(WeightId id) const { return facts_.shape(id).dtype; }
  // Whether the slot's contents before step i are read by it or a later one.
  bool is_wanted(SlotId id, size_t i) const {
    for (; i < steps_.size(); i++) {
      if (reads(*steps_[i], id)) return true;
      if (writes(*steps_[i], id)) return false;
    }
    return false;
  }

  // Each puts what begins at at_, and returns how many steps of the plan it has taken; 0: none.
  size_t put();
  size_t put_stream();
  size_t put_mixer_norm();
  size_t put_convolve();
  size_t put_norm(const Add* sum, const Norm& norm);
  size_t put_rope_store();
  size_t put_single();

  bool can_norm(const Norm& norm) const;  // as the norm before a streamed product
  bool is_streamed_at(size_t i) const;    // a streamed product, or one behind its norm
  const Add* sum_of(const StreamStep& stream, size_t at) const;
  const Activate* activation_of(const StreamStep& stream, size_t at) const;
  bool can_turn(const StreamStep& stream, const Rope& rope, const StoreKv& store) const;
  bool can_turn_rows(const Matmul& product, const Rope& rope, const StoreKv& store) const;
  Rotations rotations_of(const Rope& rope, const StoreKv& store) const {
    const auto& is_windowed = facts_.layout->is_windowed;
    return {rope.rope, rope.factors, !is_windowed.empty() && is_windowed[store.layer]};
  }
  void turn(StreamStep& stream, const Rope& rope, const StoreKv& store);
  bool writes_next_inputs(const StreamStep& stream, size_t next) const;
  void plan_rows(StreamStep& stream, size_t after);

  // Whether the input has to be made into bytes; what is left there afterwards is not known any more.
  bool makes_bytes(bool takes_bytes, SlotId in) {
    const bool makes = takes_bytes && bytes_ != in;
    if (makes) bytes_.reset();
    return makes;
  }

  const PassFacts& facts_;
  std::vector<const Step*> steps_;  // of all stages
  size_t at_ = 0;
  PassPlan out_;

  // What the steps so far have left behind.
  std::optional<SlotId> bytes_;  // the slot whose 8-bit integers lie in PassLayout::quants
  std::vector<Rotations> rotations_;
  std::optional<SlotId> scaled_;                // the slot whose rows' scales lie at scales_at_
  uint32_t scales_at_ = 0;                      // of PassLayout::row_input_scales
  const Matmul* has_written_inputs_ = nullptr;  // the product whose inputs the last sum has written
};

size_t Planner::put() {
  if (facts_.device.joins_steps) {
    if (const size_t n = put_stream(); n > 0) return n;
    if (const size_t n = put_convolve(); n > 0) return n;
    if (const size_t n = put_mixer_norm(); n > 0) return n;
    if (const size_t n = put_rope_store(); n > 0) return n;
    const auto* sum = step_at<Add>(at_);
    const auto* norm = step_at<Norm>(at_ + 1);
    if (sum != nullptr && norm != nullptr && norm->in == sum->out && norm->group == 0 &&
        facts_.rows_of(norm->out) == facts_.rows_of(sum->out) && !is_streamed_at(at_ + 1)) {
      return put_norm(sum, *norm);
    }
  }
  return put_single();
}

size_t Planner::put_norm(const Add* sum, const Norm& norm) {
  const uint32_t width = facts_.slot(norm.in).width, group = norm.group != 0 ? norm.group : width;
  const bool leaves_bytes = group == width && facts_.is_wanted_as_bytes(norm.out);
  if (leaves_bytes) {
    bytes_ = norm.out;
  } else if (bytes_ == norm.out) {
    bytes_.reset();
  }
  out_.steps.push_back(NormStep{.norm = &norm, .sum = sum, .leaves_bytes = leaves_bytes});
  return sum != nullptr ? 2 : 1;
}

// The norm of groups that a mixer's outputs go through, and its gate.
size_t Planner::put_mixer_norm() {
  const bool norm_is_first = step_at<Norm>(at_) != nullptr;
  const auto* norm = step_at<Norm>(at_ + (norm_is_first ? 0 : 1));
  const auto* gate = step_at<Activate>(at_ + (norm_is_first ? 1 : 0));
  if (norm == nullptr || gate == nullptr || norm->kind != NormKind::rms || norm->group == 0 || norm->in != norm->out ||
      gate->kind != Activation::silu || is_rare(*gate) || !gate->gated || gate->up != norm->in ||
      gate->out != norm->in || gate->gate == norm->in) {
    return 0;
  }
  // Of groups, only what a mixer leaves is a product's input.
  const bool leaves_bytes =
      (norm->group == facts_.slot(norm->in).width || norm->group % 32 == 0) && facts_.is_wanted_as_bytes(norm->out);
  if (leaves_bytes) {
    bytes_ = norm->out;
  } else if (bytes_ == norm->out) {
    bytes_.reset();
  }
  out_.steps.push_back(NormStep{
      .norm = norm, .sum = nullptr, .gate = gate, .gate_comes_first = !norm_is_first, .leaves_bytes = leaves_bytes});
  return 2;
}

// A convolution and the gates of its inputs and outputs, in place.
size_t Planner::put_convolve() {
  const auto gate_of = [&](size_t at, SlotId id) {
    const auto* gate = step_at<Gate>(at);
    const bool is_of_it = gate != nullptr && gate->kind == OutputGate::plain && gate->in == id && gate->out == id &&
                          facts_.slot(gate->gate).width == facts_.slot(id).width;
    return is_of_it ? gate : nullptr;
  };
  const auto* convolve = step_at<Convolve>(at_ + 1);
  const auto* before = convolve != nullptr ? gate_of(at_, convolve->in) : nullptr;
  if (before == nullptr) return 0;
  const auto* after = gate_of(at_ + 2, convolve->out);
  const size_t n = after != nullptr ? 3 : 2;
  if (is_wanted(convolve->in, at_ + n)) return 0;  // the gated input is written nowhere
  if (bytes_ == convolve->out) bytes_.reset();
  out_.steps.push_back(ConvolveStep{convolve, before, after});
  return n;
}

size_t Planner::put_rope_store() {
  const auto* rope = step_at<Rope>(at_);
  const auto* store = step_at<StoreKv>(at_ + 1);
  if (rope == nullptr || store == nullptr || rope->k != store->k) return 0;
  out_.steps.push_back(RopeStoreStep{rope, store});
  return 2;
}

size_t Planner::put_single() {
  const Step& step = *steps_[at_];
  if (const auto* norm = std::get_if<Norm>(&step)) return put_norm(nullptr, *norm);
  if (const auto* activate = std::get_if<Activate>(&step)) {
    const bool leaves_bytes = !is_rare(*activate) && facts_.is_wanted_as_bytes(activate->out);
    if (leaves_bytes || bytes_ == activate->out) bytes_.reset();
    if (leaves_bytes) bytes_ = activate->out;
    out_.steps.push_back(ActivateStep{activate, leaves_bytes});
  } else if (const auto* product = std::get_if<Matmul>(&step)) {
    const ProductRoute route = facts_.route_of(*product);
    out_.steps.push_back(ProductStep{product, route, makes_bytes(facts_.takes_bytes(*product), product->in)});
    // Inputs as tiles and panels lie where the bytes were.
    bool has_tiles = takes_the_whole_product(route);
    for (size_t i = 0; i < product->parts.size(); i++) {
      has_tiles |= facts_.route_of(*product, i) == ProductRoute::hopper_tiles;
    }
    if (has_tiles) bytes_.reset();
  } else if (const auto* experts = std::get_if<ExpertMatmul>(&step)) {
    out_.steps.push_back(ExpertMatmulStep{experts, makes_bytes(facts_.takes_bytes(*experts), experts->in)});
  } else if (const auto* combine = std::get_if<ExpertCombine>(&step)) {
    out_.steps.push_back(ExpertCombineStep{combine, makes_bytes(facts_.takes_bytes(*combine), combine->in)});
  } else {
    out_.steps.push_back(SingleStep{&step});
  }
  const bool leaves_bytes = std::holds_alternative<Activate>(step);
  if (bytes_ && !leaves_bytes && writes(step, *bytes_)) bytes_.reset();
  return 1;
}

// ---- streamed products ----

bool Planner::can_norm(const Norm& norm) const {
  return norm.kind == NormKind::rms && norm.group == 0 && !norm.bias && norm.weight &&
         dtype(*norm.weight) == DType::f32;
}

bool Planner::is_streamed_at(size_t i) const {
  const auto* norm = step_at<Norm>(i);
  const auto* product = step_at<Matmul>(norm != nullptr ? i + 1 : i);
  return product != nullptr && is_streamed(facts_.route_of(*product)) &&
         (norm == nullptr || (norm->out == product->in && can_norm(*norm)));
}

// A residual sum right behind the product. Blocks read the input while others are at their end already.
const Add* Planner::sum_of(const StreamStep& stream, size_t at) const {
  const auto* sum = step_at<Add>(at);
  const SlotId x = stream.norm != nullptr ? stream.norm->in : stream.product->in;
  const bool is_of_it = sum != nullptr && stream.is_plain && stream.product->parts.size() == 1 &&
                        sum->in == stream.product->parts[0].out && sum->out != x;
  return is_of_it ? sum : nullptr;
}

const Activate* Planner::activation_of(const StreamStep& stream, size_t at) const {
  const auto* activate = step_at<Activate>(at);
  const auto& parts = stream.product->parts;
  const bool is_of_it = activate != nullptr && stream.is_plain && parts.size() == 2 && activate->gated &&
                        !is_rare(*activate) && activate->gate == parts[0].out && activate->up == parts[1].out &&
                        dtype(parts[0].weight) == dtype(parts[1].weight) &&
                        facts_.slot(activate->gate).width == facts_.slot(activate->up).width;
  return is_of_it ? activate : nullptr;
}

size_t Planner::put_stream() {
  if (!is_streamed_at(at_)) return 0;
  StreamStep stream;
  stream.norm = step_at<Norm>(at_);
  const size_t at = at_ + (stream.norm != nullptr ? 1 : 0);
  const Matmul& product = *step_at<Matmul>(at);
  stream.product = &product;
  stream.route = facts_.route_of(product);
  stream.is_plain =
      product.scale == 1 && product.softcap == 0 && product.clamp == 0 &&
      std::ranges::none_of(product.parts, [](const Matmul::Part& part) { return part.scale.has_value(); });
  stream.sum = sum_of(stream, at + 1);
  stream.activate = activation_of(stream, at + 1);
  const auto* rope = step_at<Rope>(at + 1);
  const auto* store = step_at<StoreKv>(at + 2);
  if (rope != nullptr && store != nullptr && can_turn(stream, *rope, *store)) turn(stream, *rope, *store);
  if (stream.route == ProductRoute::stream_rows) plan_rows(stream, at + 2);
  bytes_.reset();  // inputs may lie where the bytes did
  out_.steps.push_back(stream);
  const size_t n_behind = stream.rope != nullptr ? 2 : stream.sum != nullptr || stream.activate != nullptr ? 1 : 0;
  return at - at_ + 1 + n_behind;
}

// Whether queries and keys can be rotated, and keys and values stored, where they are made.
bool Planner::can_turn(const StreamStep& stream, const Rope& rope, const StoreKv& store) const {
  const auto& parts = stream.product->parts;
  if (!stream.is_plain || parts.size() != 3 || rope.q != parts[0].out || rope.k != parts[1].out || store.k != rope.k ||
      store.v != parts[2].out || facts_.slot(store.v).width != facts_.slot(store.k).width ||
      (rope.factors && dtype(*rope.factors) != DType::f32)) {
    return false;
  }
  if (facts_.rows_of(stream.product->in) > 1) {
    return stream.route == ProductRoute::stream_rows && can_turn_rows(*stream.product, rope, store);
  }
  return rope.rope.pairs == RopePairs::neighbours && std::ranges::all_of(parts, [&](const Matmul::Part& part) {
           return product_kind(dtype(part.weight)) == ProductKind::integer;
         });
}

// REQUIRES: the route stream_rows. The split-K epilogue rotates: there must be at least two slices.
bool Planner::can_turn_rows(const Matmul& product, const Rope& rope, const StoreKv& store) const {
  static_assert(kRowsMaxRows <= kMaxTurnedRows);
  const RowsTurn turn = rows_turn(rope);
  uint32_t n_tiles = 0;
  for (const Matmul::Part& part : product.parts) {
    const uint32_t n_out = facts_.slot(part.out).width;
    if (!gpu::can_turn_rows(turn, n_out)) return false;
    // One format may have fewer for all parts.
    n_tiles += rows_tiles(n_out / kStreamOutputs, rows_at_once(facts_.rows_of(product.in)));
  }
  const bool is_made = std::ranges::find(rotations_, rotations_of(rope, store)) != rotations_.end();
  return turn.n_pairs <= kMaxTurnedPairs && (is_made || rotations_.size() < kMaxRopeTables) &&
         facts_.slot(product.in).width >= 2 * kStreamColumns &&
         2 * n_tiles <= std::min<uint64_t>(kStreamBlocks, facts_.room_for_shares(n_tiles));
}

void Planner::turn(StreamStep& stream, const Rope& rope, const StoreKv& store) {
  stream.rope = &rope;
  stream.store = &store;
  if (stream.route != ProductRoute::stream_rows) return;
  const Rotations wanted = rotations_of(rope, store);
  const auto at = std::ranges::find(rotations_, wanted);
  stream.rows.rotations = static_cast<uint32_t>(at - rotations_.begin());
  stream.rows.makes_rotations = at == rotations_.end();
  CHECK(stream.rows.rotations < kMaxRopeTables);
  if (stream.rows.makes_rotations) rotations_.push_back(wanted);
}

// Whether the epilogue of the sum can write the inputs of the product behind the next norm. `next`: where the norm is.
bool Planner::writes_next_inputs(const StreamStep& stream, size_t next) const {
  static_assert(kRowsMaxRows <= kMaxNormedRows && kManyMaxPieces <= kMaxNormedPieces);
  const Matmul& product = *stream.product;
  const Add& sum = *stream.sum;
  // Prompts do not: no measurement has shown that they gain.
  if (facts_.n_rows != facts_.n_outputs) return false;
  // A tile must be 256 columns of the next inputs.
  if (rows_tile_outputs(rows_at_once(facts_.rows_of(product.in))) != kStreamColumns) return false;
  const auto* norm = step_at<Norm>(next);
  const auto* behind = step_at<Matmul>(next + 1);
  if (norm == nullptr || behind == nullptr || scaled_ != sum.out || norm->in != sum.out || behind->in != norm->out ||
      !can_norm(*norm) || facts_.slot(norm->out).rows != SlotRows::batch ||
      facts_.route_of(*behind) != ProductRoute::stream_rows) {
    return false;
  }
  // Two slots are not written then: the product, and its normalised sum.
  if (is_wanted(sum.in, next) || is_wanted(norm->out, next + 2)) return false;
  const uint32_t n_out = facts_.slot(sum.out).width, n_tiles = n_out / kStreamColumns;
  if (n_out % kStreamColumns != 0 || facts_.shares_of(n_tiles, facts_.slot(product.in).width / kStreamColumns) < 2) {
    return false;
  }
  const uint64_t room = facts_.rows_inputs_room();
  return facts_.rows_inputs_bytes(product) <= room && facts_.rows_inputs_bytes(*behind) <= room;
}

void Planner::plan_rows(StreamStep& stream, size_t after) {
  RowsStep& rows = stream.rows;
  rows.scales_at = scales_at_;
  rows.inputs_are_written = has_written_inputs_ == stream.product;
  if (stream.sum != nullptr && !rows.inputs_are_written && writes_next_inputs(stream, after)) {
    rows.next_norm = step_at<Norm>(after);
    rows.next_product = step_at<Matmul>(after + 1);
    has_written_inputs_ = rows.next_product;
  }
  if (rows.inputs_are_written) {
    scales_at_ ^= 1;
    has_written_inputs_ = nullptr;
  } else if (stream.norm != nullptr) {
    scaled_ = stream.norm->in;
  }
}

}  // namespace

Result<PassPlan> plan_pass(const PassFacts& facts, std::span<const std::span<const Step>> stages) {
  return Planner(facts, stages).plan();
}

}  // namespace rocmforge::gpu
