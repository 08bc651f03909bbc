#include "grammar/expression.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace rocmforge::grammar {
namespace {

using Kind = Expression::Kind;

class RuleLowering {
 public:
  RuleLowering(Grammar& grammar, const std::vector<NamedRule>& rules) : grammar_(grammar), rules_(rules) {
    find_regular();
    texts_.resize(rules.size());
    ids_.resize(rules.size());
  }

  void run(size_t root) {
    grammar_.set_root(rule_of(root));
    while (!pending_.empty() && !grammar_.is_too_large()) {
      const size_t i = pending_.back();
      pending_.pop_back();
      const RuleId rule = *ids_[i];
      const StateId end = grammar_.add_state(rule);
      grammar_.set_final(end);
      add(rule, rules_[i].body, grammar_.start_of(rule), end);
    }
  }

 private:
  // A rule is regular when it neither leads to itself nor to one that does, and has no tokens. Rules are taken off one
  // by one once all that they lead to are known to be regular.
  void find_regular() {
    const size_t n = rules_.size();
    is_regular_.assign(n, false);
    std::vector<std::vector<uint32_t>> users(n);
    std::vector<size_t> n_left(n, 0);
    std::vector<bool> has_tokens(n, false);
    for (uint32_t i = 0; i < n; i++) {
      std::vector<uint32_t> used;
      bool tokens = false;
      collect(rules_[i].body, used, tokens);
      std::ranges::sort(used);
      used.erase(std::unique(used.begin(), used.end()), used.end());
      has_tokens[i] = tokens;
      n_left[i] = used.size();
      for (const uint32_t u : used) users[u].push_back(i);
    }
    std::vector<uint32_t> ready;
    for (uint32_t i = 0; i < n; i++) {
      if (n_left[i] == 0 && !has_tokens[i]) ready.push_back(i);
    }
    while (!ready.empty()) {
      const uint32_t i = ready.back();
      ready.pop_back();
      is_regular_[i] = true;
      order_.push_back(i);
      for (const uint32_t u : users[i]) {
        if (--n_left[u] == 0 && !has_tokens[u]) ready.push_back(u);
      }
    }
  }

  static void collect(const Expression& e, std::vector<uint32_t>& used, bool& tokens) {
    tokens |= e.kind == Kind::tokens;
    if (e.kind == Kind::rule) used.push_back(e.symbol);
    for (const Expression& part : e.parts) collect(part, used, tokens);
  }

  bool is_regular(const Expression& e) const {
    if (e.kind == Kind::tokens) return false;
    if (e.kind == Kind::rule) return is_regular_[e.symbol];
    return std::ranges::all_of(e.parts, [&](const Expression& part) { return is_regular(part); });
  }

  // Rules are expanded in the order in which they were found, so that none is expanded inside another.
  Regex text_of_rule(uint32_t i) {
    for (; n_expanded_ < order_.size() && !texts_[i]; n_expanded_++) {
      texts_[order_[n_expanded_]] = text_of(rules_[order_[n_expanded_]].body);
    }
    return *texts_[i];
  }

  // REQUIRES: is_regular(e)
  Regex text_of(const Expression& e) {
    RegexPool& pool = grammar_.pool;
    switch (e.kind) {
      case Kind::text:
        return e.text;
      case Kind::rule:
        return text_of_rule(e.symbol);
      case Kind::repeat:
        return pool.repeat(text_of(e.parts[0]), e.least, e.most);
      case Kind::either: {
        std::vector<Regex> parts;
        for (const Expression& part : e.parts) parts.push_back(text_of(part));
        return pool.either(std::move(parts));
      }
      default: {
        Regex out = kEmptyText;
        for (size_t i = e.parts.size(); i-- > 0;) out = pool.concat(text_of(e.parts[i]), out);
        return out;
      }
    }
  }

  RuleId rule_of(size_t i) {
    if (ids_[i]) return *ids_[i];
    ids_[i] = grammar_.add_rule();
    pending_.push_back(i);
    return *ids_[i];
  }

  void add(RuleId rule, const Expression& e, StateId from, StateId to) {
    if (grammar_.is_too_large()) return;
    if (is_regular(e)) return grammar_.add_text(from, text_of(e), to);
    switch (e.kind) {
      case Kind::rule:
        return grammar_.add_call(from, rule_of(e.symbol), to);
      case Kind::tokens:
        return grammar_.add_edge(from, EdgeKind::tokens, e.symbol, to);
      case Kind::either:
        for (const Expression& part : e.parts) add(rule, part, from, to);
        return;
      case Kind::repeat:
        return add_repeat(rule, e, from, to);
      default:
        return add_sequence(rule, e, from, to);
    }
  }

  void add_sequence(RuleId rule, const Expression& e, StateId from, StateId to) {
    for (size_t i = 0; i < e.parts.size();) {
      size_t end = i + 1;
      while (is_regular(e.parts[i]) && end < e.parts.size() && is_regular(e.parts[end])) end++;
      const StateId next = end == e.parts.size() ? to : grammar_.add_state(rule);
      if (end == i + 1) {
        add(rule, e.parts[i], from, next);
      } else {
        Regex text = kEmptyText;
        for (size_t j = end; j-- > i;) text = grammar_.pool.concat(text_of(e.parts[j]), text);
        grammar_.add_text(from, text, next);
      }
      from = next;
      i = end;
    }
    if (e.parts.empty()) grammar_.add_empty(from, to);
  }

  // Counts live in the register of a rule of their own.
  void add_repeat(RuleId outer, const Expression& e, StateId from, StateId to) {
    const bool is_counted = e.least > 1 || (e.most != kUnbounded && e.most > 1);
    const RuleId rule = is_counted ? grammar_.add_rule() : outer;
    const StateId start = is_counted ? grammar_.start_of(rule) : grammar_.add_state(rule);
    const StateId again = grammar_.add_state(rule);
    if (is_counted) {
      const uint32_t cap = e.most != kUnbounded ? e.most : e.least;
      const StateId body = grammar_.add_state(rule), done = grammar_.add_state(rule);
      Guard more, last{.least_count = e.least};
      if (e.most != kUnbounded) more.most_count = e.most - 1;
      grammar_.add_edge(start, EdgeKind::empty, 0, body, more);
      add(rule, e.parts[0], body, again);
      grammar_.add_edge(again, EdgeKind::empty, 0, start, {}, {.count_cap = cap});
      grammar_.add_edge(start, EdgeKind::empty, 0, done, last);
      grammar_.set_final(done);
      grammar_.add_call(from, rule, to);
      // A part that may be empty may be so as often as it has to.
      return;
    }
    grammar_.add_empty(from, start);
    add(rule, e.parts[0], start, again);
    if (e.most == kUnbounded) grammar_.add_empty(again, start);
    grammar_.add_empty(again, to);
    if (e.least == 0) grammar_.add_empty(from, to);
  }

  Grammar& grammar_;
  const std::vector<NamedRule>& rules_;
  std::vector<bool> is_regular_;
  std::vector<uint32_t> order_;
  size_t n_expanded_ = 0;
  std::vector<std::optional<Regex>> texts_;
  std::vector<std::optional<RuleId>> ids_;
  std::vector<size_t> pending_;
};

class Flattening {
 public:
  Flattening(RegexPool& pool, const std::vector<NamedRule>& rules)
      : pool_(pool), rules_(rules), known_(rules.size()), is_open_(rules.size()) {}

  std::optional<Regex> rule(size_t id) {
    if (known_[id] || is_open_[id] || depth_ == kMaxDepth) return known_[id];
    is_open_[id] = true;
    depth_++;
    known_[id] = expression(rules_[id].body);
    depth_--;
    is_open_[id] = false;
    return known_[id];
  }

 private:
  static constexpr uint32_t kMaxDepth = 100;  // rules inside rules: a file may have any number of them

  std::optional<Regex> expression(const Expression& one) {
    if (one.kind == Kind::text) return one.text;
    if (one.kind == Kind::rule) return rule(one.symbol);
    if (one.kind == Kind::tokens) return {};
    std::vector<Regex> parts;
    for (const Expression& part : one.parts) {
      const auto regex = expression(part);
      if (!regex) return {};
      parts.push_back(*regex);
    }
    if (one.kind == Kind::either) return pool_.either(std::move(parts));
    Regex all = kEmptyText;
    for (size_t i = parts.size(); i-- > 0;) all = pool_.concat(parts[i], all);
    return one.kind == Kind::repeat ? pool_.repeat(all, one.least, one.most) : all;
  }

  RegexPool& pool_;
  const std::vector<NamedRule>& rules_;
  std::vector<std::optional<Regex>> known_;
  std::vector<bool> is_open_;
  uint32_t depth_ = 0;
};

}  // namespace

std::optional<Regex> regex_of(RegexPool& pool, const std::vector<NamedRule>& rules, size_t root) {
  return Flattening(pool, rules).rule(root);
}

Result<void> lower_rules(Grammar& grammar, const std::vector<NamedRule>& rules, size_t root) {
  RuleLowering(grammar, rules).run(root);
  if (grammar.is_too_large()) return Error{ErrorCode::limit_exceeded, "grammar: too many items"};
  return {};
}

}  // namespace rocmforge::grammar
