"""Models that rank the documents of queries."""

import re
import sys
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import reported_errors
from latentstruct.cli.description import show_features, strongest_features
from latentstruct.cli.kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.options import (
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
from latentstruct.progress import Progress, print_facts, print_table

if TYPE_CHECKING:
    from latentstruct.formats import Queries
    from latentstruct.report.blocks import Block, Examples

CUTS = (1, 3, 5, 10)
DOCUMENT_NAME = re.compile(r"\bdocid\s*=\s*(\S+)")


class RankModel(StrEnum):
    """What to train."""

    precision = "precision"
    pairwise = "pairwise"


@dataclass(frozen=True)
class RankRecord:
    """What the command keeps beside a ranking model: `k` of its precision, also if pairs were trained on."""

    k: int
    n_features: int
    n_documents: int
    n_examples: int
    seconds: float
    kind: Literal["rank"] = "rank"


@reported_errors()
def train_rank(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Documents as svmlight lines with qid; - is standard input.")
    ],
    output: OutputOption = Path("model"),
    model: Annotated[
        RankModel,
        typer.Option(metavar="NAME", help="precision: of the first k (latent SSVM); pairwise: all pairs (RankSVM)."),
    ] = RankModel.precision,
    k: Annotated[int, typer.Option("--k", min=1, help="How many documents count.")] = 5,
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
    """Train on queries: a line for each document, as GRADE qid:QUERY 1:VALUE 2:VALUE …, above 0 is relevant.

    The default makes the precision of the first k documents high, beginning with a weighted classifier.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train rank train.txt --k 5 -C 10 --valid vali.txt -o ranker
    """
    from latentstruct.formats import read_queries
    from latentstruct.tasks import PairwiseRanking, PrecisionAtK

    choices = LatentChoices(output, C, tol, max_rounds, max_seconds, seed)
    choices.check(data, valid)
    precise = model is RankModel.precision
    progress = Progress(quiet, n_starts=int(precise))
    queries = read_queries(data)
    n_features = queries.X[0].shape[1]
    n_documents = sum(map(len, queries.Y))
    progress.say(f"read {len(queries.ids)} queries, {n_documents} documents from {data}")
    if precise:
        check_lists(queries, k, data, progress)

    def record(_: Any, seconds: float) -> RankRecord:
        return RankRecord(k, n_features, n_documents, len(queries.ids), seconds)

    score, shown = None, queries
    if valid is not None:
        shown = read_queries(valid, n_features=n_features)

        def score(estimator: Any) -> dict[str, Any]:
            return score_ranking(estimator, shown, k)

    def examples(trained: Trained) -> "Examples":
        return RankKind().examples(trained, shown, source_of(valid, data))

    sizes = {"n_examples": len(queries.ids), "n_documents": n_documents, "n_features": n_features}
    estimator = choices.estimator(PrecisionAtK(k) if precise else PairwiseRanking())
    training = Training(RankKind(), output, estimator, queries.X, queries.Y, sizes, record, score)
    training.report, training.examples = report, examples
    training.run(progress, json)


def check_lists(queries: "Queries", k: int, name: str, progress: Progress) -> None:
    """Raise if no query has more than k documents, for then there is nothing to choose."""
    lengths = [len(y) for y in queries.Y]
    longest, n_short = max(lengths), sum(length <= k for length in lengths)
    if longest <= k:
        raise InputError(
            f"--k is {k}, but no query of {name} has more than {longest} documents, so there is nothing to choose: "
            f"choose a k below {longest}"
        )
    if n_short:
        progress.say(f"{n_short} of {len(lengths)} queries have {k} documents at most and cannot teach anything")


def score_ranking(estimator: Any, queries: "Queries", k: int) -> dict[str, Any]:
    """Return precision, NDCG and average precision of a model."""
    return compare_rankings(queries, estimator.decision_function(queries.X), k)


def compare_rankings(queries: "Queries", found: Any, k: int) -> dict[str, Any]:
    """Return precision, NDCG and average precision of scores."""
    from latentstruct.metrics import ranking_scores

    cuts = sorted({*CUTS, k})
    scores = asdict(ranking_scores(queries.Y, found, cuts))
    return {"n_examples": scores.pop("n_queries"), "k": k, **scores}


def name_document(remark: str) -> str:
    """Return the name a document has in the remark behind its features, or else the remark on one line."""
    named = DOCUMENT_NAME.search(remark)
    return named[1] if named is not None else " ".join(remark.split())


class RankKind(Kind):
    """Rankings of documents."""

    name = "rank"
    summary = "Put the relevant documents of a query first."
    latent = "which of the relevant documents are to be the first k"
    reads = (
        "Svmlight lines, one for each document: grade, qid:QUERY, features such as 1:0.5, and perhaps a remark after #."
    )
    example_file = "rank.txt"
    prediction_file = "predicted.tsv"
    record = RankRecord
    train = staticmethod(train_rank)

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import PairwiseRanking, PrecisionAtK

        task = model.estimator.task_
        fits = isinstance(task, PrecisionAtK | PairwiseRanking) and model.record.n_features == task.n_inputs_
        return fits and model.record.k == getattr(task, "k", model.record.k) and model.record.k > 0

    def read(self, model: Trained, data: str) -> "Queries":
        """Read queries with the features of the model."""
        from latentstruct.formats import read_queries

        return read_queries(data, n_features=model.record.n_features)

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write one score a line in the order of the file; as .tsv with query and document before it."""
        from latentstruct.formats import write_scores
        from latentstruct.formats.text import extension, write_text

        queries = self.read(model, data)
        scores = model.estimator.decision_function(queries.X)
        if extension(output) != ".tsv":
            write_scores(output, scores)
        else:
            lines = ["query\tdocument\tscore\n"]
            for query, documents, one in zip(queries.ids, queries.documents, scores, strict=True):
                shown = map(name_document, documents)
                lines += [f"{query}\t{name}\t{score!r}\n" for name, score in zip(shown, one.tolist(), strict=True)]
            write_text(output, "".join(lines))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return precision, NDCG and average precision."""
        return score_ranking(model.estimator, self.read_held_out(model, held_out), model.record.k)

    def read_held_out(self, model: Trained, held_out: HeldOut) -> "Queries":
        """Return graded documents."""
        return self.read(model, held_out.data or "")

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the strongest weights."""
        from latentstruct.cli.reports.rank import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: "Queries", source: str) -> "Examples":
        """Return rankings of the documents of queries."""
        from latentstruct.cli.reports.rank import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print a table of the measures by k."""
        nothing = scores["n_without_relevant"]
        print_facts(
            [
                ("queries", f"{scores['n_examples']}, {nothing} without a relevant document (these count 0)"),
                ("MAP", f"{scores['average_precision']:.4f}"),
            ]
        )
        rows = [(str(k), f"{scores['precision'][k]:.4f}", f"{scores['ndcg'][k]:.4f}") for k in scores["precision"]]
        print_table("", ("k", "P@k", "NDCG@k"), rows, n_text=0)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return precision and NDCG at the k of the model."""
        k = scores["k"]
        return [(f"P@{k}", f"{scores['precision'][k]:.4f}"), (f"NDCG@{k}", f"{scores['ndcg'][k]:.4f}")]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the precision at the k of the model."""
        value: float = scores["precision"][scores["k"]]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return k and the strongest weights."""
        strongest = strongest_features(model.estimator.coef_, lambda j: f"feature {j + 1}", top)
        return {"k": model.record.k, "n_documents": model.record.n_documents, "weights": strongest}

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return k."""
        return [("k", str(result["k"]))] if "k" in result else []

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        show_features(result)
