"""Models that rank the documents of queries."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from latentstruct import io, metrics, tasks
from latentstruct.cli.declaring import argument, option, weight_option
from latentstruct.cli.kind import KindSpec, Loaded, Trained, record_of
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.exceptions import InputError
from latentstruct.io.text import extension, write_text
from latentstruct.progress.display import Progress, print_table

CUTS = (1, 3, 5, 10)
DOCUMENT_NAME = re.compile(r"\bdocid\s*=\s*(\S+)")


@dataclass(frozen=True, kw_only=True)
class RankOptions(TrainOptions):
    """Train on queries, one document per line: GRADE qid:QUERY 1:VALUE 2:VALUE …; grades above 0 are relevant.

    The default maximizes the precision of the first k documents, starting from a weighted classifier.

    Example: latentstruct train rank train.txt --k 5 -C 10 --valid vali.txt -o ranker
    """

    data: str = argument("Documents as svmlight lines with qid; - is standard input.")
    model: Literal["precision", "pairwise"] = option(
        "precision", "precision: of the first k (latent SSVM); pairwise: all pairs (RankSVM).", metavar="NAME"
    )
    k: int = option(5, "Number of documents that count.", min=1)
    C: float = weight_option(1.0, "query")


class RankKind(KindSpec):
    """Rankings of documents."""

    name = "rank"
    item = "query"
    summary = "Rank the documents of queries, relevant ones first."
    latent = "which of the relevant documents come first"
    reads = (
        "Svmlight lines, one per document: grade, qid:QUERY, features such as 1:0.5, and optionally a comment after #."
    )
    example_file = "rank.txt"
    prediction_file = "predicted.tsv"
    predicts = "Rankings: one score per line, or a table with query and document (docid = …) if FILE ends in .tsv."
    judged_by = "Rankings: precision@k, NDCG@k and MAP."
    options = RankOptions
    record = record_of(k=int, n_features=int, n_documents=int)
    tasks = ("PrecisionAtK", "PairwiseRanking")
    per_example = ("ids", "X", "Y", "documents")
    score_facts = (
        ("queries", "{n_examples}, {n_without_relevant} without a relevant document (these count 0)"),
        ("MAP", "{average_precision:.4f}"),
    )
    described = ("record.k", "record.n_documents")
    info_facts = (("k", "{k}"),)
    weights_mean = "features with positive weights move a document up, those with negative weights down"

    def load(self, options: RankOptions, progress: Progress) -> Loaded:
        queries = io.read_queries(options.data)
        n_features, n_documents = queries.X[0].shape[1], sum(map(len, queries.Y))
        progress.say(f"read {len(queries.ids)} queries, {n_documents} documents from {options.data}")
        task: Any = tasks.PairwiseRanking()
        if options.model == "precision":
            check_lists(queries, options, progress)
            task = tasks.PrecisionAtK(options.k)
        sizes = {"n_examples": len(queries.ids), "n_documents": n_documents, "n_features": n_features}
        record = self.new_record(sizes, k=options.k)
        return Loaded(queries.X, queries.Y, options.latent_svm(task), sizes, record, shown=queries)

    def fits(self, model: Trained) -> bool:
        task, record = model.estimator.task_, model.record
        same_k = type(task).__name__ == "PairwiseRanking" or record.k == task.k
        return record.n_features == task.n_inputs_ and same_k and record.k > 0

    def read(self, model: Trained, held_out: HeldOut) -> "io.Queries":
        return io.read_queries(held_out.data or "", n_features=model.record.n_features)

    def find(self, model: Trained, data: "io.Queries") -> Any:
        return model.estimator.decision_function(data.X)

    def compare(self, model: Trained, data: "io.Queries", found: Any) -> dict[str, Any]:
        k = model.record.k
        scores = asdict(metrics.ranking_scores(data.Y, found, sorted({*CUTS, k})))
        return {"n_examples": scores.pop("n_queries"), "k": k, **scores}

    def predict(self, model: Trained, data: str, output: str) -> None:
        queries = self.read(model, HeldOut(data))
        scores = self.find(model, queries)
        if extension(output) != ".tsv":
            io.write_scores(output, scores)
            return
        lines = ["query\tdocument\tscore\n"]
        for query, documents, one in zip(queries.ids, queries.documents, scores, strict=True):
            shown = map(name_document, documents)
            lines += [f"{query}\t{name}\t{score!r}\n" for name, score in zip(shown, one.tolist(), strict=True)]
        write_text(output, "".join(lines))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        rows = [(str(k), f"{scores['precision'][k]:.4f}", f"{scores['ndcg'][k]:.4f}") for k in scores["precision"]]
        print_table("", ("k", "P@k", "NDCG@k"), rows, n_text=0)

    def show_figure(self, value: float) -> str:
        return f"{value:.4f}"

    def figures(self, scores: dict[str, Any]) -> dict[str, float]:
        k = scores["k"]
        return {f"P@{k}": scores["precision"][k], f"NDCG@{k}": scores["ndcg"][k]}

    def main_score(self, scores: dict[str, Any]) -> float:
        return float(scores["precision"][scores["k"]])

    def weight_names(self, model: Trained) -> Sequence[str]:
        return [f"feature {j}" for j in range(1, model.record.n_features + 1)]


def check_lists(queries: "io.Queries", options: RankOptions, progress: Progress) -> None:
    """Raise if no query has more than k documents, as there is then nothing to rank."""
    lengths, k = [len(y) for y in queries.Y], options.k
    longest, n_short = max(lengths), sum(length <= k for length in lengths)
    if longest <= k:
        raise InputError("k", k, f"less than {longest}, the largest number of documents per query in {options.data}")
    if n_short:
        progress.say(f"{n_short} of {len(lengths)} queries have at most {k} documents and do not contribute")


def name_document(comment: str) -> str:
    """Return the name of a document in the comment after its features, or else the comment."""
    named = DOCUMENT_NAME.search(comment)
    return named[1] if named is not None else " ".join(comment.split())


KIND = RankKind()
