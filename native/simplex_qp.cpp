// Convex quadratic programs on the unit simplex: the dual of a proximal bundle step.
//
//     minimize  f(α) = ½ αᵀHα - bᵀα   subject to  α >= 0, Σα = 1,
//
// for a symmetric positive semidefinite H (k, k), with gradient g = Hα - b. Because f is convex, the Frank-Wolfe gap
// αᵀg - min_k g_k bounds f(α) - min f from above; it is the certificate that is returned.
//
// Two methods alternate. The active set takes Newton steps on the planes in the support, through an updated Cholesky
// factor of H_SS + σ11ᵀ: the added term changes nothing while Σα is fixed and makes the matrix regular whenever the planes
// of the support are affinely independent. Sequential minimal optimization (SMO) moves weight between two planes at a
// time; it is slow, yet needs no factor, so it makes progress from points where rounding has spoiled the active set.
#include "arrays.hpp"
#include "elementwise.hpp"

#include <algorithm>
#include <vector>

using namespace latentstruct;

namespace {

using Doubles = std::vector<double>;

constexpr double EPSILON = std::numeric_limits<double>::epsilon();
// A pivot of the factor below this fraction of its diagonal is raised to it. Dependent planes (duplicates above all) then give
// a long direction of almost no curvature, which the line search follows to the boundary.
constexpr double PIVOT_FLOOR = 1e-14;
// The factor is rebuilt when σ leaves this ratio to the weighted diagonal: a σ far above the entries of the support loses
// them in rounding, one far below leaves the factor nearly singular.
constexpr double SIGMA_RATIO = 100.0;
// Problems whose largest entry lies outside [1 / SAFE_SCALE, SAFE_SCALE] are rescaled against overflow.
constexpr double SAFE_SCALE = 1e60;
// Newton steps on an unchanged support; those after the first only refine against rounding.
constexpr Index MAX_REFINEMENTS = 4;
// Iterations (active set, then SMO) without a clearly smaller gap after which rounding is the limit.
constexpr Index MAX_IDLE_ROUNDS = 3;
// A plane enters the support once the gradient on the support varies by at most this fraction of the gap. If the plane's
// weight would not grow then, the fraction shrinks by this factor: the support was not solved enough.
constexpr double ENTRY_SPREAD = 0.3, ENTRY_SHRINK = 1e-3;

// y += scale · x.
LATENTSTRUCT_CLONES void add_scaled(double scale, const double *__restrict x, double *__restrict y, Index n) {
  for (Index i = 0; i < n; ++i) y[i] += scale * x[i];
}

// Givens rotation of two rows. The first result is written one place to the left, where the deleted column was.
LATENTSTRUCT_CLONES void rotate(double cosine, double sine, const double *upper, double *__restrict lower, double *shifted,
                                Index n) {
  LATENTSTRUCT_INDEPENDENT
  for (Index j = 0; j < n; ++j) {
    const double x = upper[j], y = lower[j];
    shifted[j] = cosine * x + sine * y;
    lower[j] = cosine * y - sine * x;
  }
}

// Extremes of g over all planes, and over the support of α.
struct State {
  double mean, lowest, spread;
  Index entering;
};

// The problem and its current point; b is only read to recompute g.
struct Problem {
  const double *H, *b;
  Index k;
  double *alpha;
  Doubles gradient;

  const double *row(Index i) const { return H + i * k; }
  double diagonal(Index i) const { return H[i * k + i]; }
  double root(Index i) const { return std::sqrt(std::max(diagonal(i), 0.0)); }

  // Divide α, clipped at zero, by its sum, recompute g, and return Σ_k α_k (g_k - min g): the gap in a form that
  // rounding cannot make negative.
  double refresh() {
    double total = 0.0, gap = 0.0;
    for (Index i = 0; i < k; ++i) total += alpha[i] = std::max(alpha[i], 0.0);
    for (Index i = 0; i < k; ++i) {
      alpha[i] /= total;
      gradient[i] = -b[i];
    }
    // Rows of H stand for its columns by symmetry.
    for (Index i = 0; i < k; ++i)
      if (alpha[i] != 0.0) add_scaled(alpha[i], row(i), gradient.data(), k);
    const double lowest = *std::min_element(gradient.begin(), gradient.end());
    for (Index i = 0; i < k; ++i) gap += alpha[i] * (gradient[i] - lowest);
    return gap;
  }

  // The gap that rounding of the gradient alone can cause: ε (max|b| + max_k √H_kk · Σ_j α_j √H_jj), since
  // |H_kj| <= √(H_kk H_jj).
  double rounding_floor(const double *point) const {
    double largest_b = 0.0, largest_root = 0.0, weighted = 0.0;
    for (Index i = 0; i < k; ++i) {
      largest_b = std::max(largest_b, std::abs(b[i]));
      largest_root = std::max(largest_root, root(i));
      weighted += point[i] * root(i);
    }
    return EPSILON * (largest_b + largest_root * weighted);
  }

  // Σ_i α_i H_ii, or 1 where that is not positive.
  double weighted_diagonal() const {
    double total = 0.0;
    for (Index i = 0; i < k; ++i) total += alpha[i] * diagonal(i);
    return total > 0.0 ? total : 1.0;
  }

  State state() const {
    double mean = 0.0, low = INFINITE, high = -INFINITE;
    Index entering = 0;
    for (Index i = 0; i < k; ++i) {
      const double value = gradient[i];
      if (value < gradient[entering]) entering = i;
      if (alpha[i] > 0.0) {
        mean += alpha[i] * value;
        low = std::min(low, value);
        high = std::max(high, value);
      }
    }
    return {mean, gradient[entering], high - low, entering};
  }
};

// Newton steps on a changing support.
class ActiveSet {
  Problem &problem;
  const Index k;
  // The planes in the factor, in its order, the first `count` entries.
  std::vector<Index> support;
  Index count = 0;
  // Upper triangular R with RᵀR = H_SS + σ11ᵀ in its leading rows and columns.
  Doubles factor;
  // The solution z of Rᵀz = 1, kept current because every Newton step needs it.
  Doubles ones;
  Doubles direction, change;
  double sigma;

  double *at(Index p, Index q) { return factor.data() + p * k + q; }
  double &alpha(Index p) { return problem.alpha[support[p]]; }
  double gradient(Index p) const { return problem.gradient[support[p]]; }

  // Whether the pivot of position p was raised to the floor: its plane is dependent on those before it.
  bool raised(Index p) {
    const double pivot = *at(p, p);
    return pivot * pivot < 2.0 * PIVOT_FLOOR * (std::max(problem.diagonal(support[p]), 0.0) + sigma);
  }

  // Add a plane to the support and to the factor.
  void append(Index plane) {
    double *column = change.data();
    for (Index p = 0; p < count; ++p) column[p] = problem.row(plane)[support[p]] + sigma;
    const double diagonal = problem.diagonal(plane) + sigma;
    double pivot = diagonal, last = 1.0;
    for (Index p = 0; p < count; ++p) {
      if (raised(p)) {
        // A raised pivot's row holds only rounding; dividing by the pivot would amplify it without bound.
        *at(p, count) = 0.0;
        continue;
      }
      const double value = column[p] / *at(p, p);
      *at(p, count) = value;
      pivot -= value * value;
      last -= value * ones[p];
      add_scaled(-value, at(p, p + 1), column + p + 1, count - p - 1);
    }
    pivot = std::sqrt(std::max(pivot, PIVOT_FLOOR * std::max(diagonal, sigma)));
    *at(count, count) = pivot;
    ones[count] = last / pivot;
    support[count++] = plane;
  }

  // Take the plane at a position out of the support, the factor and `ones`.
  void remove(Index position) {
    for (Index p = 0; p < position; ++p) std::copy(at(p, position + 1), at(p, count), at(p, position));
    for (Index p = position; p + 1 < count; ++p) {
      const double x = *at(p, p + 1), y = *at(p + 1, p + 1), length = std::sqrt(x * x + y * y);
      const double cosine = x / length, sine = y / length, upper = ones[p], lower = ones[p + 1];
      rotate(cosine, sine, at(p, p + 1), at(p + 1, p + 1), at(p, p), count - p - 1);
      ones[p] = cosine * upper + sine * lower;
      ones[p + 1] = cosine * lower - sine * upper;
      support[p] = support[p + 1];
    }
    --count;
  }

  // Take the planes without weight out of the support.
  void drop_zeros() {
    for (Index p = count - 1; p >= 0; --p)
      if (alpha(p) <= 0.0) remove(p);
  }

  // Solve R y = d for the leading n rows and columns, in place of the direction d.
  void back_substitute(Index n) {
    for (Index p = n - 1; p >= 0; --p)
      direction[p] = (direction[p] - dot(at(p, p + 1), direction.data() + p + 1, n - p - 1)) / *at(p, p);
  }

  // Scale the direction to a largest entry of 1 and sum 0; return false if it is not finite.
  bool normalize_direction() {
    double most = 0.0, total = 0.0, weight = 0.0;
    for (Index p = 0; p < count; ++p) most = std::max(most, std::abs(direction[p]));
    if (!(0.0 < most && most < INFINITE)) return false;
    for (Index p = 0; p < count; ++p) {
      direction[p] /= most;
      total += direction[p];
      weight += alpha(p);
    }
    // Σd = 0 holds to rounding only; taking the excess out along α keeps zero weights at zero.
    for (Index p = 0; p < count; ++p) direction[p] -= total / weight * alpha(p);
    return true;
  }

  // d = -(H_SS + σ11ᵀ)⁻¹ (g_S - λ1) with λ such that Σd = 0, scaled; false where that is not finite.
  bool find_newton_direction(double mean) {
    for (Index p = 0; p < count; ++p) direction[p] = gradient(p) - mean;
    double inner = 0.0, square = 0.0;
    for (Index p = 0; p < count; ++p) {
      const double value = direction[p] /= *at(p, p);
      inner += value * ones[p];
      square += ones[p] * ones[p];
      add_scaled(-value, at(p, p + 1), direction.data() + p + 1, count - p - 1);
    }
    for (Index p = 0; p < count; ++p) direction[p] = inner / square * ones[p] - direction[p];
    back_substitute(count);
    return normalize_direction();
  }

  // The direction that replaces the last, dependent plane by the others. With R₁x = r for the last column r of the factor
  // it is d = ±(-x, 1), scaled: Hd = 0 and Σd = 0 to rounding. The sign is that of descent. False where it is not finite.
  bool find_null_direction() {
    for (Index p = 0; p + 1 < count; ++p) direction[p] = -*at(p, count - 1);
    direction[count - 1] = 1.0;
    back_substitute(count - 1);
    if (!normalize_direction()) return false;
    if (slope() > 0.0)
      for (Index p = 0; p < count; ++p) direction[p] = -direction[p];
    return true;
  }

  double slope() const {
    double sum = 0.0;
    for (Index p = 0; p < count; ++p) sum += direction[p] * gradient(p);
    return sum;
  }

  struct Step {
    // Whether the direction descends and is not blocked at once.
    bool moved;
    // The position in the support that the step brought to zero, or -1.
    Index blocking;
  };

  // Take the step along the direction that minimizes f within α >= 0.
  Step move() {
    std::fill(change.begin(), change.end(), 0.0);
    for (Index p = 0; p < count; ++p) add_scaled(direction[p], problem.row(support[p]), change.data(), k);
    double curvature = 0.0, size = 0.0;
    for (Index p = 0; p < count; ++p) {
      curvature += direction[p] * change[support[p]];
      size += std::abs(direction[p]) * problem.root(support[p]);
    }
    // Curvature within its own rounding belongs to dependent planes: continue until one of them leaves.
    if (curvature <= 4.0 * EPSILON * size * size) curvature = 0.0;
    const double descent = -slope();
    if (!(descent >= 0.0)) return {false, -1};
    double step = curvature > 0.0 ? descent / curvature : INFINITE;
    Index blocking = -1;
    for (Index p = 0; p < count; ++p) {
      if (direction[p] < 0.0 && alpha(p) < -step * direction[p]) {
        step = -alpha(p) / direction[p];
        blocking = p;
      }
    }
    if (!(0.0 < step && step < INFINITE)) return {false, -1};
    for (Index p = 0; p < count; ++p) alpha(p) = std::max(alpha(p) + step * direction[p], 0.0);
    if (blocking >= 0) alpha(blocking) = 0.0;
    add_scaled(step, change.data(), problem.gradient.data(), k);
    return {true, blocking};
  }

  // Factor the support of α from scratch. A plane that depends on those before it is exchanged against them until one
  // weight is zero, which leaves f unchanged or lower: the support ends with at most rank(H) + 1 planes.
  void build() {
    count = 0;
    for (Index i = 0; i < k; ++i) {
      if (!(problem.alpha[i] > 0.0)) continue;
      append(i);
      if (raised(count - 1) && find_null_direction()) {
        move();
        drop_zeros();
      }
    }
  }

public:
  explicit ActiveSet(Problem &problem)
      : problem(problem), k(problem.k), support(k), factor(k * k), ones(k), direction(k), change(k),
        sigma(problem.weighted_diagonal()) {
    build();
  }

  // Improve α and return the number of steps. Stops at the tolerance, after max_steps, or as soon as rounding prevents
  // progress. The gradient is updated along the steps, so the caller recomputes it before using it.
  Index run(double tolerance, Index max_steps) {
    Index refinements = 0, idle = 0;
    double best = INFINITE, share = ENTRY_SPREAD;
    for (Index step = 0; step < max_steps; ++step) {
      const State state = problem.state();
      const double gap = state.mean - state.lowest;
      idle = gap < 0.9 * best ? 0 : idle + 1;
      best = std::min(best, gap);
      if (gap <= tolerance || idle > 2 * k + 20 || refinements > MAX_REFINEMENTS) return step;
      const double scale = problem.weighted_diagonal();
      if (!(sigma / SIGMA_RATIO <= scale && scale <= sigma * SIGMA_RATIO)) {
        sigma = scale;
        build();
      }
      const bool entered = state.spread <= share * gap;
      if (entered) {
        if (problem.alpha[state.entering] > 0.0) return step;
        append(state.entering);
        refinements = 0;
      }
      if (count == 0) return step;
      const bool dependent = alpha(count - 1) == 0.0 && raised(count - 1);
      if (!(dependent ? find_null_direction() : find_newton_direction(state.mean))) return step;
      const auto [moved, blocking] = move();
      if (!moved && !entered) return step;
      share = moved ? ENTRY_SPREAD : share * ENTRY_SHRINK;
      refinements = blocking >= 0 ? 0 : refinements + 1;
      drop_zeros();
    }
    return max_steps;
  }
};

// Improve α by exact steps on pairs of planes; return the number of steps.
Index run_smo(Problem &problem, double tolerance, Index max_steps) {
  double *alpha = problem.alpha, *gradient = problem.gradient.data();
  for (Index step = 0; step < max_steps; ++step) {
    const State state = problem.state();
    if (state.mean - state.lowest <= tolerance) return step;
    const Index entering = state.entering;
    const double *row = problem.row(entering);
    // The plane whose weight, moved to `entering`, lowers f most.
    Index partner = -1;
    double moved = 0.0, best = 0.0;
    for (Index j = 0; j < problem.k; ++j) {
      const double slope = gradient[j] - gradient[entering];
      if (!(alpha[j] > 0.0 && slope > 0.0)) continue;
      const double curvature = row[entering] + problem.diagonal(j) - 2.0 * row[j];
      const double part = curvature * alpha[j] > slope ? slope / curvature : alpha[j];
      const double decrease = part * (slope - 0.5 * part * curvature);
      if (decrease > best) {
        partner = j;
        moved = part;
        best = decrease;
      }
    }
    if (partner < 0) return step;
    alpha[entering] += moved;
    alpha[partner] = std::max(alpha[partner] - moved, 0.0);
    add_scaled(moved, row, gradient, problem.k);
    add_scaled(-moved, problem.row(partner), gradient, problem.k);
  }
  return max_steps;
}

// Solve a problem whose entries are within the safe range.
double solve(const double *H, const double *b, Index k, double *alpha, double tolerance, Index max_steps) {
  Problem problem{H, b, k, alpha, Doubles(k)};
  double best_gap = problem.refresh();
  if (best_gap <= tolerance || k == 1) return best_gap;
  Doubles best(alpha, alpha + k), best_gradient = problem.gradient;
  double floor = problem.rounding_floor(alpha);
  Index idle = 0, steps = 0;
  while (steps < max_steps && idle < 2 * MAX_IDLE_ROUNDS && best_gap > std::max(tolerance, floor)) {
    const double target = std::max(tolerance, floor);
    if (idle % 2 == 0) steps += ActiveSet(problem).run(target, max_steps - steps) + 1;
    else steps += run_smo(problem, target, std::min(2 * k, max_steps - steps)) + 1;
    const double gap = problem.refresh(), previous = best_gap;
    floor = problem.rounding_floor(alpha);
    // The change of the objective is rounded at the size of both points.
    const double rounding = 4.0 * (floor + problem.rounding_floor(best.data()));
    // ½ (α - α')ᵀ(g + g'), the change of the objective, is free of the cancellation between two objectives.
    double rise = 0.0;
    for (Index i = 0; i < k; ++i) rise += 0.5 * (alpha[i] - best[i]) * (problem.gradient[i] + best_gradient[i]);
    // Better is a lower objective or, within rounding, a smaller gap.
    if (rise < -rounding || (rise <= rounding && gap < best_gap)) {
      best.assign(alpha, alpha + k);
      best_gradient = problem.gradient;
      best_gap = gap;
    }
    idle = best_gap < 0.5 * previous ? 0 : idle + 1;
  }
  std::copy(best.begin(), best.end(), alpha);
  return best_gap;
}

double solve_simplex_qp(In<double, 2> H, Vector b, Values alpha, double tolerance, Index max_steps) {
  const std::size_t k = alpha.shape(0);
  require_length(k, b, H);
  require(k > 0 && H.shape(1) == k, "H must be square, of the size of alpha");
  // The largest of |b_i| and |H_ii| bounds every entry of a semidefinite H.
  double scale = 0.0;
  for (std::size_t i = 0; i < k; ++i) scale = std::max({scale, std::abs(b(i)), std::abs(H(i, i))});
  if (scale == 0.0 || (1.0 / SAFE_SCALE <= scale && scale <= SAFE_SCALE))
    return solve(H.data(), b.data(), k, alpha.data(), tolerance, max_steps);
  Doubles matrix(H.data(), H.data() + k * k), vector(b.data(), b.data() + k);
  for (double &entry : matrix) entry /= scale;
  for (double &entry : vector) entry /= scale;
  return scale * solve(matrix.data(), vector.data(), k, alpha.data(), tolerance / scale, max_steps);
}

} // namespace

LATENTSTRUCT_MODULE(simplex_qp, solve_simplex_qp)
