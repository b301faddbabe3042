"""Models that label sequences: one token a line, its label in one column."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentstruct.cli.chain_columns import ChainRecord
from latentstruct.cli.chain_files import (
    ChainReading,
    LabelledChains,
    read_as_prepared,
    read_labelled_chains,
    restore_features,
)
from latentstruct.cli.chain_options import (
    AffixesOption,
    BigramsOption,
    ColumnsOption,
    LabelColumnOption,
    MinCountOption,
    ShapeOption,
    UnknownMarkOption,
    WindowOption,
)
from latentstruct.cli.common import reported_errors
from latentstruct.cli.description import show_weights, strongest_transitions, strongest_weights
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    Choices,
    COption,
    JsonOption,
    Model,
    ModelOption,
    OutputOption,
    QuietOption,
    ReportOption,
    Rescaling,
    RescalingOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    SolverName,
    SolverOption,
    TolOption,
    UnknownOption,
    ValidOption,
)
from latentstruct.cli.prepared import PreparedTraining, is_prepared, open_for
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table, show_percent

if TYPE_CHECKING:
    from latentstruct.formats import ColumnSentences
    from latentstruct.report.blocks import Block, Examples

CONFUSIONS_SHOWN = 10


@reported_errors()
def train_chain(
    train: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Tokens in columns, or a folder of prepared ones; - is standard input."),
    ],
    output: OutputOption = Path("model"),
    model: ModelOption = Model.crf,
    C: COption = None,
    solver: SolverOption = SolverName.auto,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    rescaling: RescalingOption = Rescaling.margin,
    window: WindowOption = 2,
    affixes: AffixesOption = 3,
    shape: ShapeOption = True,
    bigrams: BigramsOption = True,
    min_count: MinCountOption = 1,
    label_column: LabelColumnOption = -1,
    columns: ColumnsOption = None,
    unknown: UnknownMarkOption = None,
    labelled_only: Annotated[
        bool,
        typer.Option("--labelled-only", help="Leave unknown tokens out of training, to see whether they help."),
    ] = False,
    valid: ValidOption = None,
    allow_unknown: UnknownOption = False,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on sentences: one token a line, its label in one column, a blank line after each sentence.

    The default is a CRF, as its chunks were the best: F1 93.8 on CoNLL-2000, against 93.5 of the others.

    Half-labelled text: --unknown '?' takes tokens labelled ? for unknown ones and sums over what they may be. The CRF
    then is a hidden CRF, the SVM a marginal one. Whether that helps is seen by training once more with --labelled-only:
    compare what the two find for --valid.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train chain train.txt --unknown '?' --valid test.txt -o tagger
    """
    from latentstruct.tasks import Chain

    choices = Choices(output, model, C, solver, tol, max_rounds, max_seconds, rescaling, seed)
    choices.check(train, valid)
    if labelled_only and unknown is None:
        raise InputError(
            "--labelled-only is given without --unknown; expected both: add --unknown MARK, or leave it out"
        )
    progress = Progress(quiet)
    reading = ChainReading(window, affixes, shape, bigrams, min_count, columns, label_column, unknown)
    if is_prepared(train):
        reading.refuse_for(train)
        folder = PreparedTraining(
            ChainKind(), choices, score_as_prepared, read_as_prepared, valid, allow_unknown, report
        )
        folder.run(train, lambda prepared: prepared.data.task, progress, json)
        return
    data = reading.read(train, progress, keep_words=report is not None)
    X, Y = data.examples(labelled_only, train)

    def record(_: Any, seconds: float) -> ChainRecord:
        return data.record(len(X), seconds)

    held_out = None
    if valid is not None:
        held_out = read_labelled_chains(valid, record(None, 0.0), data.template, data.known, allow_unknown)
    shown = data.sentences if held_out is None else held_out
    latent = data.unknown is not None and not labelled_only
    estimator = choices.estimator(Chain(), len(X), latent)
    training = Training(ChainKind(), output, estimator, X, Y, data.sizes(Y, latent), record)
    if held_out is not None:
        training.score = lambda trained: score_chains(trained, held_out, data.unknown)
    training.report = report
    training.examples = lambda trained: ChainKind().examples(trained, shown, source_of(valid, train))
    training.run(progress, json)


def score_as_prepared(estimator: Any, data: LabelledChains, record: ChainRecord) -> dict[str, Any]:
    """Return the quality of predictions of a model that was trained on prepared data."""
    return score_chains(estimator, data, record.unknown)


def are_chunk_tags(labels: Sequence[Any]) -> bool:
    """Tell whether labels look like BIO tags: O, or a position and a type, at least one of the latter."""
    typed = [str(label) for label in labels if label != "O"]
    return bool(typed) and all(len(tag) > 2 and tag[0] in "BIES" and tag[1] == "-" for tag in typed)


def score_chains(estimator: Any, data: LabelledChains, unknown: str | None = None) -> dict[str, Any]:
    """Return the quality of a chain model's predictions, on tokens whose label is known."""
    return compare_chains(estimator, data.Y, [labels.tolist() for labels in estimator.predict(data.X)], unknown)


def score_stored(model: Trained, folder: str) -> dict[str, Any]:
    """Return the quality of predictions for prepared sentences."""
    from latentstruct.unknown import UNKNOWN

    data = open_for(model, folder)
    truth = [labels for batch in data.batches for labels in data.task.true_outputs(batch)]
    guessed = [labels.tolist() for labels in model.estimator.predict(data)]
    return compare_chains(model.estimator, truth, guessed, UNKNOWN if data.task.latent else None)


def compare_chains(
    estimator: Any, Y: list[list[str]], guessed: list[list[str]], unknown: str | int | None = None
) -> dict[str, Any]:
    """Return the quality of predictions, on tokens whose label is known."""
    from latentstruct.metrics import chunk_scores

    pairs = [
        [(a, b) for a, b in zip(truth, guess, strict=True) if a != unknown]
        for truth, guess in zip(Y, guessed, strict=True)
    ]
    n_tokens = sum(map(len, pairs))
    if n_tokens == 0:
        raise InputError(f"all labels are {unknown!r}, which stands for unknown ones: give data with some known labels")
    right = sum(a == b for sentence in pairs for a, b in sentence)
    judged = [sentence for sentence in pairs if sentence]
    result: dict[str, Any] = {
        "n_examples": len(Y),
        "n_tokens": n_tokens,
        "n_unlabelled": sum(map(len, Y)) - n_tokens,
        "accuracy": right / n_tokens,
        "example_accuracy": sum(all(a == b for a, b in sentence) for sentence in judged) / len(judged),
    }
    result["confusions"] = list_confusions(pair for sentence in pairs for pair in sentence)
    # A chunk with an unknown label may begin or end anywhere.
    if are_chunk_tags(estimator.task_.labels_.labels) and not result["n_unlabelled"]:
        scores = asdict(chunk_scores(Y, guessed))
        result["chunks"] = {key: scores[key] for key in scores if key not in ("accuracy", "n_tokens")}
    return result


def list_confusions(pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return which labels are taken for which others, the most frequent first, of pairs (true, predicted)."""
    counts = Counter(pairs)
    n_true: Counter[str] = Counter()
    for (truth, _), n in counts.items():
        n_true[truth] += n
    return [
        {"label": truth, "taken_for": guess, "n": n, "share": n / n_true[truth]}
        for (truth, guess), n in counts.most_common()
        if truth != guess
    ]


class ChainKind(Kind):
    """Sequences of labels."""

    name = "chain"
    summary = "Label the tokens of sentences: names, chunks, parts of speech."
    latent = "the labels of tokens that are marked as unknown, with --unknown"
    reads = (
        "CoNLL columns: a token and its label on a line, other columns between them if there are some, a blank "
        "line after each sentence."
    )
    example_file = "chain.txt"
    misses_labels = True
    record = ChainRecord
    train = staticmethod(train_chain)
    judged_on = frozenset({"data", "allow_unknown"})

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks import Chain

        record = model.record
        others = set(range(record.n_columns)) - {record.label_column}
        return isinstance(model.estimator.task_, Chain) and bool(record.columns) and others >= set(record.columns)

    predict_flags = frozenset({"confidence"})

    def predict(self, model: Trained, data: str, output: str, confidence: bool = False) -> None:
        """Write the columns of the file and one more with the predicted labels."""
        from latentstruct.formats import write_conll

        if confidence:
            self.predict_with_confidence(model, data, output)
            return
        sentences, X = self._read_to_predict(model, data)
        write_conll(output, sentences, [labels.tolist() for labels in model.estimator.predict(X)])
        sys.stdout.flush()

    def predict_with_confidence(self, model: Trained, data: str, output: str) -> None:
        """Write a further column that tells how probable the predicted labels are."""
        from latentstruct.cli.reports.features import has_probabilities
        from latentstruct.formats import write_conll

        if not has_probabilities(model.estimator):
            raise InputError(
                f"{model.path} is a {type(model.estimator).__name__}, which has no probabilities; expected a CRF for "
                "--confidence: leave it out, or train with --model crf"
            )
        sentences, X = self._read_to_predict(model, data)
        predicted = model.estimator.predict(X)
        labelled = [
            [(*token, label) for token, label in zip(tokens, labels.tolist(), strict=True)]
            for tokens, labels in zip(sentences, predicted, strict=True)
        ]
        sure = [[f"{value:.4f}" for value in values] for values in model.estimator.confidence(X)]
        write_conll(output, labelled, sure)
        sys.stdout.flush()

    def _read_to_predict(self, model: Trained, data: str) -> tuple["ColumnSentences", Any]:
        """Return the sentences of a file with or without labels, and their features."""
        from latentstruct.formats import read_conll

        if is_prepared(data):
            raise InputError(
                f"{data} is a folder of prepared data, which has no words to write labels beside; expected a file of "
                "tokens: predict from the plain file, or count right labels with latentstruct evaluate"
            )
        record: ChainRecord = model.record
        # Without its labels a file has other columns at their place, unless that is the last.
        sentences = read_conll(data, blank=record.blank if record.label_column == record.n_columns - 1 else None)
        return sentences, restore_features(model).transform(record.used_columns(sentences, data))

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return accuracies and, of BIO tags, the scores of the chunks."""
        if held_out.data is not None and is_prepared(held_out.data):
            return score_stored(model, held_out.data)
        return score_chains(model.estimator, self.read_held_out(model, held_out), model.record.unknown)

    def read_held_out(self, model: Trained, held_out: HeldOut) -> LabelledChains:
        """Return labelled sentences."""
        known = set(model.estimator.task_.labels_.labels)
        template, name = restore_features(model), held_out.data or ""
        return read_labelled_chains(name, model.record, template, known, held_out.allow_unknown)

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the transitions and what speaks for each label."""
        from latentstruct.cli.reports.chain import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: LabelledChains, source: str) -> "Examples":
        """Return predictions for sentences."""
        from latentstruct.cli.reports.chain import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print accuracies and a table of chunks."""
        print_facts(
            [
                ("sentences", f"{scores['n_examples']}, {show_percent(scores['example_accuracy'])} wholly right"),
                ("tokens", f"{scores['n_tokens']}, {show_percent(scores['accuracy'])} right"),
                *([("without label", f"{n_more} tokens, not counted")] if (n_more := scores["n_unlabelled"]) else []),
            ]
        )
        if "chunks" in scores:
            self._show_chunks(scores["chunks"])
        confusions = [
            [one["label"], one["taken_for"], str(one["n"]), show_percent(one["share"])] for one in scores["confusions"]
        ]
        if confusions:
            shown = f"the first {CONFUSIONS_SHOWN} of {len(confusions)}" if len(confusions) > CONFUSIONS_SHOWN else ""
            title = "labels that are taken for others" + (f", {shown}" if shown else "")
            columns = ("truth", "taken for", "times", "of the truth")
            print_table(title, columns, confusions[:CONFUSIONS_SHOWN], n_text=2)

    def _show_chunks(self, chunks: dict[str, Any]) -> None:
        rows = []
        for kind, score in [("all", chunks), *chunks["by_type"].items()]:
            ratios = [show_percent(score[key]) for key in ("precision", "recall", "f1")]
            rows.append([kind, *ratios, str(score["n_true"]), str(score["n_predicted"])])
        print_table("chunks", ("type", "precision", "recall", "F1", "true", "predicted"), rows)

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return the accuracy and the F1 of chunks."""
        facts = [("accuracy", show_percent(scores["accuracy"]))]
        if "chunks" in scores:
            facts.append(("chunk F1", show_percent(scores["chunks"]["f1"])))
        return facts

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return the F1 of chunks, or the accuracy if labels are no BIO tags."""
        value: float = scores["chunks"]["f1"] if "chunks" in scores else scores["accuracy"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return the strongest weights."""
        names = list(restore_features(model).vocabulary_)
        return {
            "transitions": strongest_transitions(model.estimator, top),
            "weights": strongest_weights(model.estimator, names.__getitem__, top),
        }

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest weights."""
        show_weights(result)
