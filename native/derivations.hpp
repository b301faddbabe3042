// The best derivations of an item, one after the other, and random ones, for any structure whose items have edges.
//
// `Items` has each_edge(item, visit(edge, own score, score with those of the tails)), each_share(item, visit(edge,
// probability)) and each_tail(item, edge, visit(item)). A derivation of an item is one of its edges, and a derivation of
// each tail of this edge.
#pragma once
#include "arrays.hpp"
#include "functions.hpp"

#include <algorithm>
#include <random>
#include <set>
#include <unordered_map>
#include <vector>

namespace latentstruct {

// The k best derivations, found when they are needed (Huang and Chiang 2005, algorithm 3): items that no good derivation
// has are not visited.
template <typename Items> class BestDerivations {
  // An edge, and the ranks of the derivations at its tails.
  struct Derivation {
    double score, own;
    Index edge;
    std::vector<Index> ranks;
    bool operator<(const Derivation &other) const {
      return score != other.score ? score > other.score : edge != other.edge ? edge < other.edge : ranks < other.ranks;
    }
  };
  struct List {
    std::vector<Derivation> best;
    std::set<Derivation> open; // Among these is the next one, once the successors of the last one are.
    bool expanded = true, ended = false;
  };

  const Items &items;
  const Index count;
  std::unordered_map<Index, List> lists;
  std::vector<Derivation> edges;

  bool settled(const List &list, Index rank) const {
    return rank >= count || list.ended || static_cast<Index>(list.best.size()) > rank;
  }

  List &list_of(Index item) {
    const auto [at, added] = lists.try_emplace(item);
    if (!added) return at->second;
    edges.clear();
    items.each_edge(item, [&](Index edge, double own, double score) {
      if (score > -INFINITE) edges.push_back({score, own, edge, {}});
    });
    // The best derivations use the best edges.
    const auto last = edges.begin() + std::min<Index>(count, static_cast<Index>(edges.size()));
    std::partial_sort(edges.begin(), last, edges.end());
    for (auto edge = edges.begin(); edge != last; ++edge) {
      items.each_tail(item, edge->edge, [&](Index) { edge->ranks.push_back(0); });
      at->second.open.insert(std::move(*edge));
    }
    return at->second;
  }

  // Add the derivations that have one rank more than the last one; all ranks below must be settled.
  void expand(Index item, List &list) {
    const Derivation &last = list.best.back();
    std::vector<const List *> tails;
    items.each_tail(item, last.edge, [&](Index tail) { tails.push_back(&list_of(tail)); });
    for (std::size_t k = 0; k < tails.size(); ++k) {
      Derivation next{last.own, last.own, last.edge, last.ranks};
      if (++next.ranks[k] >= static_cast<Index>(tails[k]->best.size())) continue;
      for (std::size_t j = 0; j < tails.size(); ++j) next.score += tails[j]->best[next.ranks[j]].score;
      list.open.insert(std::move(next));
    }
    list.expanded = true;
  }

  // Find the derivations of an item up to a rank, without recursion.
  void settle(Index item, Index rank) {
    std::vector<std::pair<Index, Index>> open{{item, rank}};
    while (!open.empty()) {
      const auto [here, wanted] = open.back();
      List &list = list_of(here);
      if (settled(list, wanted)) {
        open.pop_back();
        continue;
      }
      if (!list.expanded) {
        const std::size_t before = open.size();
        const Derivation &last = list.best.back();
        std::size_t k = 0;
        items.each_tail(here, last.edge, [&](Index tail) {
          // What is beyond the last rank is not needed, but the rank itself is.
          const Index next = std::min(last.ranks[k++] + 1, count - 1);
          if (!settled(list_of(tail), next)) open.emplace_back(tail, next);
        });
        if (open.size() > before) continue;
        expand(here, list);
      }
      if (list.open.empty()) {
        list.ended = true;
      } else {
        list.best.push_back(list.open.extract(list.open.begin()).value());
        list.expanded = false;
      }
    }
  }

public:
  BestDerivations(const Items &items, Index count) : items(items), count(count) {}

  // Visit the items and edges of a derivation of an item from above and from the left: visit(item, edge). Return its
  // score, -inf if there are fewer.
  template <typename Visit> double trace(Index item, Index rank, Visit visit) {
    settle(item, rank);
    const List &list = list_of(item);
    if (static_cast<Index>(list.best.size()) <= rank) return -INFINITE;
    const double score = list.best[rank].score;
    std::vector<std::pair<Index, Index>> open{{item, rank}};
    while (!open.empty()) {
      const auto [here, own] = open.back();
      open.pop_back();
      settle(here, own);
      const Derivation &found = list_of(here).best[own];
      visit(here, found.edge);
      const std::size_t first = open.size();
      items.each_tail(here, found.edge, [&](Index tail) { open.emplace_back(tail, found.ranks[open.size() - first]); });
      std::reverse(open.begin() + first, open.end());
    }
    return score;
  }
};

// Visit the items and edges of a random derivation of an item from above and from the left: visit(item, edge).
template <typename Items, typename Visit>
void draw_derivation(const Items &items, Index item, std::mt19937_64 &numbers, Visit visit) {
  std::vector<Index> open{item};
  while (!open.empty()) {
    const Index here = open.back();
    open.pop_back();
    double left = static_cast<double>(numbers() >> 11) * 0x1p-53;
    Index chosen = -1;
    items.each_share(here, [&](Index edge, double share) {
      if (share > 0.0 && left >= 0.0) left -= share, chosen = edge;
    });
    visit(here, chosen);
    const std::size_t first = open.size();
    items.each_tail(here, chosen, [&](Index tail) { open.push_back(tail); });
    std::reverse(open.begin() + first, open.end());
  }
}

} // namespace latentstruct
