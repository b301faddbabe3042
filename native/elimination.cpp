// Exact elimination of the variables of factor graphs, one after the other, at any pair of temperatures.
//
// Step k of a program eliminates a variable v. With t the sum of all that is known about its separator's joint state s
// and v (unary of v, tables whose first eliminated variable is v, messages of earlier steps) and ε the temperature of v,
//
//     m_k(s) = smax_{ε, v} t(s, v),   p_k(v | s) = exp((t(s, v) - m_k(s)) / ε).
//
// A row s in which nothing is possible has m_k = -inf and p_k = 0. At ε = 0 the first maximizer is kept instead of p_k. On
// the way back the belief in s comes from the step that used m_k, and b(s, v) = b(s)·p_k(v | s); sums of these are the
// derivatives by all potentials.
//
// Step k leaves a message over the *separator* of v, the variables that then share a table with v. Separators are sorted, the first to be eliminated first: a message then mostly fits the table that uses it
// without a permutation.
//
// The table of a step is worked on in blocks of all states of v times INNER rows, a row being a joint state of the
// separator: row a·INNER + l and state x are entry x·INNER + l of block a, and entry outer[a] + inner[x·INNER + l] of an
// input, so that index lists stay short.
#include "arrays.hpp"
#include "elementwise.hpp"

#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <queue>
#include <vector>

using namespace latentstruct;

namespace {

// Rows of the arrays of steps, inputs, separators with strides, and programs.
struct Step {
  Index variable, card, rows, inner, table, message, unary, factors, messages, inputs_end, parent, separator;
};
struct Input {
  Index source, size, outer_index, inner_index, kind;
};
struct Stride {
  Index variable, stride;
};
struct Program {
  Index first_step, first_output, last_step, workspace, widest_block, states, constants, constants_end;
};
static_assert(sizeof(Step) == 12 * sizeof(Index) && sizeof(Input) == 5 * sizeof(Index) && sizeof(Program) == 8 * sizeof(Index));

// Kinds of inner index lists: any, one entry after the other over the rows, the same entry for all rows.
enum Kind : Index { ANY, CONTIGUOUS, CONSTANT };
// Rules that choose what to eliminate next: fewest edges added, smallest table, in the order of the variables' numbers, and
// in the reverse of that.
enum Rule : Index { BY_FILL, BY_SIZE, FORWARD, BACKWARD };

constexpr Index ROWS_WANTED = 16, BLOCK_WANTED = 256, MANY = 64;

template <typename Row> const Row *rows_of(const In<Index, 2> &array) {
  require(array.shape(1) * sizeof(Index) == sizeof(Row), "arrays of programs must have a column for each field");
  return reinterpret_cast<const Row *>(array.data());
}

// ---- Running programs ----

// Add an input to a block, times a scale.
LATENTSTRUCT_INLINE void gather(double *__restrict block, Index card, Index n_rows, const double *source,
                                       const std::uint32_t *inner, Index kind, double scale) {
  if (kind == ANY) {
    for (Index j = 0; j < card * n_rows; ++j) block[j] += scale * source[inner[j]];
    return;
  }
  for (Index x = 0; x < card; ++x, block += n_rows, inner += n_rows) {
    const double *run = source + inner[0];
    if (kind == CONTIGUOUS) {
      for (Index row = 0; row < n_rows; ++row) block[row] += scale * run[row];
    } else {
      const double value = scale * run[0];
      for (Index row = 0; row < n_rows; ++row) block[row] += value;
    }
  }
}

// Add a block to the beliefs of an input.
LATENTSTRUCT_INLINE void scatter(const double *__restrict block, Index card, Index n_rows, double *target,
                                        const std::uint32_t *inner, Index kind) {
  if (kind == ANY) {
    for (Index j = 0; j < card * n_rows; ++j) target[inner[j]] += block[j];
    return;
  }
  for (Index x = 0; x < card; ++x, block += n_rows, inner += n_rows) {
    double *run = target + inner[0];
    if (kind == CONTIGUOUS) {
      LATENTSTRUCT_INDEPENDENT
      for (Index row = 0; row < n_rows; ++row) run[row] += block[row];
    } else {
      run[0] += sum_of(block, n_rows);
    }
  }
}

// The programs of a batch and the potentials of one graph; positions count from the graph's beginnings.
struct Elimination {
  const Step *steps;
  const Input *inputs;
  const std::uint32_t *index;
  const Stride *strides;
  const double *unary = nullptr, *tables = nullptr;
  double *unary_out = nullptr, *tables_out = nullptr; // no derivatives by tables if null
  Index *states = nullptr;
  std::vector<double> block{}, tops{}, sums{};

  // Each outer block of a step: body(outer number, table, message).
  template <typename Body> LATENTSTRUCT_INLINE void each_block(const Step &step, double *work, Body body) {
    const Index count = step.card * step.inner;
    for (Index a = 0; a < step.rows / step.inner; ++a) body(a, work + step.table + a * count, work + step.message + a * step.inner);
  }

  LATENTSTRUCT_INLINE void find_tops(Index card, Index n_rows) {
    std::copy_n(block.begin(), n_rows, tops.begin());
    double *top = tops.data();
    for (Index x = 1; x < card; ++x) {
      const double *part = &block[x * n_rows];
      LATENTSTRUCT_INDEPENDENT
      for (Index row = 0; row < n_rows; ++row) top[row] = part[row] > top[row] ? part[row] : top[row];
    }
  }

  // The maximum of each row to its message, the first maximizer to the table; -1 if all is -inf.
  LATENTSTRUCT_INLINE void pool_hard(Index card, Index n_rows, double *__restrict table, double *__restrict message) {
    find_tops(card, n_rows);
    const double *top = tops.data();
    for (Index row = 0; row < n_rows; ++row) table[row] = -1.0;
    for (Index x = card - 1; x >= 0; --x) {
      const double *part = &block[x * n_rows], number = double(x);
      LATENTSTRUCT_INDEPENDENT
      for (Index row = 0; row < n_rows; ++row) table[row] = part[row] == top[row] ? number : table[row];
    }
    LATENTSTRUCT_INDEPENDENT
    for (Index row = 0; row < n_rows; ++row) {
      table[row] = top[row] > -INFINITE ? table[row] : -1.0;
      message[row] = top[row];
    }
  }

  // Write the pooled value of each row to its message, shares to the table.
  LATENTSTRUCT_INLINE void pool_soft(Index card, Index n_rows, double temperature, double *__restrict table,
                                     double *__restrict message) {
    find_tops(card, n_rows);
    double *__restrict top = tops.data(), *__restrict sum = sums.data();
    for (Index row = 0; row < n_rows; ++row) top[row] = top[row] > -INFINITE ? top[row] : 0.0;
    for (Index x = 0; x < card; ++x) {
      const double *part = &block[x * n_rows];
      double *shares = table + x * n_rows;
      LATENTSTRUCT_INDEPENDENT
      for (Index row = 0; row < n_rows; ++row) shares[row] = part[row] - top[row];
    }
    exp_each(table, card * n_rows, temperature);
    std::copy_n(table, n_rows, sum);
    for (Index x = 1; x < card; ++x) {
      const double *shares = table + x * n_rows;
      LATENTSTRUCT_INDEPENDENT
      for (Index row = 0; row < n_rows; ++row) sum[row] += shares[row];
    }
    std::copy_n(sum, n_rows, message);
    log_each(message, n_rows);
    for (Index row = 0; row < n_rows; ++row) {
      message[row] = top[row] + temperature * message[row];
      sum[row] = sum[row] > 0.0 ? 1.0 / sum[row] : 0.0;
    }
    for (Index x = 0; x < card; ++x) {
      double *shares = table + x * n_rows;
      LATENTSTRUCT_INDEPENDENT
      for (Index row = 0; row < n_rows; ++row) shares[row] *= sum[row];
    }
  }

  // Forward pass: leave shares (or maximizers) and messages in the workspace. Potentials are multiplied by `scale`.
  LATENTSTRUCT_CLONES void eliminate(Index first, Index last, double scale, double temperature, double *work) {
    for (Index k = first; k < last; ++k) {
      const Step &step = steps[k];
      const Index card = step.card, n_rows = step.inner;
      each_block(step, work, [&](Index a, double *table, double *message) __attribute__((always_inline)) {
        for (Index x = 0; x < card; ++x) std::fill_n(&block[x * n_rows], n_rows, scale * unary[step.unary + x]);
        for (Index i = step.factors; i < step.inputs_end; ++i) {
          const Input &input = inputs[i];
          const bool is_factor = i < step.messages;
          const double *source = (is_factor ? tables : work) + input.source + index[input.outer_index + a];
          gather(block.data(), card, n_rows, source, index + input.inner_index, input.kind, is_factor ? scale : 1.0);
        }
        if (temperature == 0.0)
          pool_hard(card, n_rows, table, message);
        else
          pool_soft(card, n_rows, temperature, table, message);
      });
    }
  }

  // Backward pass: add beliefs to the derivatives and to the messages' beliefs. Rows without belief are skipped; where
  // there are few others, as under the maximum over later variables, work is done by the row.
  LATENTSTRUCT_CLONES void distribute(Index first, Index last, double temperature, double *work) {
    for (Index k = last - 1; k >= first; --k) {
      const Step &step = steps[k];
      const Index card = step.card, n_rows = step.inner;
      for (Index i = step.messages; i < step.inputs_end; ++i) std::fill_n(work + inputs[i].source, inputs[i].size, 0.0);
      // Inputs that beliefs are added to.
      const Index first_input = tables_out ? step.factors : step.messages;
      const auto target = [&](Index i, Index a) {
        return (i < step.messages ? tables_out : work) + inputs[i].source + index[inputs[i].outer_index + a];
      };
      each_block(step, work, [&](Index a, const double *table, const double *message) __attribute__((always_inline)) {
        const Index n_believed = n_rows - std::count(message, message + n_rows, 0.0);
        if (temperature > 0.0 && 4 * n_believed > n_rows) {
          for (Index x = 0; x < card; ++x) {
            double *part = &block[x * n_rows];
            const double *shares = table + x * n_rows;
            LATENTSTRUCT_INDEPENDENT
            for (Index row = 0; row < n_rows; ++row) part[row] = message[row] * shares[row];
            unary_out[step.unary + x] += sum_of(part, n_rows);
          }
          for (Index i = first_input; i < step.inputs_end; ++i)
            scatter(block.data(), card, n_rows, target(i, a), index + inputs[i].inner_index, inputs[i].kind);
          return;
        }
        if (n_believed == 0) return;
        const auto believe = [&](Index x, Index row, double belief) {
          unary_out[step.unary + x] += belief;
          for (Index i = first_input; i < step.inputs_end; ++i)
            target(i, a)[index[inputs[i].inner_index + x * n_rows + row]] += belief;
        };
        for (Index row = 0; row < n_rows; ++row) {
          const double share = message[row];
          if (share == 0.0) continue;
          if (temperature == 0.0 && table[row] >= 0.0) believe(Index(table[row]), row, share);
          if (temperature > 0.0)
            for (Index x = 0; x < card; ++x) believe(x, row, share * table[x * n_rows + row]);
        }
      });
    }
  }

  // The number of the joint state of the variables of a step's separator.
  Index separator_state(Index k) const {
    Index row = 0;
    for (Index i = steps[k].separator; i < steps[k + 1].separator; ++i) row += states[strides[i].variable] * strides[i].stride;
    return row;
  }

  // The best state of each step's variable given those eliminated later.
  void back_substitute(Index first, Index last, const double *work) const {
    for (Index k = last - 1; k >= first; --k) {
      const Step &step = steps[k];
      const Index row = separator_state(k);
      const double best_state = work[step.table + row / step.inner * step.inner * step.card + row % step.inner];
      states[step.variable] = std::max<Index>(0, Index(best_state));
    }
  }

  // The most probable state of each step's variable; the first of several.
  void read_states(Index first, Index last) const {
    for (Index k = first; k < last; ++k) {
      const double *own = unary_out + steps[k].unary;
      states[steps[k].variable] = std::max_element(own, own + steps[k].card) - own;
    }
  }

  // Messages that hidden variables send to outputs, or to nothing: body(step number, step).
  template <typename Body> void each_last_hidden(Index first, Index middle, Body body) const {
    for (Index k = first; k < middle; ++k)
      if (steps[k].parent < 0 || steps[k].parent >= middle) body(k, steps[k]);
  }
};

void pool_graphs(In<Index, 2> all_programs, In<Index, 2> steps, In<Index, 2> inputs, In<std::uint32_t, 1> index,
                 In<Index, 2> strides, Indices constants, Indices program_of, Vector unary, Indices unary_at, Vector tables,
                 Indices tables_at, Indices states_at, double output_temperature, double latent_temperature, double alpha,
                 Values values, Values unary_out, Values tables_out, Numbers states) {
  const std::size_t n_graphs = program_of.shape(0);
  require_length(n_graphs, values);
  require_length(n_graphs + 1, unary_at, tables_at, states_at);
  require_length(unary_at(n_graphs), unary, unary_out);
  require_length(tables_at(n_graphs), tables, tables_out);
  require_length(states_at(n_graphs), states);
  const Program *programs = rows_of<Program>(all_programs);
  Elimination run{rows_of<Step>(steps), rows_of<Input>(inputs), index.data(), rows_of<Stride>(strides)};
  Index most = 1, widest = 1;
  for (std::size_t g = 0; g < n_graphs; ++g) {
    most = std::max(most, programs[program_of(g)].workspace);
    widest = std::max(widest, programs[program_of(g)].widest_block);
  }
  std::vector<double> workspace(most), sharp_workspace(alpha > 0.0 ? most : 0), given;
  double *work = workspace.data(), *sharp = sharp_workspace.data();
  for (auto *buffer : {&run.block, &run.tops, &run.sums}) buffer->resize(widest);
  for (std::size_t g = 0; g < n_graphs; ++g) {
    const Program &program = programs[program_of(g)];
    const Index first = program.first_step, middle = program.first_output, last = program.last_step;
    run.unary = unary.data() + unary_at(g);
    run.unary_out = unary_out.data() + unary_at(g);
    run.tables = tables.data() + tables_at(g);
    run.tables_out = tables_out.data() + tables_at(g);
    run.states = states.data() + states_at(g);
    run.eliminate(first, middle, 1.0, latent_temperature, work);
    if (alpha > 0.0) {
      run.eliminate(first, middle, alpha, latent_temperature, sharp);
      // (m_α - m_1)/(α - 1); -inf stays.
      run.each_last_hidden(first, middle, [&](Index, const Step &step) {
        for (Index x = step.message; x < step.message + step.rows; ++x)
          if (work[x] > -INFINITE) work[x] = (sharp[x] - work[x]) / (alpha - 1.0);
      });
    }
    run.eliminate(middle, last, 1.0, output_temperature, work);
    // Messages of steps without a separator and factors without variables.
    values(g) = 0.0;
    for (Index k = first; k < last; ++k)
      if (run.steps[k].parent < 0) values(g) += work[run.steps[k].message];
    for (Index i = program.constants; i < program.constants_end; ++i) values(g) += run.tables[constants(i)];
    if (values(g) == -INFINITE) continue;
    for (Index k = first; k < last; ++k)
      if (run.steps[k].parent < 0) work[run.steps[k].message] = 1.0;
    for (Index i = program.constants; i < program.constants_end; ++i) run.tables_out[constants(i)] = 1.0;
    run.distribute(middle, last, output_temperature, work);
    if (alpha > 0.0) {
      // Beliefs times α/(α - 1) to the pass of α·s, times -1/(α - 1) to that of s.
      run.each_last_hidden(first, middle, [&](Index, const Step &step) {
        for (Index x = step.message; x < step.message + step.rows; ++x) {
          sharp[x] = work[x] * alpha / (alpha - 1.0);
          work[x] /= 1.0 - alpha;
        }
      });
      run.distribute(first, middle, latent_temperature, sharp);
    }
    run.distribute(first, middle, latent_temperature, work);
    if (output_temperature == 0.0)
      run.back_substitute(middle, last, work);
    else
      run.read_states(middle, last);
    if (latent_temperature == 0.0) {
      run.back_substitute(first, middle, work);
    } else if (output_temperature == 0.0 && alpha == 0.0) {
      run.read_states(first, middle);
    } else if (middle > first) {
      // A backward pass through the hidden variables with all belief on the outputs' states.
      given.assign(program.states, 0.0);
      run.unary_out = given.data();
      run.tables_out = nullptr;
      run.each_last_hidden(first, middle, [&](Index k, const Step &step) {
        std::fill_n(work + step.message, step.rows, 0.0);
        work[step.message + run.separator_state(k)] = 1.0;
      });
      run.distribute(first, middle, latent_temperature, work);
      run.read_states(first, middle);
    }
  }
}

// ---- Choosing orders ----

class Ordering {
  std::size_t n;
  const Index *cards;
  const bool *hidden;
  Rule rule;
  std::vector<std::vector<Index>> neighbors;
  std::vector<double> sizes, scores;
  std::vector<char> mark, alive;
  std::vector<Index> scored;
  using Entry = std::pair<double, Index>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;

  // The cost of eliminating v next: edges to be added (then size of the table), the size alone in bits, or v's number.
  double score(Index v) {
    if (rule >= FORWARD) return double(rule == FORWARD ? v : -v);
    const auto &around = neighbors[v];
    const Index count = around.size();
    Index pairs = count * (count - 1);
    // Too large to be eliminated soon; counting would make a star of n leaves cost n².
    if (count > MANY) return double(rule == BY_FILL ? pairs / 2 : count);
    double size = sizes[v];
    for (const Index u : around) size += sizes[u];
    if (rule != BY_FILL) return size;
    if (count > 1) {
      for (const Index u : around) mark[u] = true;
      for (const Index u : around)
        for (const Index w : neighbors[u]) pairs -= mark[w];
      for (const Index u : around) mark[u] = false;
    }
    return double(pairs / 2) + 1e-3 * size;
  }

  // Put a variable of this stage back on the heap if its score changed; once per step.
  void rescore(Index v, bool stage_hidden) {
    if (hidden[v] != stage_hidden || scored[v] == done) return;
    scored[v] = done;
    const double renewed = score(v);
    if (renewed == scores[v]) return;
    scores[v] = renewed;
    heap.emplace(renewed, v);
  }

  // Take v out of the graph and make its neighbors adjacent.
  void connect_neighbors(Index v) {
    const auto &around = neighbors[v];
    for (const Index u : around) {
      auto &own = neighbors[u];
      own.erase(std::find(own.begin(), own.end(), v));
      for (const Index w : own) mark[w] = true;
      mark[u] = true;
      const std::size_t n_old = own.size();
      for (const Index w : around)
        if (!mark[w]) own.push_back(w);
      for (std::size_t i = 0; i < n_old; ++i) mark[own[i]] = false;
      mark[u] = false;
    }
  }

public:
  std::vector<Index> order, separator_at{0}, separators;
  Index done = 0, width = 0;
  double most = 1.0, total = 0.0;

  Ordering(std::size_t n, const Index *cards, std::size_t n_factors, const Index *scope_at, const Index *scopes,
           const bool *hidden, Rule rule)
      : n(n), cards(cards), hidden(hidden), rule(rule), neighbors(n), sizes(n), scores(n), mark(n), alive(n, true), scored(n, -1) {
    for (std::size_t v = 0; v < n; ++v) sizes[v] = std::log2(double(cards[v]));
    for (std::size_t f = 0; f < n_factors; ++f)
      for (Index i = scope_at[f]; i < scope_at[f + 1]; ++i)
        for (Index j = scope_at[f]; j < scope_at[f + 1]; ++j)
          if (i != j) neighbors[scopes[i]].push_back(scopes[j]);
    for (auto &around : neighbors) {
      std::size_t kept = 0;
      for (const Index u : around)
        if (!mark[u]) {
          mark[u] = true;
          around[kept++] = u;
        }
      around.resize(kept);
      for (const Index u : around) mark[u] = false;
    }
  }

  // Eliminate symbolically, hidden variables first; stop at the first table above the limit. An order that the variables'
  // numbers give may begin in the middle of a star; it stops there, because connecting all leaves would cost the square of
  // their number.
  void run(double max_entries, double most_total) {
    for (const bool stage_hidden : {true, false}) {
      for (std::size_t v = 0; v < n; ++v)
        if (hidden[v] == stage_hidden) heap.emplace(scores[v] = score(v), v);
      while (!heap.empty()) {
        const auto [cost, v] = heap.top();
        heap.pop();
        if (!alive[v] || cost != scores[v]) continue;
        const auto &around = neighbors[v];
        const Index count = around.size();
        double entries = double(cards[v]);
        for (const Index u : around) entries *= double(cards[u]);
        width = std::max(width, count);
        most = std::max(most, entries);
        total += entries;
        if (entries > max_entries || total > most_total || (rule >= FORWARD && count > MANY)) return;
        order.push_back(v);
        separators.insert(separators.end(), around.begin(), around.end());
        separator_at.push_back(separators.size());
        alive[v] = false;
        connect_neighbors(v);
        ++done;
        if (rule >= FORWARD) continue;
        for (const Index u : around) {
          rescore(u, stage_hidden);
          if (rule == BY_FILL && cost >= 1.0)
            for (const Index w : neighbors[u]) rescore(w, stage_hidden);
        }
      }
    }
  }
};

// ---- Laying out programs ----

class Layout {
  std::size_t n, n_factors;
  const Index *cards, *scope_at, *scopes, *table_at;
  std::vector<Index> place, stride_in;

  // The step of each variable in the table of a factor or in a message, or 0 again if not `used`.
  void set_strides(Index item, bool is_factor, bool used) {
    if (is_factor) {
      Index stride = 1;
      for (Index i = scope_at[item + 1] - 1; i >= scope_at[item]; --i) {
        stride_in[scopes[i]] = used ? stride : 0;
        stride *= cards[scopes[i]];
      }
    } else {
      for (Index i = steps[item].separator; i < steps[item + 1].separator; ++i)
        stride_in[strides[i].variable] = used ? strides[i].stride : 0;
    }
  }

  // The entry of an input at the joint state `number` of the separator's variables first … last.
  Index entry_of(Index number, Index first, Index last) const {
    Index entry = 0;
    for (Index i = last - 1; i >= first && number > 0; --i) {
      const Index v = strides[i].variable;
      entry += number % cards[v] * stride_in[v];
      number /= cards[v];
    }
    return entry;
  }

  // The kind of an inner index list; short runs are no gain.
  static Kind kind_of_list(const std::uint32_t *list, Index n_rows) {
    if (n_rows < 4) return ANY;
    const Index step = Index(list[1]) - Index(list[0]);
    for (Index row = 1; row < n_rows; ++row)
      if (Index(list[row]) - Index(list[row - 1]) != step) return ANY;
    return step == 1 ? CONTIGUOUS : step == 0 ? CONSTANT : ANY;
  }

  // Inputs of each step, tables of factors before messages. `outer_index` holds the number of the factor or of the sending
  // step until `index_inputs` replaces it.
  void list_inputs() {
    std::vector<Index> n_tables(n), n_messages(n);
    std::vector<Index> home(n_factors, -1);
    for (std::size_t f = 0; f < n_factors; ++f) {
      for (Index i = scope_at[f]; i < scope_at[f + 1]; ++i)
        if (home[f] < 0 || place[scopes[i]] < home[f]) home[f] = place[scopes[i]];
      if (home[f] >= 0) ++n_tables[home[f]];
    }
    for (std::size_t k = 0; k < n; ++k)
      if (steps[k].parent >= 0) ++n_messages[steps[k].parent];
    Index position = 0;
    for (std::size_t k = 0; k < n; ++k) {
      steps[k].factors = position;
      steps[k].messages = position += n_tables[k];
      steps[k].inputs_end = position += n_messages[k];
      n_tables[k] = steps[k].factors;
      n_messages[k] = steps[k].messages;
    }
    inputs.resize(position);
    for (std::size_t f = 0; f < n_factors; ++f)
      if (home[f] >= 0) inputs[n_tables[home[f]]++] = {table_at[f] - table_at[0], table_at[f + 1] - table_at[f], Index(f), 0, ANY};
    for (std::size_t k = 0; k < n; ++k)
      if (steps[k].parent >= 0) inputs[n_messages[steps[k].parent]++] = {steps[k].message, steps[k].rows, Index(k), 0, ANY};
  }

  void index_inputs() {
    stride_in.assign(n, 0);
    for (std::size_t k = 0; k < n; ++k) {
      const Step &step = steps[k];
      const Index n_inner = step.inner, n_outer = step.rows / step.inner, last = steps[k + 1].separator;
      Index split = last;
      for (Index inner_rows = n_inner; inner_rows > 1;) inner_rows /= cards[strides[--split].variable];
      for (Index i = step.factors; i < step.inputs_end; ++i) {
        const Index item = inputs[i].outer_index;
        const bool is_factor = i < step.messages;
        set_strides(item, is_factor, true);
        const std::size_t outer = index.size(), inner = outer + n_outer;
        index.resize(inner + n_inner * step.card);
        for (Index a = 0; a < n_outer; ++a) index[outer + a] = entry_of(a, step.separator, split);
        for (Index row = 0; row < n_inner; ++row) {
          const Index entry = entry_of(row, split, last);
          for (Index x = 0; x < step.card; ++x) index[inner + x * n_inner + row] = entry + x * stride_in[step.variable];
        }
        inputs[i].outer_index = outer;
        inputs[i].inner_index = inner;
        inputs[i].kind = kind_of_list(&index[inner], n_inner);
        set_strides(item, is_factor, false);
      }
    }
  }

public:
  std::vector<Step> steps;
  std::vector<Input> inputs;
  std::vector<std::uint32_t> index;
  std::vector<Stride> strides;
  Index workspace = 0;

  Layout(std::size_t n, std::size_t n_factors, const Index *cards, const Index *scope_at, const Index *scopes, const Index *table_at,
         const Index *order, const Index *separator_at, std::vector<Index> separators)
      : n(n), n_factors(n_factors), cards(cards), scope_at(scope_at), scopes(scopes), table_at(table_at), place(n), steps(n + 1) {
    std::vector<Index> state_at(n + 1);
    for (std::size_t k = 0; k < n; ++k) {
      place[order[k]] = k;
      state_at[k + 1] = state_at[k] + cards[k];
    }
    strides.resize(separator_at[n]);
    for (std::size_t k = 0; k < n; ++k) {
      const Index v = order[k], first = separator_at[k], last = separator_at[k + 1];
      // First eliminated first.
      std::sort(separators.begin() + first, separators.begin() + last, [&](Index a, Index b) { return place[a] < place[b]; });
      Index rows = 1, inner = 1;
      for (Index i = last - 1; i >= first; --i) {
        strides[i] = {separators[i], rows};
        rows *= cards[separators[i]];
      }
      for (Index i = last - 1; i >= first; --i) {
        if (inner >= ROWS_WANTED && inner * cards[separators[i]] * cards[v] > BLOCK_WANTED) break;
        inner *= cards[separators[i]];
      }
      const Index parent = last > first ? place[separators[first]] : -1;
      steps[k] = {v, cards[v], rows, inner, workspace, workspace + rows * cards[v], state_at[v], 0, 0, 0, parent, first};
      workspace += rows * (cards[v] + 1);
    }
    steps[n].separator = separator_at[n];
    list_inputs();
    index_inputs();
  }
};

// A new array with the entries of a list, seen as rows of T.
template <typename T, typename Row> New<T> rows_array(const std::vector<Row> &rows) {
  constexpr std::size_t columns = sizeof(Row) / sizeof(T);
  New<T> made{std::make_unique<T[]>(rows.size() * columns), {rows.size()}};
  if (columns > 1) made.shape.push_back(columns);
  if (!rows.empty()) std::copy_n(reinterpret_cast<const T *>(rows.data()), rows.size() * columns, made.data.get());
  return made;
}

auto choose_order(Indices cards, Indices scope_at, Indices scopes, In<bool, 1> hidden, Index rule, double max_entries,
                  double most_total) {
  require_length(cards.shape(0), hidden);
  Ordering found(cards.shape(0), cards.data(), scope_at.shape(0) - 1, scope_at.data(), scopes.data(), hidden.data(), Rule(rule));
  found.run(max_entries, most_total);
  return std::tuple(rows_array<Index>(found.order), rows_array<Index>(found.separator_at), rows_array<Index>(found.separators),
                    found.done, found.width, found.most, found.total);
}

auto lay_out(Indices cards, Indices scope_at, Indices scopes, Indices table_at, Indices order, Indices separator_at,
             Indices separators) {
  const std::size_t n = cards.shape(0), n_factors = scope_at.shape(0) - 1;
  require_length(n, order);
  require_length(n + 1, separator_at);
  require_length(n_factors + 1, table_at);
  const Layout made(n, n_factors, cards.data(), scope_at.data(), scopes.data(), table_at.data(), order.data(), separator_at.data(),
                    std::vector<Index>(separators.data(), separators.data() + separators.shape(0)));
  return std::tuple(rows_array<Index>(made.steps), rows_array<Index>(made.inputs), rows_array<std::uint32_t>(made.index),
                    rows_array<Index>(made.strides), made.workspace);
}

} // namespace

LATENTSTRUCT_MODULE(elimination, choose_order, lay_out, pool_graphs)
