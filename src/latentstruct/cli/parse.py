"""Models that parse sentences: trees in, trees out."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from latentstruct.cli.common import reported_errors, say_warnings
from latentstruct.cli.description import largest
from latentstruct.cli.old_kinds import Facts, HeldOut, Kind, Trained
from latentstruct.cli.old_options import (
    JsonOption,
    LatentChoices,
    OutputOption,
    QuietOption,
    ReportOption,
    RestartsOption,
    RoundsOption,
    SecondsOption,
    SeedOption,
    TolOption,
    ValidOption,
)
from latentstruct.cli.training import Training, source_of
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, print_facts, print_table, say, show_percent, told_warnings

if TYPE_CHECKING:
    from latentstruct.formats.brackets import Token
    from latentstruct.formats.text import FilePath
    from latentstruct.report.blocks import Block, Examples
    from latentstruct.trees import Tree

TREE_FILES = (".mrg", ".ptb", ".tbf", ".trees")
"""Files that `predict` takes for trees, whose words are to be parsed anew."""
LABELS_SHOWN = 15
USUAL_SPLITS = 2


class ParseModel(StrEnum):
    """What to train."""

    svm = "svm"
    crf = "crf"
    latent = "latent"
    hidden_crf = "hidden-crf"

    @property
    def estimator(self) -> str:
        """Return the name of the estimator's class."""
        names = {"svm": "StructuralSVM", "crf": "CRF", "latent": "LatentSSVM", "hidden-crf": "HiddenCRF"}
        return names[self.value]

    @property
    def splits_labels(self) -> bool:
        """Tell whether labels have hidden variants."""
        return self in (ParseModel.latent, ParseModel.hidden_crf)

    @property
    def has_loss(self) -> bool:
        """Tell whether training looks at a loss."""
        return self in (ParseModel.svm, ParseModel.latent)


class ParseFeatures(StrEnum):
    """What the weights belong to."""

    rules = "rules"
    spans = "spans"


class ParseLoss(StrEnum):
    """What is wrong with a tree."""

    hamming = "hamming"
    f1 = "f1"


class Encoding(StrEnum):
    """How letters are stored."""

    utf8 = "utf-8"
    latin1 = "latin-1"


@dataclass(frozen=True)
class ParseRecord:
    """What the command keeps beside a parser: how its files are read and judged."""

    tagged: bool
    encoding: Literal["utf-8", "latin-1"]
    lemmas: bool
    punctuation: list[str]
    n_words: int
    n_examples: int
    seconds: float
    plain_labels: bool = False
    kind: Literal["parse"] = "parse"

    def read_trees(self, name: "FilePath") -> "list[Tree]":
        """Read trees of a file."""
        from latentstruct.formats.brackets import read_trees

        return read_trees(name, self.encoding, self.lemmas, plain_labels=self.plain_labels)

    def sentences(self, trees: "Sequence[Tree]") -> "list[list[Token]]":
        """Return the words of trees, with their tags if the parser is given these."""
        from latentstruct.trees import tagged_words, words

        return [list(tagged_words(tree) if self.tagged else words(tree)) for tree in trees]

    def read_sentences(self, name: str) -> "list[list[Token]]":
        """Read sentences, or the words of trees, from a file; standard input may be of either form."""
        from latentstruct.formats.brackets import keep_sentences, read_sentences
        from latentstruct.formats.text import extension

        source = keep_sentences(name, TREE_FILES[0])
        if extension(source) in TREE_FILES:
            return self.sentences(self.read_trees(source))
        return read_sentences(source, self.tagged, self.encoding, self.plain_labels)


TrainArgument = Annotated[str, typer.Argument(metavar="DATA", help="Trees in brackets; - is standard input.")]
ParseModelOption = Annotated[
    ParseModel,
    typer.Option("--model", metavar="NAME", help="svm, crf; latent, hidden-crf: labels with hidden variants."),
]
FeaturesOption = Annotated[
    ParseFeatures, typer.Option(metavar="NAME", help="rules: of the grammar; spans: and of the words at their ends.")
]
LossOption = Annotated[
    ParseLoss, typer.Option(metavar="NAME", help="hamming: wrong and missing constituents; f1: 1 − F1 of these.")
]
SplitsOption = Annotated[
    int | None, typer.Option(min=2, show_default="2", help="Hidden variants of a label, of latent and hidden-crf.")
]
MarkovOption = Annotated[
    int, typer.Option(min=0, help="Sisters to the left that a rule with more than two children remembers.")
]
TagsOption = Annotated[
    bool, typer.Option("--tags", help="Tags are given, also later: sentences to parse come as word/TAG.")
]
LengthOption = Annotated[
    int | None, typer.Option(min=1, show_default="no limit", help="Leave out longer sentences of DATA.")
]
PunctuationOption = Annotated[
    list[str] | None, typer.Option(metavar="TAG", help="Tag of words that scores leave out; repeatable.")
]
EncodingOption = Annotated[Encoding, typer.Option(help="Encoding of the files.")]
LemmasOption = Annotated[bool, typer.Option("--lemmas", help="A lemma follows each word, as in (NNS dogs dog).")]
PlainOption = Annotated[
    bool, typer.Option("--plain-labels", help="Drop functions, also later: NP-SBJ and NP=2 are NP.")
]


@reported_errors()
def train_parse(
    data: TrainArgument,
    output: OutputOption = Path("model"),
    model: ParseModelOption = ParseModel.svm,
    features: FeaturesOption = ParseFeatures.rules,
    loss: LossOption = ParseLoss.hamming,
    splits: SplitsOption = None,
    markov: MarkovOption = 1,
    tags: TagsOption = False,
    max_length: LengthOption = None,
    punctuation: PunctuationOption = None,
    encoding: EncodingOption = Encoding.utf8,
    lemmas: LemmasOption = False,
    plain_labels: PlainOption = False,
    C: Annotated[float, typer.Option("-C", metavar="NUMBER", help="Weight of each sentence against ½‖w‖².")] = 1.0,
    restarts: RestartsOption = 1,
    tol: TolOption = None,
    max_rounds: RoundsOption = None,
    max_seconds: SecondsOption = None,
    valid: ValidOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Train on trees in brackets, such as (S (NP (DT the) (NN dog)) (VP (VB barks))), one a line or over several.

    Empty elements (-NONE-) are left out.

    Ctrl-C saves the best weights so far.

    Example: latentstruct train parse train.mrg --tags --max-length 25 --valid test.mrg -o parser
    """
    from latentstruct.tasks.parsing import Parsing

    limits = LatentChoices(output, C, tol, max_rounds, max_seconds, seed, restarts)
    limits.check(data, valid)
    check_choices(model, loss, splits, restarts)
    n_splits = splits or (USUAL_SPLITS if model.splits_labels else 1)
    task = Parsing(features=features.value, loss=loss.value, splits=n_splits, markov=markov)
    reading = ParseRecord(tags, encoding.value, lemmas, punctuation or [], 0, 0, 0.0, plain_labels)
    progress = Progress(quiet, n_starts=restarts if model.splits_labels else 0)
    trees = shorter(reading.read_trees(data), max_length, data, progress)
    X = reading.sentences(trees)
    n_words = sum(map(len, X))

    def record(_: Any, seconds: float) -> ParseRecord:
        return replace(reading, n_words=n_words, n_examples=len(X), seconds=seconds)

    score, shown = None, trees
    if valid is not None:
        shown = reading.read_trees(valid)

        def score(estimator: Any) -> dict[str, Any]:
            return score_parser(estimator, shown, reading)

    def examples(trained: Trained) -> "Examples":
        return ParseKind().examples(trained, shown, source_of(valid, data))

    sizes = {"n_examples": len(X), "n_words": n_words}
    estimator = untrained(model, task, limits)
    training = Training(ParseKind(), output, estimator, X, trees, sizes, record, score)
    training.report, training.examples = report, examples
    training.run(progress, json)


def check_choices(model: ParseModel, loss: ParseLoss, splits: int | None, restarts: int) -> None:
    """Raise before anything is read if the options do not fit together."""
    if loss is ParseLoss.f1 and not model.has_loss:
        raise InputError(f"--loss is f1, but --model {model.value} has no loss; expected svm or latent: leave it out")
    if splits is not None and not model.splits_labels:
        raise InputError(
            f"--splits is {splits}, but --model {model.value} has no variants; expected latent or hidden-crf: leave it "
            "out"
        )
    if restarts > 1 and not model.splits_labels:
        raise InputError(
            f"--restarts is {restarts}, but all starts of --model {model.value} end alike; expected 1: leave it out"
        )


def shorter(trees: "list[Tree]", limit: int | None, name: str, progress: Progress) -> "list[Tree]":
    """Return the trees with few enough words."""
    from latentstruct.trees import words

    kept = [tree for tree in trees if limit is None or len(words(tree)) <= limit]
    if not kept:
        shortest = min(len(words(tree)) for tree in trees)
        raise InputError(
            f"--max-length is {limit}, but the shortest sentence of {name} has {shortest} words: choose a larger one"
        )
    left_out = f", {len(trees) - len(kept)} longer ones are left out" if len(kept) < len(trees) else ""
    progress.say(f"read {len(kept)} trees from {name}{left_out}")
    return kept


def untrained(model: ParseModel, task: Any, limits: LatentChoices) -> Any:
    """Return the estimator."""
    from latentstruct import estimators

    options: dict[str, Any] = {"C": limits.C, "tol": limits.tol}
    options |= {"max_rounds": limits.max_rounds, "max_seconds": limits.max_seconds}
    if model.splits_labels:
        options |= {"restarts": limits.restarts, "random_state": limits.seed}
    return getattr(estimators, model.estimator)(task, **options)


def parse(estimator: Any, sentences: "list[list[Token]]") -> "list[Tree]":
    """Return the predicted trees; what the library warns of, long sentences for instance, is told before."""
    with told_warnings(lambda text: say_warnings([text])):
        return estimator.predict(sentences)


def score_parser(estimator: Any, trees: "list[Tree]", record: ParseRecord) -> dict[str, Any]:
    """Return the quality of a model's trees."""
    return compare_trees(trees, parse(estimator, record.sentences(trees)), record)


def compare_trees(trees: "list[Tree]", predicted: "list[Tree]", record: ParseRecord) -> dict[str, Any]:
    """Return the scores of EVALB."""
    from latentstruct.metrics.parses import parse_scores

    scores = asdict(parse_scores(trees, predicted, ignored_tags=record.punctuation))
    return {"n_examples": scores.pop("n_sentences"), **scores}


def name_weight(task: Any, k: int) -> str:
    """Return what weight k of a trained parser belongs to.

    a#1 is the hidden variant 1 of a label a; a tag that is spelled like a label of constituents is told from it.
    """
    from latentstruct.tasks.grammar import TAG

    grammar, layout, splits = task.grammar_, task.layout_, task.splits
    phrases = set(grammar.labels)

    def shown(symbols: Sequence[int], variants: int) -> list[str]:
        named = [grammar.symbols[symbol] for symbol in symbols]
        labels = [f"tag {label}" if kind == TAG and label in phrases else label for kind, label in named]
        powers = [splits**place for place in range(len(labels) - 1, -1, -1)]
        numbers = [variants // power % splits for power in powers]
        return [f"{one}#{number}" if splits > 1 else one for one, number in zip(labels, numbers, strict=True)]

    if k >= layout.end:
        attribute, label = task.spans_.pairs[k - layout.end]
        return f"{grammar.labels[label]}, {show_attribute(task.spans_.attributes[attribute])}"
    if k >= layout.root:
        number, variants = divmod(k - layout.root, splits)
        return f"root → {shown([grammar.roots[number]], variants)[0]}"
    if k >= layout.lexical:
        number, variants = divmod(k - layout.lexical, splits)
        key, tag = grammar.lexicon.entries[number]
        return f"{shown([grammar.tag_number(tag)], variants)[0]} → {show_key(key)}"
    rules, at, size = (grammar.unary, layout.unary, 2) if k >= layout.unary else (grammar.binary, 0, 3)
    number, variants = divmod(k - at, splits**size)
    parent, *children = shown(rules[number], variants)
    return f"{parent} → {' '.join(f'({child})' if ' ' in child else child for child in children)}"


def show_key(key: str) -> str:
    """Return a key of the lexicon for people: a word in quotes, or what rare words have in common."""
    from latentstruct.tasks.grammar import KNOWN

    if key.startswith(KNOWN):
        return f"“{key.removeprefix(KNOWN)}”"
    return f"rare words {key[1:]}".rstrip()


def show_attribute(attribute: str) -> str:
    """Return what weights of spans look at, for people."""
    from latentstruct.tasks.span_features import LENGTH_CLASSES, OUTSIDE

    name, _, value = attribute.partition("=")
    if name == "length":
        longest = int(value) < len(LENGTH_CLASSES)
        return f"up to {LENGTH_CLASSES[int(value)]} words" if longest else f"more than {LENGTH_CLASSES[-1]} words"
    if value == OUTSIDE:
        return f"{name}: edge of the sentence"
    return f"{name}: {value if 'tag' in name else show_key(value)}"


class ParseKind(Kind):
    """Trees of sentences."""

    name = "parse"
    summary = "Parse sentences into trees."
    latent = "with --model latent or hidden-crf, variants of the labels"
    reads = "Trees in brackets, such as (S (NP (DT the) (NN dog)) (VP (VB barks)))."
    example_file = "parse.mrg"
    prediction_file = "predicted.mrg"
    record = ParseRecord
    train = staticmethod(train_parse)
    evaluation_hint = "give one file of trees, as latentstruct evaluate MODEL DATA"

    def fits(self, model: Trained) -> bool:
        """Tell whether estimator and record belong together."""
        from latentstruct.tasks.parsing import Parsing

        return isinstance(model.estimator.task_, Parsing)

    def predict(self, model: Trained, data: str, output: str) -> None:
        """Write one tree a line for sentences, one a line, or for the words of trees if the file's name tells these."""
        from latentstruct.formats.brackets import write_trees

        write_trees(output, parse(model.estimator, model.record.read_sentences(data)))
        sys.stdout.flush()

    def evaluate(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        """Return the scores of EVALB."""
        return score_parser(model.estimator, self.read_held_out(model, held_out), model.record)

    def read_held_out(self, model: Trained, held_out: HeldOut) -> "list[Tree]":
        """Return true trees."""
        return model.record.read_trees(held_out.data or "")

    def weight_blocks(self, model: Trained) -> "list[Block]":
        """Return the strongest rules, words and features of spans."""
        from latentstruct.cli.reports.parse import weight_blocks

        return weight_blocks(model)

    def examples(self, model: Trained, data: "list[Tree]", source: str) -> "Examples":
        """Return trees of sentences."""
        from latentstruct.cli.reports.parse import examples

        return examples(model, data, source)

    def show_scores(self, scores: dict[str, Any]) -> None:
        """Print the scores and a table of the most frequent labels."""
        few = (
            f"{show_percent(scores['no_crossing'])} with none, {show_percent(scores['few_crossing'])} with two at most"
        )
        print_facts(
            [
                ("sentences", f"{scores['n_examples']}, {show_percent(scores['complete_match'])} wholly right"),
                ("words", f"{scores['n_words']}, {show_percent(scores['tag_accuracy'])} with the right tag"),
                ("crossing", f"{scores['crossing']:.2f} constituents a sentence; {few}"),
                ("mean F1 of sentences", show_percent(scores["sentence_f1"])),
            ]
        )
        by_label = sorted(scores["by_label"].items(), key=lambda item: -item[1]["n_true"])[:LABELS_SHOWN]
        rows = []
        for label, one in [("all", scores), ("all, unlabelled", scores["unlabelled"]), *by_label]:
            ratios = [show_percent(one[key]) for key in ("precision", "recall", "f1")]
            rows.append([label, *ratios, str(one["n_true"]), str(one["n_predicted"])])
        print_table("constituents", ("label", "precision", "recall", "F1", "true", "predicted"), rows)
        if len(scores["by_label"]) > LABELS_SHOWN:
            say(f"{len(scores['by_label']) - LABELS_SHOWN} rarer labels are not shown; --json tells all")

    def summarize(self, scores: dict[str, Any]) -> Facts:
        """Return labelled F1 and complete matches."""
        return [("F1", show_percent(scores["f1"])), ("wholly right", show_percent(scores["complete_match"]))]

    def main_score(self, scores: dict[str, Any]) -> float:
        """Return labeled F1."""
        value: float = scores["f1"]
        return value

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        """Return how sentences come, and the strongest rules."""
        task, weights = model.estimator.task_, model.estimator.coef_
        strongest = [{"rule": name_weight(task, k), "weight": float(weights[k])} for k in largest(weights, top)]
        kept = {name: getattr(model.record, name) for name in ("tagged", "plain_labels", "n_words")}
        return {**kept, "weights": strongest}

    def facts(self, result: dict[str, Any]) -> Facts:
        """Return how sentences come, and whether labels are shortened."""
        if "tagged" not in result:
            return []
        facts: Facts = [("sentences", "words with tags, as word/TAG" if result["tagged"] else "words")]
        return [*facts, ("labels", "without functions: NP-SBJ is NP")] if result["plain_labels"] else facts

    def show_details(self, result: dict[str, Any]) -> None:
        """Print the strongest rules."""
        rows = [(one["rule"], f"{one['weight']:+.4f}") for one in result["weights"]]
        print_table("strongest rules", ("rule", "weight"), rows)
