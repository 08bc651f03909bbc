// Assertions speak of what stands around them, so each part of an expression is lowered together with all that may
// follow it: `$` is then an intersection with the empty text, a look-ahead one with its own texts. For `^` there are
// two languages, one for a part that begins where the text does and one for the rest.
#include "grammar/regex_lowering.h"

#include <algorithm>

namespace rocmforge::grammar {
namespace {

using Kind = RegexTree::Kind;

constexpr uint32_t kMaxUnrolled = 64;  // repeats of a part with assertions

struct Rest {
  Regex at_start = kNothing, elsewhere = kNothing;
};

bool has_assertion(const RegexTree& tree) {
  return tree.kind == Kind::look || tree.kind == Kind::begin || tree.kind == Kind::end ||
         std::ranges::any_of(tree.parts, has_assertion);
}

class Lowering {
 public:
  explicit Lowering(Spelling& spelling) : spelling_(spelling), pool_(spelling.pool()) {}

  // Of a part without assertions.
  Regex plain(const RegexTree& tree) {
    switch (tree.kind) {
      case Kind::chars:
        return spelling_.one_of(tree.set);
      case Kind::sequence: {
        Regex out = kEmptyText;
        for (size_t i = tree.parts.size(); i-- > 0;) out = pool_.concat(plain(tree.parts[i]), out);
        return out;
      }
      case Kind::either: {
        std::vector<Regex> parts;
        for (const RegexTree& part : tree.parts) parts.push_back(plain(part));
        return pool_.either(std::move(parts));
      }
      default:
        return pool_.repeat(plain(tree.parts[0]), tree.least, tree.most);
    }
  }

  Result<Rest> followed(const RegexTree& tree, const Rest& rest) {
    if (!has_assertion(tree)) {
      const Regex r = plain(tree);
      if (rest.at_start == rest.elsewhere) {
        const Regex all = pool_.concat(r, rest.elsewhere);
        return Rest{all, all};
      }
      const Regex moved = pool_.concat(pool_.both(r, pool_.negate(kEmptyText)), rest.elsewhere);
      return Rest{pool_.is_nullable(r) ? pool_.either(rest.at_start, moved) : moved, pool_.concat(r, rest.elsewhere)};
    }
    switch (tree.kind) {
      case Kind::begin:
        return Rest{rest.at_start, kNothing};
      case Kind::end:
        return Rest{pool_.both(rest.at_start, kEmptyText), pool_.both(rest.elsewhere, kEmptyText)};
      case Kind::look: {
        const Regex any = spelling_.any_text();
        const Rest seen = TRY(followed(tree.parts[0], {any, any}));
        const auto restricted = [&](Regex r, Regex by) {
          return pool_.both(r, tree.is_negative ? pool_.negate(by) : by);
        };
        return Rest{restricted(rest.at_start, seen.at_start), restricted(rest.elsewhere, seen.elsewhere)};
      }
      case Kind::sequence: {
        Rest out = rest;
        for (size_t i = tree.parts.size(); i-- > 0;) out = TRY(followed(tree.parts[i], out));
        return out;
      }
      case Kind::either: {
        std::vector<Regex> starts, others;
        for (const RegexTree& part : tree.parts) {
          const Rest one = TRY(followed(part, rest));
          starts.push_back(one.at_start);
          others.push_back(one.elsewhere);
        }
        return Rest{pool_.either(std::move(starts)), pool_.either(std::move(others))};
      }
      default:
        return repeated(tree, rest);
    }
  }

 private:
  Result<Rest> repeated(const RegexTree& tree, const Rest& rest) {
    if (tree.most > kMaxUnrolled) {
      return Error{ErrorCode::unsupported,
                   "regex: assertions inside a part that repeats without bound are not supported"};
    }
    Rest out = rest;
    for (uint32_t i = tree.most; i-- > 0;) {
      const Rest once = TRY(followed(tree.parts[0], out));
      out = i >= tree.least
                ? Rest{pool_.either(once.at_start, rest.at_start), pool_.either(once.elsewhere, rest.elsewhere)}
                : once;
    }
    return out;
  }

  Spelling& spelling_;
  RegexPool& pool_;
};

}  // namespace

Result<Regex> lower_regex(const RegexTree& tree, Spelling& spelling, bool is_search) {
  RegexPool& pool = spelling.pool();
  Lowering lowering(spelling);
  const Regex end = is_search ? spelling.any_text() : kEmptyText;
  const Rest out = TRY(lowering.followed(tree, {end, end}));
  if (!is_search) return out.at_start;
  if (out.at_start == out.elsewhere) return pool.concat(spelling.any_text(), out.elsewhere);
  return pool.either(out.at_start, pool.concat(spelling.any_text(1, kUnbounded), out.elsewhere));
}

}  // namespace rocmforge::grammar
