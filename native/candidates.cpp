// Pooling over listed candidates (y, h): max or soft max over h inside a group of equal y, then over y.
//
// Candidates are flat; group j holds the candidates groups[j] … groups[j+1] (one y), example i the groups
// examples[i] … examples[i+1]. Where all examples have the same candidates, their scores are laid out candidate by
// candidate instead, (C, n): the examples of one candidate are contiguous.
#include "arrays.hpp"
#include "pooling.hpp"

#include <vector>

using namespace latentstruct;

// Pool the values of each example's groups and multiply the shares of candidates by those of their groups.
LATENTSTRUCT_INLINE static void pool_groups(const double *group_values, const Indices &groups, const Indices &examples,
                                            double temperature, const Values &values, double *shares) {
  std::vector<double> group_shares(examples(values.shape(0)));
  for (std::size_t i = 0; i < values.shape(0); ++i) {
    const Index first = examples(i), size = examples(i + 1) - first;
    values(i) = pool(group_values + first, size, temperature, group_shares.data() + first);
    for (Index j = first; j < first + size; ++j)
      for (Index c = groups(j); c < groups(j + 1); ++c) shares[c] *= group_shares[j];
  }
}

static void check(const Vector &scores, const Indices &groups, const Indices &examples, const Values &values,
                  const Values &shares) {
  require_length(scores.shape(0), shares);
  require_length(values.shape(0) + 1, examples);
  const Index n_groups = static_cast<Index>(groups.shape(0)) - 1, n = static_cast<Index>(scores.shape(0));
  require(n_groups >= 0 && examples(values.shape(0)) <= n_groups && groups(n_groups) <= n,
          "groups and examples must end inside the candidates");
}

LATENTSTRUCT_CLONES static void pool_candidates(Vector scores, Indices groups, Indices examples, double output_temperature,
                                                double latent_temperature, Values values, Values shares) {
  check(scores, groups, examples, values, shares);
  std::vector<double> group_values(groups.shape(0) - 1);
  for (std::size_t j = 0; j < group_values.size(); ++j)
    group_values[j] = pool(&scores(groups(j)), groups(j + 1) - groups(j), latent_temperature, &shares(groups(j)));
  pool_groups(group_values.data(), groups, examples, output_temperature, values, shares.data());
}

LATENTSTRUCT_CLONES static void pool_renyi(Vector scores, Vector losses, Indices groups, Indices examples, double output_temperature,
                                           double order, Values values, Values shares) {
  check(scores, groups, examples, values, shares);
  require_length(groups.shape(0) - 1, losses);
  std::vector<double> group_values(losses.shape(0)), sharp(scores.shape(0));
  for (std::size_t j = 0; j < group_values.size(); ++j)
    group_values[j] = losses(j) + pool_entropy(&scores(groups(j)), groups(j + 1) - groups(j), order, sharp.data(), &shares(groups(j)));
  pool_groups(group_values.data(), groups, examples, output_temperature, values, shares.data());
}

// values[i] = max_c scores[c, i] + extra[truth[i], labels[c]]; winners[i] is the first c that reaches it. Labels and true
// classes were numbered by the task.
LATENTSTRUCT_CLONES static void best_candidates(In<double, 2> scores, Indices labels, In<double, 2> extra, Indices truth,
                                                Numbers winners, Values values) {
  const std::size_t n = truth.shape(0), n_labels = extra.shape(1);
  require_length(scores.shape(0), labels);
  require_length(n, winners, values);
  require(scores.shape(1) == n, "scores must have one column per example");
  Index *__restrict winner = winners.data();
  double *__restrict value = values.data();
  std::fill_n(winner, n, 0);
  std::fill_n(value, n, -INFINITE);
  for (std::size_t c = 0; c < labels.shape(0); ++c) {
    const double *own = scores.data() + c * n, *of_label = extra.data() + labels(c);
    for (std::size_t i = 0; i < n; ++i) {
      const double height = own[i] + of_label[truth(i) * n_labels];
      // Stored whether it is better or not: an unpredictable branch costs more.
      const bool better = height > value[i];
      winner[i] = better ? static_cast<Index>(c) : winner[i];
      value[i] = better ? height : value[i];
    }
  }
}

// values[i] = max_y scores[i, y] + extra[lines[i], y]; best[i] is the first y that reaches it, and losses[i] what was added
// to it. NaN counts as the highest value. Lines were numbered by the task.
static void best_classes(In<double, 2> scores, In<double, 2> extra, Indices lines, Numbers best,
                         Values values, Values losses) {
  const std::size_t n = scores.shape(0), n_classes = scores.shape(1);
  require_length(n, lines, best, values, losses);
  require(n_classes > 0 && extra.shape(1) == n_classes, "extra must have one column per class");
  for (std::size_t i = 0; i < n; ++i) {
    const double *score = scores.data() + i * n_classes, *added = extra.data() + lines(i) * n_classes;
    std::size_t found = 0;
    double highest = score[0] + added[0];
    for (std::size_t y = 1; y < n_classes; ++y) {
      const double height = score[y] + added[y];
      const bool better = (height > highest) | ((height != height) & (highest == highest));
      found = better ? y : found;
      highest = better ? height : highest;
    }
    best(i) = static_cast<Index>(found);
    values(i) = highest;
    losses(i) = added[found];
  }
}

LATENTSTRUCT_MODULE(candidates, best_classes, best_candidates, pool_candidates, pool_renyi)
