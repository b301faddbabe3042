"""Models that choose diverse subsets of a query's documents."""

import math
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import reported_errors
from latentstruct.cli.description import show_features, strongest_features
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    JsonOption,
    LatentChoices,
    OutputOption,
    QuietOption,
    ReportOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    TolOption,
    ValidOption,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.formats.diversity import DiversityQuery
    from latentstruct.report.blocks import Block, Examples


@dataclass(frozen=True)
class DiverseRecord:
    """What the command keeps beside a model of diverse subsets."""

    n_documents: int
    n_examples: int
    seconds: float
    kind: Literal["diverse"] = "diverse"


@reported_errors()
def train_diverse(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Queries as JSON lines; - is standard input.")],
    output: OutputOption = Path("model"),
    k: Annotated[int, typer.Option("--k", min=1, help="How many documents to choose.")] = 5,
    levels: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="A word has a weight of its own where a document has it more often than this: 0,2 adds 3 times.",
        ),
    ] = "0",
    titles: Annotated[bool, typer.Option("--titles", help="Give words of titles weights of their own.")] = False,
    exact: Annotated[
        bool | None,
        typer.Option(
            "--exact/--greedy", show_default="exact for short lists", help="How to search for the best subset."
        ),
    ] = None,
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each query against ½‖w‖².")] = 1.0,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    valid: ValidOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on queries whose documents have subtopics, to choose k documents that cover as many as possible.

    A line for each query: {"query": …, "documents": [{"id": …, "text": …, "subtopics": […]}, …]}.

    Ctrl-C saves the best weights so far. Every --seed gives the same model.

    Example: latentstruct train diverse queries.jsonl --k 5 -C 10 --valid valid.jsonl -o chooser
    """
    from latentstruct.tasks.diversity import DiverseSubset

    choices = LatentChoices(output, C, tol, max_rounds, max_seconds, 0)
    choices.check(data, valid)
    task = DiverseSubset(k, levels=parse_levels(levels), titles=titles, exact="auto" if exact is None else exact)
    progress = Progress(quiet)
    queries = read_labelled(data, k)
    held_out = None if valid is None else read_labelled(valid, k)
    n_documents = sum(map(len, queries))
    progress.say(f"read {len(queries)} queries, {n_documents} documents from {data}")

    def record(_: Any, seconds: float) -> DiverseRecord:
        return DiverseRecord(n_documents, len(queries), seconds)

    score = None
    if held_out is not None:

        def score(estimator: Any) -> dict[str, Any]:
            return score_choices(estimator, held_out)

    def examples(trained: Trained) -> "Examples":
        return DiverseKind().examples(trained, held_out or queries, source_of(valid, data))

    sizes = {"n_examples": len(queries), "n_documents": n_documents}
    X, Y = [candidates(query) for query in queries], [query.subtopics for query in queries]
    training = Training(DiverseKind(), output, choices.estimator(task), X, Y, sizes, record, score)
    training.report, training.examples = report, examples
    training.run(progress, json)


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


def candidates(query: "DiversityQuery") -> Any:
    """Return a query as the task takes it."""
    from latentstruct.tasks.diversity import CandidateDocuments

    return CandidateDocuments(query.words, query.titles)


def read_queries(name: str, k: int) -> "list[DiversityQuery]":
    """Read queries that have at least k documents."""
    from latentstruct.formats.diversity import read_diversity

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


def score_choices(estimator: Any, queries: "list[DiversityQuery]") -> dict[str, Any]:
    """Return the quality of a model's choices, beside that of others."""
    return compare_choices(estimator, queries, estimator.predict([candidates(query) for query in queries]))


def compare_choices(estimator: Any, queries: "list[DiversityQuery]", chosen: Any) -> dict[str, Any]:
    """Return the quality of choices, beside that of random ones, of counting words, and of the best possible."""
    import numpy as np

    from latentstruct.metrics.diversity import diversity_scores

    X, Y = [candidates(query) for query in queries], [query.subtopics for query in queries]
    task = estimator.task_
    scores = asdict(diversity_scores(Y, chosen))
    unweighted = diversity_scores(Y, task.choose_by(X, np.ones_like))
    best = float(np.mean(task.loss(Y, Y)))
    return {"n_examples": scores.pop("n_queries"), **scores, "unweighted_loss": unweighted.loss, "best_loss": best}


class DiverseKind(Kind):
    """Diverse subsets of documents."""

    name = "diverse"
    summary = "Choose documents of a query that together cover many subtopics."
    reads = 'JSON lines, one for each query: {"query": …, "documents": [{"id": …, "text": …, "subtopics": […]}, …]}.'
    example_file = "diverse.jsonl"
    prediction_file = "predicted.jsonl"
    record = DiverseRecord
    train = staticmethod(train_diverse)

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks.diversity import DiverseSubset

        return isinstance(model.estimator.task_, DiverseSubset)

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write the chosen documents of each query as JSON lines."""
        from latentstruct.formats.diversity import write_choices

        queries = read_queries(data, model.estimator.task_.k)
        write_choices(output, queries, model.estimator.predict([candidates(query) for query in queries]))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the subtopic loss beside that of simpler choices."""
        return score_choices(model.estimator, self.read_held_out(model, held_out))

    def read_held_out(self, model: Trained, held_out: HeldOut) -> "list[DiversityQuery]":
        """Return queries whose documents have subtopics."""
        return read_labelled(held_out.data or "", model.estimator.task_.k)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return what covering words is worth."""
        from latentstruct.cli.reports.diverse import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: "list[DiversityQuery]", source: str) -> "Examples":
        """Return chosen documents and the subtopics they cover."""
        from latentstruct.cli.reports.diverse import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print a table of the losses."""
        nothing = scores["n_without_subtopics"]
        print_facts(
            [
                ("queries", f"{scores['n_examples']}, {nothing} without subtopics (their loss is 0)"),
                ("recall", f"{show_percent(scores['recall'])} of the subtopics, each counted once"),
            ]
        )
        choices = {"this model": "loss", "random": "random_loss", "most words": "unweighted_loss", "best": "best_loss"}
        rows = [(shown, show_percent(scores[name])) for shown, name in choices.items()]
        print_table("weighted share of subtopics missed", ("choice", "loss"), rows)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the loss and that of random choices."""
        return [("loss", show_percent(scores["loss"])), ("random loss", show_percent(scores["random_loss"]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the share of subtopics that are covered."""
        value: float = 1.0 - scores["loss"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return k and the strongest weights."""
        task, weights = model.estimator.task_, model.estimator.coef_
        names = task.feature_names()
        return {
            "k": task.k,
            "levels": list(task.levels),
            "titles": task.titles,
            "exact": task.exact,
            "n_documents": model.record.n_documents,
            "weights": strongest_features(weights, names.__getitem__, top),
        }

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return k and what the words are looked at for."""
        if "k" not in result:
            return []
        levels = ", ".join(f"{level:g}" for level in result["levels"])
        return [("k", str(result["k"])), ("levels", levels + (" and titles" if result["titles"] else ""))]

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        show_features(result)
