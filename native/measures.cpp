// Outputs of the highest loss and score together, for losses that judge a whole set of examples at once; selections and
// pairs of ranked lists; overlaps of boxes.
//
// A set has p positive and q negative examples. A labeling counts by its table: `a` positives and `b` negatives are
// labeled positive, and the best ones to take are those of the highest scores. So `positive_sums` (p + 1,) and
// `negative_sums` (q + 1,) hold the sums of the 0, 1, 2, … highest scores of each class. A ranking counts by the pairs of
// a positive and a negative example that it swaps. Rows and offsets come from prepared batches, which checked them.
#include "arrays.hpp"
#include "functions.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>
#include <utility>
#include <vector>

using namespace latentstruct;

namespace {
using Table = std::pair<Index, Index>;

Index last(const Vector &sums) {
  require(sums.shape(0) > 0, "sums must begin with that of no score");
  return static_cast<Index>(sums.shape(0)) - 1;
}

// The table of the highest 1 - (1 + β²)a/(β²p + a + b) + positive_sums[a] + negative_sums[b].
//
// For one `a` loss and sum are concave in b, so that the first b whose step up gains nothing is found by halving, first
// near that of the last `a`: O(p log q).
Table best_f_table(Vector positive_sums, Vector negative_sums, double beta_squared) {
  const Index p = last(positive_sums), q = last(negative_sums);
  const double *positive = positive_sums.data(), *negative = negative_sums.data();
  double best = -INFINITE;
  Table found{0, 0};
  for (Index a = 0, low = 0; a <= p; ++a) {
    const double hits = (1.0 + beta_squared) * a, fixed = beta_squared * p + a;
    const auto gains = [&](Index b) {
      return hits / ((fixed + b) * (fixed + b + 1.0)) + negative[b + 1] - negative[b] > 0.0;
    };
    Index high = low;
    for (Index step = 1; high < q && gains(high); step *= 2) low = high + 1, high = std::min(q, high + step);
    for (Index step = 1; low > 0 && !gains(low - 1); step *= 2) high = low - 1, low = std::max<Index>(0, low - step);
    while (low < high) {
      const Index b = (low + high) / 2;
      if (gains(b)) low = b + 1;
      else high = b;
    }
    const double value = 1.0 - hits / (fixed + low) + positive[a] + negative[low];
    if (value > best) best = value, found = {a, low};
  }
  return found;
}

// The `a` of the highest positive_sums[a] + negative_sums[size - a] - price·a; size is from 0 to p + q.
LATENTSTRUCT_CLONES Index best_selection(Vector positive_sums, Vector negative_sums, Index size, double price) {
  const Index p = last(positive_sums), q = last(negative_sums);
  require(0 <= size && size <= p + q, "size must be from 0 to p + q");
  const Index first = std::max<Index>(0, size - q), n = std::min(size, p) + 1 - first;
  const double *positive = positive_sums.data() + first, *negative = negative_sums.data() + size - first;
  return first + first_highest(n, [=](Index k) __attribute__((always_inline)) {
    return positive[k] + negative[-k] - price * static_cast<double>(first + k);
  });
}

// The table of the highest losses[a, b] + positive_sums[a] + negative_sums[b].
Table best_listed_table(In<double, 2> losses, Vector positive_sums, Vector negative_sums) {
  require_length(losses.shape(0), positive_sums);
  require_length(losses.shape(1), negative_sums);
  const Matrix<const double> table(losses);
  const double *negative = negative_sums.data();
  double best = -INFINITE;
  Table found{0, 0};
  for (std::size_t a = 0; a < table.rows; ++a)
    for (std::size_t b = 0; b < table.columns; ++b) {
      const double value = table[a][b] + positive_sums(a) + negative[b];
      if (value > best) best = value, found = {a, b};
    }
  return found;
}

// coefficients[r] = high for the `count` rows r of the highest scores, low for the others; ties by their place.
//
// `rows` (m,) lists the rows of one class, `descending` (m,) their scores in order.
void label_highest(Vector scores, Indices rows, Vector descending, Index count, double high, double low,
                   Values coefficients) {
  require_length(rows.shape(0), descending);
  require_length(scores.shape(0), coefficients);
  require(0 <= count && count <= static_cast<Index>(rows.shape(0)), "count must be from 0 to the number of rows");
  const double lowest = count > 0 ? descending(count - 1) : INFINITE, *score = scores.data();
  Index tied = 0;
  while (tied < count && descending(count - 1 - tied) == lowest) ++tied;
  double *coefficient = coefficients.data();
  for (const Index *row = rows.data(), *end = row + rows.shape(0); row < end; ++row) {
    const double own = score[*row];
    coefficient[*row] = own > lowest || (own == lowest && tied-- > 0) ? high : low;
  }
}

// before[i] = negatives, after[j] = positives with which i or j makes a pair p_i - q_j < margin; return their sum.
//
// Both lists of scores descend. Both sweeps decide by the same difference, which rounding leaves monotone in both
// scores: no pair is counted for one of its examples only.
Index count_swapped(Vector positives, Vector negatives, double margin, Numbers before, Numbers after) {
  require_length(positives.shape(0), before);
  require_length(negatives.shape(0), after);
  const Index p = static_cast<Index>(positives.shape(0)), q = static_cast<Index>(negatives.shape(0));
  const double *positive = positives.data(), *negative = negatives.data();
  Index total = 0, reached = 0, *of_positive = before.data(), *of_negative = after.data();
  for (Index i = 0; i < p; ++i) {
    while (reached < q && positive[i] - negative[reached] < margin) ++reached;
    of_positive[i] = reached;
    total += reached;
  }
  reached = p;
  for (Index j = q - 1; j >= 0; --j) {
    while (reached > 0 && positive[reached - 1] - negative[j] < margin) --reached;
    of_negative[j] = p - reached;
  }
  return total;
}

// places[j] = number of positives before the negative j in the ranking of the highest loss and score.
//
// Both lists of scores descend, harmonic (p + q + 1,) holds 0, 1, 1 + 1/2, …; loss_weight is 1/p, or 0 for the score
// alone. The negative number `rank` (from 1) before the k-th positive (from 1) costs precision
// k/(k + rank - 1) - k/(k + rank) = rank/(k + rank) - (rank - 1)/(k + rank - 1): over k a difference of harmonic numbers.
// What a place before the k-th positive gains falls from each negative to the next: the best places ascend, each
// negative is placed without regard to the others, and those between two placed ones only look between them.
void best_places(Vector positives, Vector negatives, Vector harmonic, double loss_weight, Numbers places) {
  const Index p = static_cast<Index>(positives.shape(0)), q = static_cast<Index>(negatives.shape(0));
  require_length(q, places);
  require_length(p + q + 1, harmonic);
  std::vector<double> sums(p + 1);
  for (Index i = 0; i < p; ++i) sums[i + 1] = sums[i] + positives(i);
  const double n_pairs = static_cast<double>(p) * q;
  Index *place_of = places.data();
  Index stride = 1;
  while (2 * stride <= q) stride *= 2;
  for (; stride > 0; stride /= 2)
    for (Index j = stride - 1; j < q; j += 2 * stride) {
      const Index low = j >= stride ? place_of[j - stride] : 0, high = j + stride < q ? place_of[j + stride] : p;
      const double rank = j + 1.0, score = negatives(j), *level = harmonic.data() + j + 1;
      double best = -INFINITE;
      place_of[j] = low;
      for (Index place = low; place <= high; ++place) {
        const double lost = rank * (level[p] - level[place]) - (rank - 1.0) * (level[p - 1] - level[place - 1]);
        const double value = loss_weight * lost + ((p - place) * score - (sums[p] - sums[place])) / n_pairs;
        if (value > best) best = value, place_of[j] = place;
      }
    }
}

// before[i] = number of negatives before the positive i; return the mean of (i + 1)/(i + 1 + before[i]).
double count_placed(Indices places, Numbers before) {
  const Index p = static_cast<Index>(before.shape(0)), q = static_cast<Index>(places.shape(0));
  double precision = 0.0;
  Index reached = 0;
  for (Index i = 0; i < p; ++i) {
    while (reached < q && places(reached) <= i) ++reached;
    before(i) = reached;
    precision += (i + 1.0) / (i + 1.0 + reached);
  }
  return precision / p;
}

LATENTSTRUCT_CLONES void add_rows(const double *matrix, std::size_t d, const Index *rows, std::size_t n,
                                  const double *coefficients, double *__restrict out) {
  std::size_t k = 0;
  // Two rows at a time, added in the order of one at a time.
  for (; k + 2 <= n; k += 2) {
    const double *a = matrix + rows[k] * d, *b = matrix + rows[k + 1] * d;
    const double of_a = coefficients[rows[k]], of_b = coefficients[rows[k + 1]];
    for (std::size_t f = 0; f < d; ++f) out[f] = (out[f] + of_a * a[f]) + of_b * b[f];
  }
  for (; k < n; ++k)
    for (std::size_t f = 0; f < d; ++f) out[f] += coefficients[rows[k]] * matrix[rows[k] * d + f];
}

// out += Σ coefficients[r]·matrix[r] over the listed rows r; matrix is (n, d), coefficients (n,).
void add_selected_rows(In<double, 2> matrix, Indices rows, Vector coefficients, Values out) {
  require_length(matrix.shape(0), coefficients);
  require_length(matrix.shape(1), out);
  add_rows(matrix.data(), out.shape(0), rows.data(), rows.shape(0), coefficients.data(), out.data());
}

// chosen[i] = the first documents of query i in their order, as flat positions; -1 behind a short list.
//
// Query i holds the documents offsets[i] … offsets[i + 1]. Preferred documents come before all others, then the higher
// score decides, then the place in the list. `chosen` is (n, k).
void select_first(Vector scores, In<bool, 1> preferred, Indices offsets, Out<Index, 2> chosen) {
  require_length(scores.shape(0), preferred);
  require_length(chosen.shape(0) + 1, offsets);
  const Index k = static_cast<Index>(chosen.shape(1)), *offset = offsets.data();
  const double *score = scores.data();
  const bool *first = preferred.data();
  // A new document against one that was seen earlier and so wins ties.
  const auto comes_before = [&](Index added, Index old) {
    return first[added] != first[old] ? first[added] : score[added] > score[old];
  };
  for (std::size_t i = 0; i < chosen.shape(0) && k > 0; ++i) {
    Index *row = chosen.data() + i * k, filled = 0;
    for (Index j = offset[i]; j < offset[i + 1]; ++j) {
      if (filled == k && !comes_before(j, row[k - 1])) continue;
      Index place = std::min(filled, k - 1);
      for (; place > 0 && comes_before(j, row[place - 1]); --place) row[place] = row[place - 1];
      row[place] = j;
      filled = std::min(filled + 1, k);
    }
    std::fill(row + filled, row + k, -1);
  }
}

// Sum up the pairs (a, b) of each query with grade_a > grade_b and s_a - s_b < margin.
//
// coefficients[j] = how often document j is the b minus how often it is the a of such a pair; counts[i] = number of such
// pairs. Grades are 0 … G - 1 within each query; the work is O(n log n + n·G). Both sweeps decide by the same
// difference, as in `count_swapped`.
void violated_pairs(Vector scores, Indices grades, Indices offsets, double margin, Values coefficients, Values counts) {
  require_length(scores.shape(0), grades, coefficients);
  require_length(counts.shape(0) + 1, offsets);
  struct Document {
    double score;
    Index number, grade;
  };
  std::vector<Document> documents;
  std::vector<Index> seen;
  double *coefficient = coefficients.data();
  for (std::size_t i = 0; i < counts.shape(0); ++i) {
    documents.clear();
    Index n_grades = 0, total = 0;
    for (Index j = offsets(i); j < offsets(i + 1); ++j) {
      documents.push_back({scores(j), j, grades(j)});
      n_grades = std::max(n_grades, grades(j) + 1);
    }
    // Stable, as only that is safe where a score is NaN.
    std::stable_sort(documents.begin(), documents.end(), [](const auto &a, const auto &b) { return a.score < b.score; });
    const Index n = static_cast<Index>(documents.size());
    seen.assign(n_grades, 0);
    Index nearest = 0;
    for (const auto &b : documents) {
      for (; nearest < n && documents[nearest].score - b.score < margin; ++nearest) ++seen[documents[nearest].grade];
      Index above = 0;
      for (Index grade = b.grade + 1; grade < n_grades; ++grade) above += seen[grade];
      coefficient[b.number] = static_cast<double>(above);
      total += above;
    }
    seen.assign(n_grades, 0);
    nearest = n - 1;
    for (Index place = n - 1; place >= 0; --place) {
      const Document &a = documents[place];
      for (; nearest >= 0 && a.score - documents[nearest].score < margin; --nearest) ++seen[documents[nearest].grade];
      Index below = 0;
      for (Index grade = 0; grade < a.grade; ++grade) below += seen[grade];
      coefficient[a.number] -= static_cast<double>(below);
    }
    counts(i) = static_cast<double>(total);
  }
}

// |A ∩ B| / |A ∪ B| of boxes (x0, y0, x1, y1).
LATENTSTRUCT_INLINE double overlap(const double *a, const double *b) {
  const double width = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), 0.0);
  const double height = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), 0.0);
  const double common = width * height;
  return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common);
}

LATENTSTRUCT_CLONES void overlap_all(const double *A, std::size_t n, const double *B, std::size_t m, double *__restrict out) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < m; ++j) out[i * m + j] = overlap(A + 4 * i, B + 4 * j);
}

// Write the overlaps of all pairs of A (a, 4) and B (b, 4) to `out` (a, b).
void overlap_table(In<double, 2> A, In<double, 2> B, Out<double, 2> out) {
  require(A.shape(1) == 4 && B.shape(1) == 4, "boxes must have 4 columns");
  require(out.shape(0) == A.shape(0) && out.shape(1) == B.shape(0), "out must have an entry for each pair");
  overlap_all(A.data(), A.shape(0), B.data(), B.shape(0), out.data());
}

// Write the overlap of each box (m, 4) with the other of the same number (m, 4) to `out` (m,).
void overlaps_with(In<double, 2> boxes, In<double, 2> others, Values out) {
  require(boxes.shape(1) == 4 && others.shape(1) == 4, "boxes must have 4 columns");
  require_length(out.shape(0), boxes, others);
  for (std::size_t i = 0; i < out.shape(0); ++i) out(i) = overlap(boxes.data() + 4 * i, others.data() + 4 * i);
}

} // namespace

LATENTSTRUCT_MODULE(measures, best_f_table, best_selection, best_listed_table, label_highest, count_swapped, best_places,
                    count_placed, add_selected_rows, select_first, violated_pairs, overlap_table, overlaps_with)
