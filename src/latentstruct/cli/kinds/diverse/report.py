"""Report of diverse subsets: benefits of words, and the subtopics that the chosen documents cover."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latentstruct import io
from latentstruct.cli.kind import Trained
from latentstruct.metrics.diversity import subtopic_holders
from latentstruct.viz.plots.features import shorten
from latentstruct.viz.plots.rankings import plot_benefits
from latentstruct.viz.report.blocks import Block, Drawing, Examples, FactList, TableBlock

WORDS_SHOWN = 6
SUBTOPICS_SHOWN = 30
LONGEST_NAME = 40


def weight_blocks(model: Trained) -> list[Block]:
    """Return the benefit of covering a word, by its document frequency."""
    task = model.estimator.task_
    benefits = _benefits(model)
    names = ["words" if level == 0 else f"words more than {level:g} times" for level in task.levels_.tolist()]
    names += ["title words"] * task.titles
    best = float(task.shares_[benefits[0].argmax()])
    return [
        Drawing(
            lambda ax: plot_benefits(task.shares_, benefits, names, ax),
            "Benefit of covering a word by the fraction of the documents with it; it is largest for words in at "
            f"least {100 * best:g} % of the documents.",
            "Benefit of covering a word, by the fraction of the documents of a query with it. Single words have no "
            "weights, so that the model applies to new words.",
            height=2.8,
        )
    ]


def _benefits(model: Trained) -> NDArray[np.float64]:
    """Return the benefit of a word (levels, thresholds) between a threshold and the next."""
    task = model.estimator.task_
    found: NDArray[np.float64] = np.cumsum(model.estimator.coef_.reshape(-1, len(task.shares_)), axis=1)
    return found


def examples(model: Trained, queries: "list[io.DiversityQuery]", chosen: Any) -> Examples:
    """Return the chosen documents of queries."""
    Y = [query.subtopics for query in queries]
    return Examples(
        [shorten(f"query {query.query}", LONGEST_NAME) for query in queries],
        model.estimator.task_.loss(Y, chosen),
        "weighted fraction of subtopics missed",
        [_remark(query, documents) for query, documents in zip(queries, chosen, strict=True)],
        lambda i: _draw(model, queries[i], chosen[i].tolist()),
    )


def _remark(query: "io.DiversityQuery", chosen: Any) -> str:
    holders = subtopic_holders(query.subtopics, "the truth")
    documents = set(chosen.tolist())
    covered = sum(not documents.isdisjoint(held) for held in holders.values())
    return f"{covered} of {len(holders)} subtopics covered by {len(documents)} of {len(query)} documents"


def _draw(model: Trained, query: "io.DiversityQuery", chosen: list[int]) -> list[Block]:
    """Return the chosen documents with what each adds, and the subtopics that are missed."""
    assert query.subtopics is not None
    worth = _worth_of_words(model, query)
    rows, topics, words = [], set[Any](), set[str]()
    for place, j in enumerate(chosen, 1):
        new = [topic for topic in dict.fromkeys(query.subtopics[j]) if topic not in topics]
        again = len(set(query.subtopics[j])) - len(new)
        added = ", ".join(map(str, new)) or "nothing new"
        fresh = sorted(set(query.words[j]) - words, key=lambda word: (-worth[word], word))
        rows.append(
            [
                shorten(_document_name(query, j), LONGEST_NAME),
                shorten(added, 120) + (f" (and {again} again)" if again else ""),
                ", ".join(shorten(word, 20) for word in fresh[:WORDS_SHOWN]),
                place,
            ]
        )
        topics.update(query.subtopics[j])
        words.update(query.words[j])
    columns = ("document", "new subtopics", "new words of largest benefit", "rank")
    return [TableBlock("Chosen documents", columns, rows, n_text=3), _covered_and_missed(query, chosen)]


def _document_name(query: "io.DiversityQuery", j: int) -> str:
    title = " ".join(query.titles[j])
    return f"{query.ids[j]}: {title}" if title else str(query.ids[j])


def _worth_of_words(model: Trained, query: "io.DiversityQuery") -> dict[str, float]:
    """Return the benefit of covering each word of a query at the first level."""
    task, benefits = model.estimator.task_, _benefits(model)[0]
    held = Counter(word for words in query.words for word in set(words))
    counts = np.fromiter(held.values(), dtype=np.float64, count=len(held))
    reached = np.searchsorted(len(query) * task.shares_ - 1e-9, counts, side="right")
    return dict(zip(held, np.append(0.0, benefits)[reached].tolist(), strict=True))


def _covered_and_missed(query: "io.DiversityQuery", chosen: list[int]) -> FactList:
    """Return the covered and the missed subtopics, with the numbers of their documents."""
    holders = subtopic_holders(query.subtopics, "the truth")
    documents = set(chosen)
    covered: list[str] = []
    missed: list[str] = []
    for topic in sorted(holders, key=lambda one: -len(holders[one])):
        (missed if documents.isdisjoint(holders[topic]) else covered).append(
            f"{shorten(topic)} ({len(holders[topic])})"
        )
    return FactList([("covered (documents)", _listed(covered)), ("missed (documents)", _listed(missed))])


def _listed(topics: list[str]) -> str:
    more = f" and {len(topics) - SUBTOPICS_SHOWN} more" if len(topics) > SUBTOPICS_SHOWN else ""
    return (", ".join(topics[:SUBTOPICS_SHOWN]) + more) or "none"
