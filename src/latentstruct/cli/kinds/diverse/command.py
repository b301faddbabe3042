"""Models that choose diverse subsets of a query's documents."""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from latentstruct.cli.description import strongest_features
from latentstruct.cli.kind import Facts, KindSpec, Loaded, Record, Trained
from latentstruct.cli.options import HeldOut, TrainOptions, weight_of
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.io.diversity import DiversityQuery


@dataclass(frozen=True, kw_only=True)
class DiverseOptions(TrainOptions):
    """Train on queries whose documents have subtopics, to choose k documents that cover as many as possible.

    A line for each query: {"query": …, "documents": [{"id": …, "text": …, "subtopics": […]}, …]}.

    Ctrl-C saves the best weights so far. Every --seed gives the same model.

    Example: latentstruct train diverse queries.jsonl --k 5 -C 10 --valid valid.jsonl -o chooser
    """

    data: Annotated[str, Argument(metavar="DATA", help="Queries as JSON lines; - is standard input.")]
    k: Annotated[int, Option("--k", min=1, help="How many documents to choose.")] = 5
    levels: Annotated[
        str,
        Option(
            metavar="NUMBERS",
            help="A word has a weight of its own where a document has it more often than this: 0,2 adds 3 times.",
        ),
    ] = "0"
    titles: Annotated[bool, Option("--titles", help="Give words of titles weights of their own.")] = False
    exact: Annotated[
        bool | None,
        Option("--exact/--greedy", show_default="exact for short lists", help="How to search for the best subset."),
    ] = None
    C: Annotated[float, weight_of("query")] = 1.0


@dataclass(frozen=True, kw_only=True)
class DiverseRecord(Record):
    """What is kept beside a model of diverse subsets."""

    n_documents: int


class DiverseKind(KindSpec):
    """Diverse subsets of documents."""

    name = "diverse"
    summary = "Choose documents of a query that together cover many subtopics."
    reads = 'JSON lines, one for each query: {"query": …, "documents": [{"id": …, "text": …, "subtopics": […]}, …]}.'
    example_file = "diverse.jsonl"
    prediction_file = "predicted.jsonl"
    predicts = "Diversity: JSON lines with the documents chosen for each query."
    judged_by = (
        "Diversity: the subtopics that are missed, beside a random choice, unweighted words and the best choice."
    )
    options = DiverseOptions
    record = DiverseRecord
    tasks = ("DiverseSubset",)
    score_facts = (
        ("queries", "{n_examples}, {n_without_subtopics} without subtopics (their loss is 0)"),
        ("recall", "{recall:%} of the subtopics, each counted once"),
    )
    headline = (("loss", "loss"), ("random loss", "random_loss"))

    def load(self, options: DiverseOptions, progress: Progress) -> Loaded:
        from latentstruct.tasks.diversity import DiverseSubset

        exact = "auto" if options.exact is None else options.exact
        task = DiverseSubset(options.k, levels=parse_levels(options.levels), titles=options.titles, exact=exact)
        queries = read_labelled(options.data, options.k)
        sizes = {"n_examples": len(queries), "n_documents": sum(map(len, queries))}
        progress.say(f"read {len(queries)} queries, {sizes['n_documents']} documents from {options.data}")
        Y = [query.subtopics for query in queries]
        return Loaded(candidates(queries), Y, options.latent_svm(task), sizes, DiverseRecord(**sizes), shown=queries)

    def read(self, model: Trained, held_out: HeldOut) -> "list[DiversityQuery]":
        return read_labelled(held_out.data or "", model.estimator.task.k)

    def score(self, model: Trained, data: "list[DiversityQuery]") -> dict[str, Any]:
        return compare_choices(model.estimator, data, model.estimator.predict(candidates(data)))

    def predict(self, model: Trained, data: str, output: str) -> None:
        from latentstruct.io.diversity import write_choices

        queries = read_queries(data, model.estimator.task_.k)
        write_choices(output, queries, model.estimator.predict(candidates(queries)))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        choices = {"this model": "loss", "random": "random_loss", "most words": "unweighted_loss", "best": "best_loss"}
        rows = [(shown, show_percent(scores[name])) for shown, name in choices.items()]
        print_table("weighted share of subtopics missed", ("choice", "loss"), rows)

    def main_score(self, scores: dict[str, Any]) -> float:
        return 1.0 - float(scores["loss"])

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        task = model.estimator.task_
        return {
            "k": task.k,
            "levels": list(task.levels),
            "titles": task.titles,
            "exact": task.exact,
            "n_documents": model.record.n_documents,
            "weights": strongest_features(model.estimator.coef_, task.feature_names().__getitem__, top),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        if "k" not in result:
            return []
        levels = ", ".join(f"{level:g}" for level in result["levels"])
        return [("k", str(result["k"])), ("levels", levels + (" and titles" if result["titles"] else ""))]


def parse_levels(text: str) -> tuple[float, ...]:
    """Return ascending numbers separated by commas."""
    try:
        levels = tuple(float(part) for part in text.split(","))
    except ValueError:
        levels = ()
    ascending = all(below < above for below, above in pairwise(levels))
    if not levels or not ascending or not (levels[0] >= 0 and levels[-1] < math.inf):
        raise InputError(
            f"--levels is {text!r}; expected ascending numbers of at least 0, separated by commas such as 0,2: correct "
            "it, or leave it out"
        )
    return levels


def candidates(queries: "list[DiversityQuery]") -> list[Any]:
    """Return queries as the task takes them."""
    from latentstruct.tasks.diversity import CandidateDocuments

    return [CandidateDocuments(query.words, query.titles) for query in queries]


def read_queries(name: str, k: int) -> "list[DiversityQuery]":
    """Read queries that have at least k documents."""
    from latentstruct.io.diversity import read_diversity

    queries = read_diversity(name)
    for query in queries:
        if len(query) < k:
            raise InputError(
                f"{name}: the query {query.query!r} has {len(query)} documents, but {k} are to be chosen: remove the "
                "query, or train with a smaller --k"
            )
    return queries


def read_labelled(name: str, k: int) -> "list[DiversityQuery]":
    """Read queries all of which have subtopics."""
    queries = read_queries(name, k)
    for query in queries:
        if query.subtopics is None:
            raise InputError(
                f"{name}: no document of the query {query.query!r} has subtopics; expected a list in every query (an "
                "empty one if there is nothing to cover): add them, or remove the query"
            )
    return queries


def compare_choices(estimator: Any, queries: "list[DiversityQuery]", chosen: Any) -> dict[str, Any]:
    """Return the quality of choices, beside that of random ones, of counting words, and of the best possible."""
    import numpy as np

    from latentstruct.metrics.diversity import diversity_scores

    Y, task = [query.subtopics for query in queries], estimator.task_
    scores = asdict(diversity_scores(Y, chosen))
    unweighted = diversity_scores(Y, task.choose_by(candidates(queries), np.ones_like))
    best = float(np.mean(task.loss(Y, Y)))
    return {"n_examples": scores.pop("n_queries"), **scores, "unweighted_loss": unweighted.loss, "best_loss": best}


KIND = DiverseKind()
