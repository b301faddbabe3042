"""Models that choose diverse subsets of the documents of a query."""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from latentstruct import io, metrics, tasks
from latentstruct.cli.declaring import argument, option, weight_option
from latentstruct.cli.kind import KindSpec, Loaded, Trained, record_of
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.core.lazy import np
from latentstruct.exceptions import Description, FormatError, InputError
from latentstruct.progress.display import Progress, print_table, show_percent


@dataclass(frozen=True, kw_only=True)
class DiverseOptions(TrainOptions):
    """Train on queries whose documents have subtopics, to choose k documents that cover as many as possible.

    One line per query: {"query": …, "documents": [{"id": …, "text": …, "subtopics": […]}, …]}.

    The model does not depend on --seed.

    Example: latentstruct train diverse queries.jsonl --k 5 -C 10 --valid valid.jsonl -o chooser
    """

    data: str = argument("Queries as JSON lines; - is standard input.")
    k: int = option(5, "Number of documents to choose.", min=1)
    levels: str = option(
        "0",
        "A word has separate weights for documents with more occurrences than this: 0,2 adds at least 3.",
        metavar="NUMBERS",
    )
    titles: bool = option(False, "Use separate weights for words of titles.")
    exact: bool | None = option(
        None, "How to search for the best subset.", "--exact/--greedy", shown="exact for short lists"
    )
    C: float = weight_option(1.0, "query")


class DiverseKind(KindSpec):
    """Diverse subsets of documents."""

    name = "diverse"
    item = "query"
    summary = "Choose documents of a query that together cover many subtopics."
    reads = 'JSON lines, one per query: {"query": …, "documents": [{"id": …, "text": …, "subtopics": […]}, …]}.'
    example_file = "diverse.jsonl"
    prediction_file = "predicted.jsonl"
    predicts = "Diversity: JSON lines with the documents chosen for each query."
    judged_by = "Diversity: missed subtopics, compared with a random, an unweighted and the best choice."
    options = DiverseOptions
    record = record_of(n_documents=int)
    tasks = ("DiverseSubset",)
    score_facts = (
        ("queries", "{n_examples}, {n_without_subtopics} without subtopics (their loss is 0)"),
        ("recall", "{recall:%} of the subtopics, each counted once"),
    )
    headline = (("loss", "loss"), ("random loss", "random_loss"))
    described = (*(f"estimator.task_.{name}" for name in ("k", "levels", "titles", "exact")), "record.n_documents")
    info_facts = (("k", "{k}"), ("levels", "{levels:g}{titles: and titles|}"))

    def load(self, options: DiverseOptions, progress: Progress) -> Loaded:
        exact = "auto" if options.exact is None else options.exact
        task = tasks.DiverseSubset(options.k, levels=parse_levels(options.levels), titles=options.titles, exact=exact)
        queries = read_labeled(options.data, options.k)
        sizes = {"n_examples": len(queries), "n_documents": sum(map(len, queries))}
        progress.say(f"read {len(queries)} queries, {sizes['n_documents']} documents from {options.data}")
        Y = [query.subtopics for query in queries]
        record = self.new_record(sizes)
        return Loaded(candidates(queries), Y, options.latent_svm(task), sizes, record, shown=queries)

    def read(self, model: Trained, held_out: HeldOut) -> "list[io.DiversityQuery]":
        return read_labeled(held_out.data or "", model.estimator.task.k)

    def find(self, model: Trained, data: "list[io.DiversityQuery]") -> Any:
        return model.estimator.predict(candidates(data))

    def compare(self, model: Trained, data: "list[io.DiversityQuery]", found: Any) -> dict[str, Any]:
        Y, task = [query.subtopics for query in data], model.estimator.task_
        scores = asdict(metrics.diversity_scores(Y, found))
        unweighted = metrics.diversity_scores(Y, task.choose_by(candidates(data), np.ones_like))
        best = float(np.mean(task.loss(Y, Y)))
        return {"n_examples": scores.pop("n_queries"), **scores, "unweighted_loss": unweighted.loss, "best_loss": best}

    def predict(self, model: Trained, data: str, output: str) -> None:
        queries = read_queries(data, model.estimator.task_.k)
        io.write_choices(output, queries, self.find(model, queries))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        choices = {"this model": "loss", "random": "random_loss", "most words": "unweighted_loss", "best": "best_loss"}
        rows = [(shown, show_percent(scores[name])) for shown, name in choices.items()]
        print_table("weighted fraction of subtopics missed", ("choice", "loss"), rows)

    def main_score(self, scores: dict[str, Any]) -> float:
        return 1.0 - float(scores["loss"])

    def weight_names(self, model: Trained) -> list[str]:
        return list(model.estimator.task_.feature_names())


def parse_levels(text: str) -> tuple[float, ...]:
    """Return increasing numbers separated by commas."""
    try:
        levels = tuple(float(part) for part in text.split(","))
    except ValueError:
        levels = ()
    ascending = all(below < above for below, above in pairwise(levels))
    if not levels or not ascending or not (levels[0] >= 0 and levels[-1] < math.inf):
        raise InputError("levels", text, "increasing numbers of at least 0, such as 0,2")
    return levels


def candidates(queries: "list[io.DiversityQuery]") -> list[Any]:
    """Return queries as the task takes them."""
    return [tasks.CandidateDocuments(query.words, query.titles) for query in queries]


def read_queries(name: str, k: int) -> "list[io.DiversityQuery]":
    """Read queries that have at least k documents."""
    queries = io.read_diversity(name)
    for query in queries:
        if len(query) < k:
            found, expected = Description(f"{len(query)} documents"), f"at least {k}"
            raise FormatError(f"{name}, query {query.query!r}", found, expected, "Or train with a smaller --k.")
    return queries


def read_labeled(name: str, k: int) -> "list[io.DiversityQuery]":
    """Read queries all of which have subtopics."""
    queries = read_queries(name, k)
    for query in queries:
        if query.subtopics is None:
            expected = "subtopics of the documents, which may be empty lists"
            raise FormatError(f"{name}, query {query.query!r}", Description("none"), expected)
    return queries


KIND = DiverseKind()
