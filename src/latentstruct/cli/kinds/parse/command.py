"""Models that parse sentences into trees."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from latentstruct import metrics, tasks
from latentstruct.cli.answers import F1, RISK, several
from latentstruct.cli.common import say_warnings
from latentstruct.cli.declaring import argument, option, restarts_option, weight_option
from latentstruct.cli.description import strongest
from latentstruct.cli.kind import KindSpec, Loaded, Record, Settings, Trained, print_ratios
from latentstruct.cli.lazy import brackets, trees_of
from latentstruct.cli.options import HeldOut, TrainOptions
from latentstruct.cli.parameters import AUTO
from latentstruct.core.parameters import clone
from latentstruct.exceptions import InputError
from latentstruct.io.text import FilePath, extension, write_text
from latentstruct.progress.display import Progress, printed_warnings, say

if TYPE_CHECKING:
    from latentstruct.io.brackets import Token

TREE_FILES = (".mrg", ".ptb", ".tbf", ".trees")
"""Extensions of files that `predict` reads as trees."""
LABELS_SHOWN = 15
USUAL_SPLITS, COMPARED_SPLITS = 2, (2, 3, 4)

SPLITTING = ("latent", "hidden-crf")
"""Models whose labels have hidden variants."""
WITHOUT_SPLITS = {"latent": "StructuralSVM", "hidden-crf": "CRF"}
ESTIMATORS = {"svm": "StructuralSVM", "crf": "CRF", "latent": "LatentSSVM", "hidden-crf": "HiddenCRF"}


@dataclass(frozen=True, kw_only=True)
class ParseOptions(TrainOptions):
    """Train on trees in brackets, such as (S (NP (DT the) (NN dog)) (VP (VB barks))), on one line or several.

    Empty elements (-NONE-) are left out.

    Example: latentstruct train parse train.mrg --tags --max-length 25 --valid test.mrg -o parser
    """

    only_for = (("loss", ("svm", "latent")), ("splits", SPLITTING), ("restarts", SPLITTING))

    data: str = argument("Trees in brackets; - is standard input.")
    model: Literal["svm", "crf", "latent", "hidden-crf"] = option(
        "svm", "svm, crf; latent, hidden-crf: labels with hidden variants.", metavar="NAME"
    )
    features: Literal["rules", "spans"] = option(
        "rules", "rules: of the grammar; spans: also of the words at their ends.", metavar="NAME"
    )
    loss: Literal["hamming", "f1"] = option(
        "hamming", "hamming: wrong and missing constituents; f1: 1 − F1 of these.", metavar="NAME"
    )
    splits: int | None = option(
        None,
        f"Hidden variants of a label, of latent and hidden-crf; {AUTO} chooses from 2 to 4 by folds, beside 1.",
        min=2,
        shown="2",
        auto=int,
    )
    markov: int = option(1, "Number of left siblings that a rule with more than two children remembers.", min=0)
    tags: bool = option(False, "Tags are given, for prediction too: sentences are word/TAG.")
    max_length: int | None = option(None, "Leave out longer sentences of DATA.", min=1, shown="no limit")
    punctuation: list[str] | None = option(None, "Tag of words that scores ignore; repeatable.", metavar="TAG")
    encoding: Literal["utf-8", "latin-1"] = option("utf-8", "Encoding of the files.")
    lemmas: bool = option(False, "A lemma follows each word, as in (NNS dogs dog).")
    plain_labels: bool = option(False, "Drop functions, for prediction too: NP-SBJ and NP=2 are NP.")
    C: float = weight_option(1.0, "sentence")
    restarts: int = restarts_option(1)

    @property
    def chooses(self) -> bool:
        """Whether anything is chosen by folds."""
        return super().chooses or str(self.splits) == AUTO


@dataclass(frozen=True, kw_only=True)
class ParseRecord(Record):
    """The record of a parser: how its files are read and evaluated."""

    tagged: bool
    encoding: Literal["utf-8", "latin-1"]
    lemmas: bool
    punctuation: list[str]
    n_words: int
    plain_labels: bool = False

    def sentences(self, trees: "Sequence[trees_of.Tree]") -> "list[list[Token]]":
        """Return the words of trees, with their tags if these are given."""
        return [list(trees_of.tagged_words(tree) if self.tagged else trees_of.words(tree)) for tree in trees]


class ParseKind(KindSpec):
    """Trees of sentences."""

    name = "parse"
    summary = "Parse sentences into trees."
    latent = "with --model latent or hidden-crf, variants of the labels"
    reads = "Trees in brackets, such as (S (NP (DT the) (NN dog)) (VP (VB barks)))."
    example_file = "parse.mrg"
    prediction_file = "predicted.mrg"
    predicts = (
        "Parses: one tree per line; DATA has one sentence per line (word/TAG if trained with --tags), or trees if its "
        "name ends in .mrg, .ptb, .tbf or .trees. With --topk K and --samples N, lines have tabs between the number of "
        "the sentence, rank, probability (not of samples), and tree."
    )
    judged_by = "Parses: EVALB's scores."
    options = ParseOptions
    record = ParseRecord
    tasks = ("Parsing",)
    answers = frozenset({"topk", "samples", "decode", RISK, F1})
    score_facts = (
        ("sentences", "{n_examples}, {complete_match:%} fully correct"),
        ("words", "{n_words}, {tag_accuracy:%} with the correct tag"),
        (
            "crossing",
            "{crossing:.2f} constituents per sentence; {no_crossing:%} with none, {few_crossing:%} with at most two",
        ),
        ("mean F1 of sentences", "{sentence_f1:%}"),
    )
    headline = (("F1", "f1"), ("fully correct", "complete_match"))
    main = ("f1",)
    tables = (("weights", "strongest rules", ("rule", "weight")),)
    described = ("record.tagged", "record.plain_labels", "record.n_words")
    info_facts = (
        ("sentences", "{tagged:words with tags, as word/TAG|words}"),
        ("labels", "{plain_labels:without functions, so that NP-SBJ is NP|as in the training data}"),
    )

    def load(self, options: ParseOptions, progress: Progress) -> Loaded:
        auto = str(options.splits) == AUTO
        splits = USUAL_SPLITS if auto else options.splits or (USUAL_SPLITS if options.model in SPLITTING else 1)
        task = tasks.Parsing(features=options.features, loss=options.loss, splits=splits, markov=options.markov)
        trees = shorter(read_trees(options.data, options), options, progress)
        more = {"restarts": options.restarts, "random_state": options.seed} if options.model in SPLITTING else {}
        record = ParseRecord(
            tagged=options.tags,
            encoding=options.encoding,
            lemmas=options.lemmas,
            punctuation=options.punctuation or [],
            plain_labels=options.plain_labels,
            n_words=sum(len(trees_of.words(tree)) for tree in trees),
            n_examples=len(trees),
        )
        sizes = {"n_examples": record.n_examples, "n_words": record.n_words}
        estimator = options.build(ESTIMATORS[options.model], task, **more)
        settings = None
        if auto:
            plain = options.build(WITHOUT_SPLITS[options.model], clone(task).set_params(splits=1))
            settings = Settings("splits", "task__splits", {k: k for k in COMPARED_SPLITS}, plain)
        return Loaded(record.sentences(trees), trees, estimator, sizes, record, shown=trees, settings=settings)

    def read(self, model: Trained, held_out: HeldOut) -> "list[trees_of.Tree]":
        return read_trees(held_out.data or "", model.record)

    def find(self, model: Trained, data: "list[trees_of.Tree]") -> "list[trees_of.Tree]":
        return self.parse(model, model.record.sentences(data))

    def f1_loss(self, model: Trained) -> Any:
        return tasks.Parsing(loss="f1").loss

    def parse(self, model: Trained, sentences: "list[list[Token]]") -> "list[trees_of.Tree]":
        """Return the predicted trees; warnings, such as of long sentences, are printed before."""
        with printed_warnings(lambda text: say_warnings([text])):
            return list(self.outputs(model, sentences))

    def compare(self, model: Trained, data: "list[trees_of.Tree]", found: "list[trees_of.Tree]") -> dict[str, Any]:
        scores = asdict(metrics.parse_scores(data, found, ignored_tags=model.record.punctuation))
        return {"n_examples": scores.pop("n_sentences"), **scores}

    def predict(self, model: Trained, data: str, output: str) -> None:
        record = model.record
        # Standard input may have either form.
        source = brackets.keep_sentences(data, TREE_FILES[0])
        if extension(source) in TREE_FILES:
            sentences = record.sentences(read_trees(source, record))
        else:
            sentences = brackets.read_sentences(source, record.tagged, record.encoding, record.plain_labels)
        if not model.answers.several:
            brackets.write_trees(output, self.parse(model, sentences))
            return
        with printed_warnings(lambda text: say_warnings([text])):
            found = several(model.estimator, sentences, model.answers)
        rows = ([one.example + 1, *one.note.values(), brackets.format_tree(one.y)] for one in found)
        write_text(output, "".join("\t".join(map(str, row)) + "\n" for row in rows))

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        by_label = sorted(scores["by_label"].items(), key=lambda item: -item[1]["n_true"])[:LABELS_SHOWN]
        items = [("all", scores), ("all, unlabeled", scores["unlabeled"]), *by_label]
        print_ratios("constituents", "label", items)
        if len(scores["by_label"]) > LABELS_SHOWN:
            say(f"{len(scores['by_label']) - LABELS_SHOWN} rarer labels are not shown; --json has all")

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        task, weights = model.estimator.task_, model.estimator.coef_
        shown = strongest(weights, top, lambda k: {"rule": name_weight(task, k)})
        return {**super().describe(model, top), "weights": shown}


def read_trees(name: "FilePath", how: ParseOptions | ParseRecord) -> "list[trees_of.Tree]":
    """Read trees of a file."""
    return brackets.read_trees(name, how.encoding, how.lemmas, plain_labels=how.plain_labels)


def shorter(trees: "list[trees_of.Tree]", options: ParseOptions, progress: Progress) -> "list[trees_of.Tree]":
    """Return the trees with at most `max_length` words."""
    limit = options.max_length
    kept = [tree for tree in trees if limit is None or len(trees_of.words(tree)) <= limit]
    if not kept:
        shortest = min(len(trees_of.words(tree)) for tree in trees)
        raise InputError("max_length", limit, f"at least {shortest}, the shortest sentence of {options.data}")
    left_out = f", {len(trees) - len(kept)} longer ones left out" if len(kept) < len(trees) else ""
    progress.say(f"read {len(kept)} trees from {options.data}{left_out}")
    return kept


def name_weight(task: Any, k: int) -> str:
    """Return the name of weight k of a trained parser.

    a#1 is the hidden variant 1 of a label a; a tag with the name of a label of constituents is marked.
    """
    from latentstruct.tasks.parsing.grammar import TAG

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
    """Return the readable form of a key of the lexicon: a word in quotes, or a class of rare words."""
    from latentstruct.tasks.parsing.grammar import KNOWN

    return f"“{key.removeprefix(KNOWN)}”" if key.startswith(KNOWN) else f"rare words {key[1:]}".rstrip()


def show_attribute(attribute: str) -> str:
    """Return the readable form of an attribute of spans."""
    from latentstruct.tasks.parsing.span_features import LENGTH_CLASSES, OUTSIDE

    name, _, value = attribute.partition("=")
    if name == "length":
        longest = int(value) < len(LENGTH_CLASSES)
        return f"up to {LENGTH_CLASSES[int(value)]} words" if longest else f"more than {LENGTH_CLASSES[-1]} words"
    if value == OUTSIDE:
        return f"{name}: edge of the sentence"
    return f"{name}: {value if 'tag' in name else show_key(value)}"


KIND = ParseKind()
