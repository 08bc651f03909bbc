#pragma once
// Earley's algorithm over terminals. A column is the set of items at a place between two terminals. Equal columns are
// stored once, so a repetitive text reuses columns and the results computed for them.
//
// Threads: one at a time.

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/lexer.h"
#include "grammar/rules.h"

namespace rocmforge::grammar {

using ColumnId = uint32_t;
inline constexpr ColumnId kNoColumn = UINT32_MAX;

// Terminals that end at a place, and the column where they began.
struct EndedTerminals {
  ColumnId from = 0;
  uint32_t accepts = 0;  // Lexer::accepts()
  friend bool operator==(const EndedTerminals&, const EndedTerminals&) = default;
};

class Parser {
 public:
  static constexpr size_t kMaxItemsOfColumn = 20'000, kMaxItems = 4'000'000, kMaxColumns = 400'000;

  Parser(const Grammar& grammar, Lexer& lexer);

  ColumnId first() const { return 0; }
  // The column at a place where these terminals end.
  ColumnId after(std::span<const EndedTerminals> ended);
  // The column after a token that `from` accepts by id; nullopt if it does not.
  std::optional<ColumnId> after_token(ColumnId from, int32_t token);
  bool wants_tokens(ColumnId column) const { return columns_[column].n_tokens > 0; }
  // Whether the column accepts this token by its id.
  bool allows_token(ColumnId column, int32_t token) const;

  LexState lex_start(ColumnId column) const { return columns_[column].lex; }
  // Whether the text may end here.
  bool is_end(ColumnId column) const { return columns_[column].is_end; }
  // A hash of the column's contents. Equal columns have equal ones, also in other parsers of the same grammar.
  uint64_t fingerprint(ColumnId column) const { return columns_[column].fingerprint; }
  // The fewest bytes to the end of the text, after a terminal `t` that began in the column.
  uint32_t least_bytes_after(ColumnId column, uint32_t t);

  struct Mark {
    size_t n_columns = 0, n_known = 0;
  };
  Mark mark() const { return {columns_.size(), after_log_.size()}; }
  // Removes the columns made since the mark.
  void truncate(const Mark& mark);
  size_t n_columns() const { return columns_.size(); }
  bool is_exhausted() const { return is_exhausted_; }

 private:
  static constexpr ColumnId kSelf = UINT32_MAX - 1;
  struct Item {
    StateId state;
    ColumnId origin;  // kSelf: the item's own column
    Register reg;
    friend bool operator==(const Item&, const Item&) = default;
  };
  // An item's outgoing edge: it waits for a terminal, a rule or a token.
  struct Waiting {
    uint32_t symbol, item, edge;
  };
  struct Column {
    uint32_t first_item = 0, n_items = 0;
    uint32_t first_terminal = 0, n_terminals = 0;  // in waiting_, by symbol
    uint32_t first_rule = 0, n_rules = 0;
    uint32_t first_tokens = 0, n_tokens = 0;
    LexState lex = kNoLex;
    bool is_end = false;
    uint64_t fingerprint = 0;
  };
  struct Building;

  void count_memory();
  void add(Building& building, const Item& item);
  void advance(Building& building, const Item& item, const Edge& edge);
  void complete(Building& building, RuleId rule, ColumnId origin);
  void process(Building& building, uint32_t item);
  ColumnId finish(Building& building);
  ColumnId origin_in(ColumnId column, const Item& item) const { return item.origin == kSelf ? column : item.origin; }
  std::span<const Waiting> waiting(uint32_t first, uint32_t n, uint32_t symbol) const;
  uint32_t least_after_rule(ColumnId column, RuleId rule, uint32_t depth);
  uint32_t least_after_item(ColumnId column, const Item& item, StateId state, uint32_t depth);

  const Grammar& grammar_;
  Lexer& lexer_;
  std::vector<Column> columns_;
  std::vector<uint64_t> contents_;  // by column: the hash of its items
  std::vector<Item> items_;
  std::vector<Waiting> waiting_;
  struct Known {
    std::vector<EndedTerminals> ended;
    ColumnId column;
  };
  std::unordered_multimap<uint64_t, Known> after_;
  std::vector<std::pair<uint64_t, ColumnId>> after_log_;  // keys of after_, and the newest column that each entry names
  std::unordered_multimap<uint64_t, ColumnId> by_content_;
  std::unordered_map<uint64_t, uint32_t> least_;  // by column and rule
  StateMemory memory_;
  bool is_exhausted_ = false;
};

}  // namespace rocmforge::grammar
