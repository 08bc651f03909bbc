#include "grammar/parser.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/check.h"
#include "base/seeded_hash.h"

namespace rocmforge::grammar {
namespace {

constexpr uint32_t kFar = UINT32_MAX / 4;
constexpr uint32_t kMaxEstimateDepth = 200;

// Added to estimates for what guards still ask for: keys that are missing, counts that are not reached.
uint32_t demanded_bytes(const Grammar& grammar, StateId from, const Register& reg) {
  constexpr uint32_t kBytesOfOne = 1'000;
  uint64_t keys = 0;
  uint32_t count = 0;
  const auto add = [&](uint32_t guard) {
    keys |= grammar.guard(guard).must_be_set;
    count = std::max({count, grammar.guard(guard).least_count, grammar.guard(guard).least_other});
  };
  std::vector<StateId> states = {from};
  for (size_t i = 0; i < states.size(); i++) {
    const State& state = grammar.states()[states[i]];
    if (state.is_final) add(state.guard);
    for (const Edge& edge : state.edges) {
      add(edge.guard);
      if (std::ranges::find(states, edge.to) == states.end()) states.push_back(edge.to);
    }
  }
  const uint32_t least = std::max(reg.count, reg.other_count);
  const uint32_t missing = static_cast<uint32_t>(std::popcount(keys & ~reg.set)) + (count > least ? count - least : 0);
  return std::min(missing, 100'000u) * kBytesOfOne;
}

}  // namespace

// The column being made. Its items refer to it as kSelf.
struct Parser::Building {
  std::vector<Item> items;
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash;  // of many items
  std::vector<RuleId> predicted, completed_here;                // completed_here: without a byte
  std::vector<Waiting> rules;
  bool is_end = false;
};

Parser::Parser(const Grammar& grammar, Lexer& lexer) : grammar_(grammar), lexer_(lexer) {
  Building building;
  building.predicted.push_back(grammar.root());
  add(building, {grammar.start_of(grammar.root()), kSelf, {}});
  finish(building);
}

void Parser::add(Building& building, const Item& item) {
  constexpr size_t kFew = 16;
  if (building.items.size() < kFew) {
    if (std::ranges::find(building.items, item) != building.items.end()) return;
  } else {
    const auto hash_of = [](const Item& i) {
      return seeded_hash(seeded_hash(static_cast<uint64_t>(i.state) << 32 | i.origin, i.reg.set),
                         static_cast<uint64_t>(i.reg.count) << 32 | i.reg.other_count);
    };
    if (building.by_hash.empty()) {
      for (uint32_t i = 0; i < building.items.size(); i++) building.by_hash[hash_of(building.items[i])].push_back(i);
    }
    auto& places = building.by_hash[hash_of(item)];
    if (std::ranges::any_of(places, [&](uint32_t i) { return building.items[i] == item; })) return;
    places.push_back(static_cast<uint32_t>(building.items.size()));
  }
  if (building.items.size() >= kMaxItemsOfColumn) {
    is_exhausted_ = true;
    return;
  }
  building.items.push_back(item);
}

void Parser::advance(Building& building, const Item& item, const Edge& edge) {
  add(building, {edge.to, item.origin, grammar_.effect(edge.effect).apply(item.reg)});
}

std::span<const Parser::Waiting> Parser::waiting(uint32_t first, uint32_t n, uint32_t symbol) const {
  const auto all = std::span(waiting_).subspan(first, n);
  const auto [from, to] = std::ranges::equal_range(all, symbol, {}, &Waiting::symbol);
  return {from, to};
}

void Parser::complete(Building& building, RuleId rule, ColumnId origin) {
  if (origin == kSelf) {
    if (rule == grammar_.root() && columns_.empty()) building.is_end = true;
    if (std::ranges::find(building.completed_here, rule) != building.completed_here.end()) return;
    building.completed_here.push_back(rule);
    for (size_t i = 0; i < building.rules.size(); i++) {
      const Waiting w = building.rules[i];
      if (w.symbol != rule) continue;
      const Item item = building.items[w.item];
      advance(building, item, grammar_.states()[item.state].edges[w.edge]);
    }
    return;
  }
  if (rule == grammar_.root() && origin == first()) building.is_end = true;
  const Column& column = columns_[origin];
  for (const Waiting& w : waiting(column.first_rule, column.n_rules, rule)) {
    Item item = items_[w.item];
    item.origin = origin_in(origin, item);
    advance(building, item, grammar_.states()[item.state].edges[w.edge]);
  }
}

void Parser::process(Building& building, uint32_t i) {
  const Item item = building.items[i];
  const State& state = grammar_.states()[item.state];
  if (state.is_final && grammar_.guard(state.guard).holds(item.reg)) complete(building, state.rule, item.origin);
  for (uint32_t e = 0; e < state.edges.size(); e++) {
    const Edge& edge = state.edges[e];
    if (edge.kind == EdgeKind::terminal || edge.kind == EdgeKind::tokens) continue;
    if (edge.guard != 0 && !grammar_.guard(edge.guard).holds(item.reg)) continue;
    if (edge.kind == EdgeKind::empty) {
      advance(building, item, edge);
      continue;
    }
    building.rules.push_back({edge.symbol, i, e});
    if (std::ranges::find(building.completed_here, edge.symbol) != building.completed_here.end()) {
      advance(building, item, edge);
    }
    if (std::ranges::find(building.predicted, edge.symbol) == building.predicted.end()) {
      building.predicted.push_back(edge.symbol);
      add(building, {grammar_.start_of(edge.symbol), kSelf, {}});
    }
  }
}

ColumnId Parser::finish(Building& building) {
  for (uint32_t i = 0; i < building.items.size() && !is_exhausted_; i++) process(building, i);

  // What waits for nothing is of no use any more.
  Column column{.first_item = static_cast<uint32_t>(items_.size()), .is_end = building.is_end};
  std::vector<Waiting> terminals, tokens;
  std::vector<uint32_t> kept(building.items.size(), UINT32_MAX);
  std::vector<bool> is_kept(building.items.size(), false);
  for (const Waiting& w : building.rules) is_kept[w.item] = true;
  for (uint32_t i = 0; i < building.items.size(); i++) {
    const Item& item = building.items[i];
    const State& state = grammar_.states()[item.state];
    for (uint32_t e = 0; e < state.edges.size(); e++) {
      const Edge& edge = state.edges[e];
      if (edge.kind != EdgeKind::terminal && edge.kind != EdgeKind::tokens) continue;
      if (edge.guard != 0 && !grammar_.guard(edge.guard).holds(item.reg)) continue;
      (edge.kind == EdgeKind::terminal ? terminals : tokens).push_back({edge.symbol, i, e});
      is_kept[i] = true;
    }
  }
  uint64_t content = seeded_hash(building.is_end, terminals.size());
  uint64_t fingerprint = content;
  for (uint32_t i = 0; i < building.items.size(); i++) {
    if (!is_kept[i]) continue;
    const Item& item = building.items[i];
    kept[i] = static_cast<uint32_t>(items_.size());
    items_.push_back(item);
    const uint64_t own = seeded_hash(seeded_hash(item.state, item.reg.set),
                                     static_cast<uint64_t>(item.reg.count) << 32 | item.reg.other_count);
    content = seeded_hash(content ^ own, item.origin);
    fingerprint = seeded_hash(fingerprint ^ own, item.origin == kSelf ? 0 : columns_[item.origin].fingerprint);
  }
  column.n_items = static_cast<uint32_t>(items_.size()) - column.first_item;
  column.fingerprint = fingerprint;

  for (auto [at, end] = by_content_.equal_range(content); at != end; ++at) {
    const Column& other = columns_[at->second];
    if (other.n_items != column.n_items || other.is_end != column.is_end) continue;
    const auto all = std::span<const Item>(items_);
    if (!std::ranges::equal(all.subspan(other.first_item, other.n_items),
                            all.subspan(column.first_item, column.n_items))) {
      continue;
    }
    items_.resize(column.first_item);
    return at->second;
  }

  const auto store = [&](std::vector<Waiting>& all, uint32_t& first, uint32_t& n) {
    std::ranges::sort(all, {}, [](const Waiting& w) { return std::tuple(w.symbol, w.item, w.edge); });
    first = static_cast<uint32_t>(waiting_.size());
    n = static_cast<uint32_t>(all.size());
    for (const Waiting& w : all) waiting_.push_back({w.symbol, kept[w.item], w.edge});
  };
  store(terminals, column.first_terminal, column.n_terminals);
  store(building.rules, column.first_rule, column.n_rules);
  store(tokens, column.first_tokens, column.n_tokens);
  std::vector<uint32_t> symbols;
  for (const Waiting& w : terminals) {
    if (symbols.empty() || symbols.back() != w.symbol) symbols.push_back(w.symbol);
  }
  column.lex = lexer_.start(symbols);
  const auto id = static_cast<ColumnId>(columns_.size());
  if (id >= kMaxColumns || items_.size() > kMaxItems) is_exhausted_ = true;
  columns_.push_back(column);
  contents_.push_back(content);
  by_content_.emplace(content, id);
  count_memory();
  return id;
}

void Parser::count_memory() {
  constexpr uint64_t kMapEntryBytes = 48, kOfColumn = sizeof(Column) + sizeof(uint64_t) + kMapEntryBytes;
  constexpr uint64_t kOfKnown = kMapEntryBytes + sizeof(Known) + 2 * sizeof(EndedTerminals) + sizeof(after_log_[0]);
  const uint64_t n_bytes = columns_.size() * kOfColumn + items_.size() * sizeof(Item) +
                           waiting_.size() * sizeof(Waiting) + after_log_.size() * kOfKnown +
                           least_.size() * kMapEntryBytes;
  if (!memory_.set(n_bytes)) is_exhausted_ = true;
}

ColumnId Parser::after(std::span<const EndedTerminals> ended) {
  uint64_t hash = ended.size();
  for (const EndedTerminals& e : ended) hash = seeded_hash(hash, static_cast<uint64_t>(e.from) << 32 | e.accepts);
  for (auto [at, end] = after_.equal_range(hash); at != end; ++at) {
    if (std::ranges::equal(at->second.ended, ended)) return at->second.column;
  }
  Building building;
  for (const EndedTerminals& e : ended) {
    const Column& column = columns_[e.from];
    for (const uint32_t t : lexer_.accepted(e.accepts)) {
      for (const Waiting& w : waiting(column.first_terminal, column.n_terminals, t)) {
        Item item = items_[w.item];
        item.origin = origin_in(e.from, item);
        advance(building, item, grammar_.states()[item.state].edges[w.edge]);
      }
    }
  }
  const ColumnId id = finish(building);
  after_.emplace(hash, Known{{ended.begin(), ended.end()}, id});
  ColumnId newest = id;
  for (const EndedTerminals& e : ended) newest = std::max(newest, e.from);
  after_log_.emplace_back(hash, newest);
  return id;
}

bool Parser::allows_token(ColumnId id, int32_t token) const {
  const Column& column = columns_[id];
  return std::ranges::any_of(std::span(waiting_).subspan(column.first_tokens, column.n_tokens),
                             [&](const Waiting& w) { return grammar_.tokens(w.symbol).contains(token); });
}

std::optional<ColumnId> Parser::after_token(ColumnId from, int32_t token) {
  if (!allows_token(from, token)) return {};
  Building building;
  const Column column = columns_[from];
  for (uint32_t i = 0; i < column.n_tokens; i++) {
    const Waiting w = waiting_[column.first_tokens + i];
    if (!grammar_.tokens(w.symbol).contains(token)) continue;
    Item item = items_[w.item];
    item.origin = origin_in(from, item);
    advance(building, item, grammar_.states()[item.state].edges[w.edge]);
  }
  return finish(building);
}

void Parser::truncate(const Mark& mark) {
  const size_t n_columns = mark.n_columns;
  CHECK(n_columns > 0);
  if (n_columns >= columns_.size()) return;
  for (size_t i = n_columns; i < columns_.size(); i++) {
    auto [at, end] = by_content_.equal_range(contents_[i]);
    while (at != end && at->second != i) ++at;
    if (at != end) by_content_.erase(at);
  }
  items_.resize(columns_[n_columns].first_item);
  waiting_.resize(columns_[n_columns].first_terminal);
  columns_.resize(n_columns);
  contents_.resize(n_columns);
  // What is known of columns that are gone was learned since.
  const auto is_gone = [&](const Known& known) {
    return known.column >= n_columns ||
           std::ranges::any_of(known.ended, [&](const auto& e) { return e.from >= n_columns; });
  };
  size_t kept = mark.n_known;
  for (size_t i = mark.n_known; i < after_log_.size(); i++) {
    if (after_log_[i].second < n_columns) {
      after_log_[kept++] = after_log_[i];
      continue;
    }
    auto [at, end] = after_.equal_range(after_log_[i].first);
    while (at != end) at = is_gone(at->second) ? after_.erase(at) : std::next(at);
  }
  after_log_.resize(kept);
  least_.clear();
}

uint32_t Parser::least_after_item(ColumnId column, const Item& item, StateId state, uint32_t depth) {
  uint32_t rest = grammar_.least_bytes(state);
  if (rest >= kFar) return kFar;
  rest = std::min(kFar, rest + demanded_bytes(grammar_, state, item.reg));
  const ColumnId origin = origin_in(column, item);
  return std::min(kFar, rest + least_after_rule(origin, grammar_.states()[state].rule, depth + 1));
}

// From the end of a rule that began in the column to the end of the text.
uint32_t Parser::least_after_rule(ColumnId id, RuleId rule, uint32_t depth) {
  if (depth > kMaxEstimateDepth) return 0;
  const uint64_t key = static_cast<uint64_t>(id) << 32 | rule;
  const auto [at, is_new] = least_.emplace(key, kFar);
  if (!is_new) return at->second;
  uint32_t least = rule == grammar_.root() && id == first() ? 0 : kFar;
  const Column column = columns_[id];
  for (const Waiting& w : waiting(column.first_rule, column.n_rules, rule)) {
    Item item = items_[w.item];
    const Edge& edge = grammar_.states()[item.state].edges[w.edge];
    item.reg = grammar_.effect(edge.effect).apply(item.reg);
    least = std::min(least, least_after_item(id, item, edge.to, depth));
  }
  return least_[key] = least;
}

uint32_t Parser::least_bytes_after(ColumnId id, uint32_t t) {
  uint32_t least = kFar;
  const Column column = columns_[id];
  for (const Waiting& w : waiting(column.first_terminal, column.n_terminals, t)) {
    Item item = items_[w.item];
    const Edge& edge = grammar_.states()[item.state].edges[w.edge];
    item.reg = grammar_.effect(edge.effect).apply(item.reg);
    least = std::min(least, least_after_item(id, item, edge.to, 0));
  }
  return least;
}

}  // namespace rocmforge::grammar
