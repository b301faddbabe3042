// Pooling over listed candidates (y, h): max or soft max over h inside a group of equal y, then over y.
//
// Candidates are flat; group j holds the candidates groups[j] … groups[j+1] (one y), example i the groups
// examples[i] … examples[i+1]. Where all examples have the same candidates, their scores are laid out candidate by
// candidate instead, (C, n): the examples of one candidate are contiguous.
#include "binding.hpp"
#include "pooling.hpp"

#include <vector>

using namespace latentstruct;

// Pool the values of each example's groups and multiply the shares of candidates by those of their groups.
LATENTSTRUCT_INLINE static void pool_groups(const double *group_values, const Index *groups, const Index *examples,
                               std::size_t n_examples, double temperature, double *values, double *shares) {
  std::vector<double> group_shares(examples[n_examples]);
  for (std::size_t i = 0; i < n_examples; ++i) {
    const Index first = examples[i], size = examples[i + 1] - first;
    values[i] = pool(group_values + first, size, temperature, group_shares.data() + first);
    for (Index j = first; j < first + size; ++j)
      for (Index c = groups[j]; c < groups[j + 1]; ++c) shares[c] *= group_shares[j];
  }
}

LATENTSTRUCT_CLONES static void pool_both(const double *scores, const Index *groups, std::size_t n_groups,
                                          const Index *examples, std::size_t n_examples, double output_temperature,
                                          double latent_temperature, double *values, double *shares) {
  std::vector<double> group_values(n_groups);
  for (std::size_t j = 0; j < n_groups; ++j)
    group_values[j] = pool(scores + groups[j], groups[j + 1] - groups[j], latent_temperature, shares + groups[j]);
  pool_groups(group_values.data(), groups, examples, n_examples, output_temperature, values, shares);
}

LATENTSTRUCT_CLONES static void pool_by_entropy(const double *scores, const double *losses, const Index *groups,
                                                std::size_t n_groups, const Index *examples, std::size_t n_examples,
                                                double output_temperature, double order, double *values,
                                                double *shares) {
  std::vector<double> group_values(n_groups), sharp(groups[n_groups]);
  for (std::size_t j = 0; j < n_groups; ++j) {
    const Index first = groups[j];
    group_values[j] = losses[j] + pool_entropy(scores + first, groups[j + 1] - first, order, sharp.data(), shares + first);
  }
  pool_groups(group_values.data(), groups, examples, n_examples, output_temperature, values, shares);
}

static void check(const In<double, 1> &scores, const In<Index, 1> &groups, const In<Index, 1> &examples,
                  const Out<double, 1> &values, const Out<double, 1> &shares) {
  require_length(scores.shape(0), shares);
  require_length(values.shape(0) + 1, examples);
  const Index n_groups = static_cast<Index>(groups.shape(0)) - 1, n = static_cast<Index>(scores.shape(0));
  require(n_groups >= 0 && examples(values.shape(0)) <= n_groups && groups(n_groups) <= n,
          "groups and examples must end inside the candidates");
}

static void pool_candidates(In<double, 1> scores, In<Index, 1> groups, In<Index, 1> examples, double output_temperature,
                            double latent_temperature, Out<double, 1> values, Out<double, 1> shares) {
  check(scores, groups, examples, values, shares);
  pool_both(scores.data(), groups.data(), groups.shape(0) - 1, examples.data(), values.shape(0), output_temperature,
            latent_temperature, values.data(), shares.data());
}

static void pool_renyi(In<double, 1> scores, In<double, 1> losses, In<Index, 1> groups, In<Index, 1> examples,
                       double output_temperature, double order, Out<double, 1> values, Out<double, 1> shares) {
  check(scores, groups, examples, values, shares);
  require_length(groups.shape(0) - 1, losses);
  pool_by_entropy(scores.data(), losses.data(), groups.data(), losses.shape(0), examples.data(), values.shape(0),
                  output_temperature, order, values.data(), shares.data());
}

LATENTSTRUCT_CLONES static void find_best(const double *scores, std::size_t n, const Index *labels, std::size_t n_candidates,
                                          const double *extra, std::size_t n_labels, const Index *__restrict truth,
                                          Index *__restrict winners, double *__restrict values) {
  for (std::size_t i = 0; i < n; ++i) {
    winners[i] = 0;
    values[i] = -INFINITE;
  }
  for (std::size_t c = 0; c < n_candidates; ++c, scores += n) {
    const double *of_label = extra + labels[c];
    for (std::size_t i = 0; i < n; ++i) {
      const double height = scores[i] + of_label[truth[i] * n_labels];
      // Stored whether it is better or not: an unpredictable branch costs more.
      const bool better = height > values[i];
      winners[i] = better ? static_cast<Index>(c) : winners[i];
      values[i] = better ? height : values[i];
    }
  }
}

// values[i] = max_c scores[c, i] + extra[truth[i], labels[c]]; winners[i] is the first c that reaches it. Labels and true
// classes were numbered by the task.
static void best_candidates(In<double, 2> scores, In<Index, 1> labels, In<double, 2> extra, In<Index, 1> truth,
                            Out<Index, 1> winners, Out<double, 1> values) {
  require_length(scores.shape(0), labels);
  require_length(truth.shape(0), winners, values);
  require(scores.shape(1) == truth.shape(0), "scores must have one column per example");
  find_best(scores.data(), truth.shape(0), labels.data(), labels.shape(0), extra.data(), extra.shape(1), truth.data(),
            winners.data(), values.data());
}

// values[i] = max_y scores[i, y] + extra[lines[i], y]; best[i] is the first y that reaches it, and losses[i] what was added
// to it. NaN counts as the highest value. Lines were numbered by the task.
static void best_classes(In<double, 2> scores, In<double, 2> extra, In<Index, 1> lines, Out<Index, 1> best,
                         Out<double, 1> values, Out<double, 1> losses) {
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

NB_MODULE(candidates, m) {
  bind(m, "best_classes", best_classes);
  bind(m, "best_candidates", best_candidates);
  bind(m, "pool_candidates", pool_candidates);
  bind(m, "pool_renyi", pool_renyi);
}
