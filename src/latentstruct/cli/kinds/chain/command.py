"""Models that label sequences: one token per line, its label in one column."""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from latentstruct import io, metrics, tasks
from latentstruct.cli.answers import F1, RISK, Answer, several
from latentstruct.cli.common import is_prepared, unknown_label
from latentstruct.cli.declaring import argument, option
from latentstruct.cli.description import strongest_transitions, strongest_weights
from latentstruct.cli.kind import (
    LABEL_WEIGHTS,
    TRANSITIONS,
    Facts,
    KindSpec,
    Loaded,
    Trained,
    print_ratios,
    with_calibration,
)
from latentstruct.cli.kinds.chain import annotations, files
from latentstruct.cli.lazy import ratios, windows
from latentstruct.cli.options import ConvexModel, ConvexOptions, HeldOut, LabelOptions, LeftOut, convex_model_option
from latentstruct.cli.prepared import PrepareOptions, open_for
from latentstruct.core.lazy import np
from latentstruct.core.unknown import UNKNOWN
from latentstruct.exceptions import Description, InputError
from latentstruct.progress.display import Progress, print_table, show_percent

CONFUSIONS_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class ChainOptions(annotations.AnnotationOptions, files.ReadingOptions, ConvexOptions, LabelOptions):
    """Train on sentences: one token per line, its label in one column, a blank line after each sentence.

    The default is a CRF. On CoNLL-2000, its F1 of chunks (93.8) is about that of an SVM with C = 0.1 (93.7).

    Partially labeled text: with --unknown '?', the labels of tokens marked ? are unknown and summed out. The CRF is
    then a hidden CRF, the SVM a marginal one. To see whether the unlabeled tokens help, train again with
    --labeled-only and compare the scores on --valid.

    With --label-sets, a label may be a set such as B-PER|B-ORG, one of which is right, or have weights as in
    PER:0.7|ORG:0.3. Such labels are summed out too. Labels may then not contain | and : themselves.

    With --annotators 1,2,3, these columns have the labels of several annotators. Training learns the errors of each one
    together with the model. Held-out data have the other columns, and the label in the last one.

    Where only entities are labeled, and all else is unknown, give --entity-ratio, the share of tokens in entities.

    Example: latentstruct train chain train.txt --unknown '?' --valid test.txt -o tagger
    """

    only_for = (*ConvexOptions.only_for, ("seen_only", ("crf",)))
    left_out = (
        *ConvexOptions.left_out,
        LeftOut("labeled_only", without="unknown label_sets"),
        # A run of labeled tokens may begin within a chunk.
        LeftOut("rules entity_ratio weight_column", given="labeled_only"),
        LeftOut("label_column label_sets labeled_only weight_column skipped entity_ratio init", given="annotators"),
        LeftOut("folds checkpoint early_stopping executor model", given="annotators"),
    )

    data: str = argument("Tokens in columns, or a folder of prepared data; - is standard input.")
    model: ConvexModel = convex_model_option("crf")
    labeled_only: bool = option(False, "Leave unlabeled tokens out of training, to see whether they help.")
    init: Path | None = option(
        None,
        "Model to continue training from, with new labels and features; its --model, -C, --l1, --seen-only, "
        "--rescaling and --rules hold unless given.",
        "--init",
        metavar="MODEL",
        shown="none",
    )
    seen_only: bool = option(
        False, "Only pairs of a feature and a label that occur together have weights: faster, and takes less memory."
    )

    given: frozenset[str] = field(default=frozenset(), repr=False)

    def check(self) -> None:
        super().check()
        if self.entity_ratio is not None and not 0.0 < self.entity_ratio < 1.0:
            raise InputError("entity_ratio", self.entity_ratio, "a share between 0 and 1")
        if self.unknown is None or self.model != "crf":
            self.refuse("entity_ratio", "without `unknown`, and for a `model` other than crf")
        if self.annotators is not None:
            if self.chooses_C:
                raise InputError("C", self.C, "a number with `annotators`")
            if self.valid is None:
                self.refuse("report", "with `annotators` and without `valid`")

    @property
    def sums_out(self) -> bool:
        """Whether unknown labels are summed out, instead of left out."""
        return (self.unknown is not None or self.label_sets) and not self.labeled_only

    def training_part(self, X: Sequence[Any], Y: Sequence[Sequence[Any]], progress: Progress) -> tuple[Any, Any, Any]:
        """Return the sentences to train on or their labeled parts, and the number of each, None for all sentences."""
        if self.labeled_only:
            runs = files.labeled_runs(X, Y)
            if not files.single_labels(runs[1]):
                raise InputError("labeled_only", True, f"left out for {self.data}, where no token has a known label")
            return runs
        if self.sums_out and self.entity_ratio is None:
            return annotations.labeled_sentences(X, Y, progress, self.data)
        return X, Y, None

    def chain_estimator(self, labels: frozenset[Any], n_examples: int, weighted: bool) -> Any:
        """Return the untrained estimator; with weights of tokens their labels are summed out."""
        # Labels of weight 0 are known all the same.
        declared = sorted(labels) if self.declared is None and weighted else self.declared
        task = tasks.Chain(declared, rules=self.allowed)
        estimator = self.estimator(task, n_examples, self.sums_out or weighted)
        if self.seen_only:
            estimator.set_params(seen_only=True)
        if self.entity_ratio is not None:
            estimator.set_params(entity_ratio=ratios.EntityRatio(self.entity_ratio))
        return estimator


@dataclass(frozen=True, kw_only=True)
class ChainPrepareOptions(files.ReadingOptions, PrepareOptions):
    """Prepare sentences for latentstruct train chain: the features of their tokens go into files.

    The file is read twice, part by part: to learn features and labels, and to write them. The names of all features
    that occur are held in memory, including those that --min-count drops. Training from the folder needs memory for one
    of its files and for some vectors with one number per weight: about 18 with --solver lbfgs, up to 200 with bundle.

    With --like MODEL, features, labels and columns are those of the model, for latentstruct evaluate. Features that the
    model does not know are left out; labels that it does not know are an error.

    Examples: latentstruct prepare chain train.txt --min-count 2 -o prepared; latentstruct prepare chain test.txt --like
    tagger -o test
    """

    data: str = argument("File with tokens in columns, which is read twice.")


class ChainKind(KindSpec):
    """Sequences of labels."""

    name = "chain"
    item = "sentence"
    learns_from_part = True
    group = "document"
    summary = "Label the tokens of sentences: names, chunks, parts of speech."
    latent = "the labels of tokens that are marked as unknown, with --unknown, or are sets, with --label-sets"
    reads = (
        "CoNLL columns: a token and its label on each line, possibly with other columns between them, a blank line "
        "after each sentence. CoNLL-U, if the name ends in .conllu."
    )
    example_file = "chain.txt"
    misses_labels = True
    predicts = (
        "Chains: the columns and one more with the prediction; a column of labels is ignored and may be missing. With "
        "--confidence, a last column has the probability of the prediction. With --topk K, each sentence is written "
        "once per labeling, the best first, with the columns label, rank, and probability of the labeling (its score "
        "if the model has no probabilities); with --samples N without the last one. CoNLL-U is written unchanged but "
        "for the column of labels, and Confidence=… in MISC with --confidence. With --text, DATA is plain text: the "
        "words are written with their labels."
    )
    judged_by = "Chains: accuracy; precision, recall and F1 of chunks if the labels are BIO tags; confused labels."
    options = ChainOptions
    prepare_options = ChainPrepareOptions
    settled_options = tuple(
        one.name for base in (files.ReadingOptions, annotations.AnnotationOptions) for one in fields(base)
    )
    weights_follow_from_data = True
    record = files.ChainRecord
    tasks = ("Chain",)
    features = "features.windows.WindowFeatures"
    per_example = ("X", "Y", "words")
    judged_on = frozenset({"data", "allow_unknown"})
    answers = frozenset({"topk", "samples", "decode", RISK, F1, "pins", "confidence", "text", "rules"})
    calibrates = True
    score_facts = (
        ("sentences", "{n_examples}, {example_accuracy:%} fully correct"),
        ("tokens", "{n_tokens}, {accuracy:%} correct"),
    )
    headline = (("accuracy", "accuracy"), ("chunk F1", "chunks.f1"))
    main = ("chunks.f1", "accuracy")
    tables = (
        TRANSITIONS,
        LABEL_WEIGHTS,
        ("confusions", "most frequent errors of annotators", annotations.ANNOTATOR_ERRORS),
    )
    info_facts = (("annotators", "mean recall {annotator_recall:%}"),)

    def load(self, options: ChainOptions, progress: Progress) -> Loaded:
        options.chosen_columns()
        every = files.read_sentences(options.data, options.blank)
        progress.say(f"read {len(every)} sentences, {every.n_tokens} tokens from {options.data}")
        weight_at, annotators = options.extra_columns(every.n_columns, options.data)
        if files.is_conllu(every):
            options.refuse("weight_column", "for CoNLL-U")
            options.refuse("annotators", "for CoNLL-U")
        sentences = annotations.without_columns(every, [*annotators, weight_at])
        if annotators:
            votes = annotations.votes_of(every, annotators, options.mark)
            return self._load_votes(options, sentences, votes, len(annotators))
        record, labels = self._labeled(options, sentences)
        earlier = None if options.init is None else load_earlier(options, record.columns)
        if earlier is not None:
            options = continued(options, earlier.estimator, progress)
        tokens = files.choose(sentences, record.columns)
        template = options.template().fit(tokens) if earlier is None else earlier.features.extended(tokens)
        X = template.transform(tokens)
        # Words are stored only for a report, as training needs the memory.
        words = sentences.column(record.columns[0]) if options.report is not None else []
        shown = files.LabeledChains(X, record.judged(labels), words)
        X, Y, origins = options.training_part(X, files.marked(labels, record.unknown, record.skipped), progress)
        fit_params: dict[str, Any] = {} if earlier is None else {"init": earlier.estimator}
        if weight_at is not None:
            weights = annotations.weights_of(every, weight_at, options.data)
            fit_params["sample_weight"] = weights if origins is None else [weights[k] for k in origins]
        known = frozenset(options.check_declared(files.single_labels(Y)))
        known |= frozenset() if earlier is None else earlier.labels
        annotations.check_ratio(options.entity_ratio, known)
        files.check_rules(options.allowed, known, Y, options.data, 0)
        sizes = {"n_examples": len(Y), "n_tokens": sum(map(len, Y))}
        if (options.sums_out or weight_at is not None) and record.unknown is not None:
            sizes["n_unlabeled"] = sum(y.count(UNKNOWN) for y in Y)
        sizes |= {"n_features": template.n_features_, "n_labels": len(known)}
        record = replace(record, features=template.to_state(), n_examples=len(Y))
        estimator = options.chain_estimator(known, len(Y), weight_at is not None)
        groups = None if every.documents is None else every.documents.tolist()
        return Loaded(X, Y, estimator, sizes, record, template, known, shown, fit_params, origins, groups)

    def _labeled(
        self, options: ChainOptions, sentences: "io.ColumnSentences"
    ) -> tuple[files.ChainRecord, list[list[Any]]]:
        """Return the record of a model without its features, and the labels, once they are checked."""
        label_at, used = options.places(sentences, options.data)
        files.check_labels(sentences, label_at, used[0], options.data)
        record = files.ChainRecord(
            features={},
            label_column=label_at,
            n_columns=sentences.n_columns,
            columns=used,
            unknown=options.mark,
            label_sets=options.label_sets,
            skipped=options.skipped,
            conllu=files.is_conllu(sentences),
            n_examples=len(sentences),
        )
        labels = record.labels_of(sentences, options.data)
        files.check_marks(Counter(sentences.columns[label_at]), options.mark, options.data)
        files.check_sets(options.label_sets, files.has_sets(labels), options.data)
        return record, labels

    def for_unknown_labels(self, options: ChainOptions, loaded: Loaded) -> Any:
        for name in ("label_sets", "labeled_only", "entity_ratio", "annotators", "skipped", "weight_column"):
            options.refuse(name, "if the share of labels is varied")
        return options.estimator(tasks.Chain(sorted(loaded.labels), rules=options.allowed), len(loaded.Y), True)

    def _load_votes(
        self, options: ChainOptions, sentences: "io.ColumnSentences", votes: list[Any], n_annotators: int
    ) -> Loaded:
        """Return sentences with the labels of several annotators."""
        used = options.chosen_columns() or list(range(sentences.n_columns))
        if not sentences.n_columns:
            expected = "some columns, not all of them"
            raise InputError("annotators", options.annotators, expected, "One has to contain the words.")
        if not set(used) <= set(range(sentences.n_columns)):
            raise InputError("columns", options.columns, f"from 0 to {sentences.n_columns - 1}, without annotators")
        template = options.template()
        X = template.fit_transform(files.choose(sentences, used))
        counts = Counter(vote for rows in votes for row in rows for vote in row)
        n_missing = counts.pop(UNKNOWN, 0)
        files.check_marks(counts, None, options.data)
        if not counts:
            raise files.no_known_labels(options.data, options.mark)
        labels = options.check_declared(counts)
        record = files.ChainRecord(
            features=template.to_state(),
            label_column=sentences.n_columns,
            n_columns=sentences.n_columns + 1,
            columns=used,
            n_examples=len(votes),
        )
        sizes = {"n_examples": len(votes), "n_tokens": sentences.n_tokens, "n_annotators": n_annotators}
        sizes |= {"n_votes": counts.total(), "n_missing": n_missing}
        sizes |= {"n_features": template.n_features_, "n_labels": len(labels)}
        task = tasks.Chain(sorted(labels), rules=options.allowed)
        sparse = {"l1": options.l1, "seen_only": options.seen_only}
        estimator = options.build("AnnotatorCRF", task, random_state=options.seed, solver=options.solver, **sparse)
        return Loaded(X, votes, estimator, sizes, record, template, frozenset(labels))

    def compacted(self, model: Trained) -> Trained:
        if model.record.features.get("hashed") is not None:
            # The columns of hashed features follow from their number.
            return model
        estimator, task = copy(model.estimator), copy(model.estimator.task_)
        inputs = estimator.coef_[: task.transitions_at_].reshape(-1, len(task.labels_))
        # Weights that single precision rounds to zero are not stored either.
        used = inputs.astype("float32").any(axis=1)
        used[0] |= not used.any()
        estimator.coef_ = np.concatenate([inputs[used].ravel(), estimator.coef_[task.transitions_at_ :]])
        task.restore({**task.state(), "n_inputs": int(used.sum())})
        estimator.task_ = task
        state = model.record.features
        names = [name for name, kept in zip(state["names"], used.tolist(), strict=True) if kept]
        return replace(model, estimator=estimator, record=replace(model.record, features={**state, "names": names}))

    def finish(self, model: Trained, loaded: Loaded) -> dict[str, Any]:
        return annotations.annotator_recall(model.estimator)

    def training_facts(self, result: dict[str, Any]) -> Facts:
        return self.facts(result)

    def load_prepared(self, options: ChainOptions, progress: Progress) -> Loaded:
        options.refuse("init", "if `data` is prepared")
        options.refuse("seen_only", "if `data` is prepared")
        loaded = super().load_prepared(options, progress)
        loaded.features = windows.WindowFeatures.from_state(loaded.record.features)
        return loaded

    def fits(self, model: Trained) -> bool:
        record = model.record
        others = set(range(record.n_columns)) - {record.label_column}
        return bool(record.columns) and others >= set(record.columns)

    def restore(self, model: Trained) -> "windows.WindowFeatures":
        template: windows.WindowFeatures = super().restore(model)
        if template.n_columns_ != len(model.record.columns):
            raise model.damaged("its features do not belong to its columns")
        return template

    def settled_by(self, options: Any, like: Trained) -> dict[str, tuple[Any, Any]]:
        record, chosen = like.record, options.chosen_columns()
        names = ("window", "affixes", "shape", "bigrams", "min_count", "hashed")
        return {
            **{name: (getattr(options, name), record.features.get(name)) for name in names},
            "label_column": (record.place(options.label_column), record.label_column),
            "columns": (chosen and [record.place(column) for column in chosen], record.columns),
            "unknown": (options.mark, record.unknown),
            "label_sets": (options.label_sets, record.label_sets),
            "rules": (options.allowed, like.estimator.task_.rules),
        }

    def read(self, model: Trained, held_out: HeldOut) -> files.LabeledChains:
        name, record = held_out.data or "", model.record
        sentences = record.read(name)
        tokens = record.used_columns(sentences, name)
        record.check_labeled(sentences, name)
        Y, allowed = record.judged(record.labels_of(sentences, name)), model.labels | {record.unknown}
        for i, labels in enumerate(Y, 1):
            if not held_out.allow_unknown and not allowed.issuperset(files.single_labels([labels])):
                pairs = ((j, label) for j, item in enumerate(labels, 1) for label in files.possible_labels(item))
                j, label = next(pair for pair in pairs if pair[1] not in allowed)
                raise unknown_label(f"{name}, token {j} of sentence {i}", label, model.labels, record.unknown)
        return files.LabeledChains(model.features.transform(tokens), Y, tokens.column(0))

    def find(self, model: Trained, data: files.LabeledChains) -> list[list[str]]:
        return [labels.tolist() for labels in self.outputs(model, data.X)]

    def labeled_examples(self, model: Trained, data: files.LabeledChains) -> tuple[Any, Any]:
        def known(label: Any) -> Any:
            whole = model.estimator.task_.labels_.index
            return label if all(one in whole for one in files.possible_labels(label)) else UNKNOWN

        return data.X, [list(map(known, labels)) for labels in data.Y]

    def f1_loss(self, model: Trained) -> Any:
        if not are_chunk_tags(model.estimator.task_.labels_.labels):
            raise InputError("decode", F1, "best or risk for labels that are no chunk tags such as B-PER and O")
        return metrics.chunk_f1_loss

    def compare(self, model: Trained, data: files.LabeledChains, found: list[list[str]]) -> dict[str, Any]:
        return compare_chains(model.estimator, data.Y, found, model.record.unknown)

    def score_prepared(self, model: Trained, held_out: HeldOut) -> dict[str, Any]:
        data = open_for(model, self, held_out.data or "")
        truth = [labels for batch in data.batches for labels in data.task.true_outputs(batch)]
        guessed = [labels.tolist() for labels in model.estimator.predict(data)]
        scores = compare_chains(model.estimator, truth, guessed, UNKNOWN if data.task.latent else None)
        return with_calibration(scores, self.reliability(model, files.LabeledChains(data, truth, [])))

    def predict(self, model: Trained, data: str, output: str) -> None:
        estimator, record, answers = model.estimator, model.record, model.answers
        if answers.confidence:
            answers.refuse_confidence(estimator)
        if is_prepared(data):
            raise InputError("data", data, "a file of tokens", "Prepared data have no words to write labels next to.")
        for name in ("topk", "samples"):
            if answers.several and record.conllu and not answers.text and name in answers.given_answers:
                raise InputError(name, answers.given_answers[name], "left out for CoNLL-U")
        if answers.rules is not None:
            estimator = estimator.with_task(rules=files.read_rules(answers.rules))
        if answers.text:
            sentences: Any = record.read_text(data)
            record = replace(record, conllu=False)
            X = model.features.transform(sentences)
        else:
            sentences = record.read(data, with_labels=answers.pins)
            X = model.features.transform(record.used_columns(sentences, data))
        fixed = fixed_labels(record, sentences, data) if answers.pins else None
        if answers.several:
            ranked = with_ranks(sentences, several(estimator, X, answers, fixed))
            io.write_conll(output, *ranked, sentences.separator)
            return
        found = self.outputs(replace(model, estimator=estimator), X, fixed)
        labels = [labels.tolist() for labels in found]
        shares = [values.tolist() for values in estimator.confidence(X)] if answers.confidence else None
        if record.conllu:
            io.write_conllu(output, sentences, record.label_column, labels, shares)
        elif shares is None:
            io.write_conll(output, sentences, labels)
        else:
            shown = [[f"{value:.4f}" for value in values] for values in shares]
            io.write_conll(output, with_columns(sentences, labels), shown, sentences.separator)

    def score_lines(self, scores: dict[str, Any]) -> Facts:
        unlabeled = [("unlabeled", f"{scores['n_unlabeled']} tokens, not counted")] if scores["n_unlabeled"] else []
        return [*super().score_lines(scores), *unlabeled]

    def show_score_tables(self, scores: dict[str, Any]) -> None:
        if "chunks" in scores:
            print_ratios("chunks", "type", [("all", scores["chunks"]), *scores["chunks"]["by_type"].items()])
        confusions = [
            [one["label"], one["taken_for"], str(one["n"]), show_percent(one["share"])] for one in scores["confusions"]
        ]
        if confusions:
            shown = f", the first {CONFUSIONS_SHOWN} of {len(confusions)}" * (len(confusions) > CONFUSIONS_SHOWN)
            columns = ("true", "predicted", "count", "of the true ones")
            print_table(f"confused labels{shown}", columns, confusions[:CONFUSIONS_SHOWN], n_text=2)

    def describe(self, model: Trained, top: int) -> dict[str, Any]:
        names = model.features.get_feature_names_out().tolist()
        return {
            "transitions": strongest_transitions(model.estimator, top),
            "weights": strongest_weights(model.estimator, names.__getitem__, top),
            **annotations.annotator_recall(model.estimator),
            "confusions": annotations.annotator_errors(model.estimator, top),
        }


MODELS: dict[str, ConvexModel] = {
    "CRF": "crf",
    "HiddenCRF": "crf",
    "AnnotatorCRF": "crf",
    "StructuralSVM": "svm",
    "MarginalSSVM": "svm",
    "StructuredPerceptron": "perceptron",
}
"""The value of --model by the class of the estimator."""


def continued(options: ChainOptions, estimator: Any, progress: Progress) -> ChainOptions:
    """Return the options of a training that continues from a model: what is not given is as in its training."""
    parameters, model = estimator.get_params(deep=False), MODELS[type(estimator).__name__]
    names = ["C", *(("l1", "seen_only", "rescaling") if options.model == model or "model" not in options.given else ())]
    earlier = {"model": model, "rules": estimator.task.rules}
    earlier |= {name: parameters[name] for name in names if name in parameters}
    taken = {name: value for name, value in earlier.items() if name not in options.given}
    options = replace(options, **taken)
    options.check()
    shown = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in taken.items() if value)
    progress.say(f"continuing from {options.init}" + (f", with its {shown}" if shown else ""))
    return options


def load_earlier(options: ChainOptions, used: Sequence[int]) -> Trained:
    """Return the model to continue from; raise unless it is one of chains with the same features."""
    from latentstruct.cli.registry import load_trained

    assert options.init is not None
    kind, model = load_trained(options.init)
    if not isinstance(kind, ChainKind):
        raise InputError("init", str(options.init), "a chain model")
    if len(used) != len(model.record.columns):
        got = Description(f"{len(used)} columns")
        raise InputError("columns", got, f"{len(model.record.columns)} columns, as in {options.init}")
    for name, value in model.features.get_params().items():
        if getattr(options, name) != value:
            # Other values would be other features, none of which the model knows.
            default = next(one.default for one in fields(options) if one.name == name)
            if getattr(options, name) != default:
                raise InputError(name, getattr(options, name), f"{value!r} as in {options.init}, or left out")
    return model


def with_columns(sentences: Iterable[Any], *columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Return sentences with further columns."""
    return [
        [(*token, *values) for token, *values in zip(tokens, *added, strict=True)]
        for tokens, *added in zip(sentences, *columns, strict=True)
    ]


def with_ranks(sentences: Iterable[Any], found: Sequence[Answer]) -> tuple[list[Any], list[list[str]]]:
    """Return each sentence once per labeling with labels and ranks, and the values of labelings if they have some."""
    tokens = list(sentences)
    rows, labels = [tokens[one.example] for one in found], [one.y.tolist() for one in found]
    ranks = [[str(one.rank)] * len(one.y) for one in found]
    if any(one.value is None for one in found):
        return with_columns(rows, labels), ranks
    return with_columns(rows, labels, ranks), [[f"{one.value:.4g}"] * len(one.y) for one in found]


def fixed_labels(record: files.ChainRecord, sentences: "io.ColumnSentences", name: str) -> list[list[Any]]:
    """Return the labels of sentences for --pins, -1 where they are unknown."""
    record.check_labeled(sentences, name)
    unknown = (record.unknown, record.skipped, "?", files.EMPTY if record.conllu else None)
    return [[UNKNOWN if one in unknown else one for one in labels] for labels in record.labels_of(sentences, name)]


def are_chunk_tags(labels: Sequence[Any]) -> bool:
    """Return whether labels look like BIO tags: O, or a position and a type, at least one of the latter."""
    typed = [str(label) for label in labels if label != "O"]
    return bool(typed) and all(len(tag) > 2 and tag[0] in "BIES" and tag[1] == "-" for tag in typed)


def compare_chains(
    estimator: Any, Y: list[list[Any]], guessed: list[list[str]], unknown: str | int | None = None
) -> dict[str, Any]:
    """Return the quality of predictions, on labeled tokens; any label of a set is correct."""
    partly_known, Y = files.has_sets(Y), files.resolved(Y, guessed)
    pairs = [
        [(a, b) for a, b in zip(truth, guess, strict=True) if a != unknown]
        for truth, guess in zip(Y, guessed, strict=True)
    ]
    n_tokens = sum(map(len, pairs))
    if n_tokens == 0:
        raise files.no_known_labels("the data", unknown)
    judged = [sentence for sentence in pairs if sentence]
    result: dict[str, Any] = {
        "n_examples": len(Y),
        "n_tokens": n_tokens,
        "n_unlabeled": sum(map(len, Y)) - n_tokens,
        "accuracy": sum(a == b for sentence in pairs for a, b in sentence) / n_tokens,
        "example_accuracy": sum(all(a == b for a, b in sentence) for sentence in judged) / len(judged),
        "confusions": list_confusions(pair for sentence in pairs for pair in sentence),
    }
    # A chunk with an unknown or partly known label may begin or end anywhere.
    if are_chunk_tags(estimator.task_.labels_.labels) and not result["n_unlabeled"] and not partly_known:
        scores = asdict(metrics.chunk_scores(Y, guessed))
        result["chunks"] = {key: scores[key] for key in scores if key not in ("accuracy", "n_tokens")}
    return result


def list_confusions(pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the confusions of pairs (true, predicted), the most frequent first."""
    counts = Counter(pairs)
    n_true: Counter[str] = Counter()
    for (truth, _), n in counts.items():
        n_true[truth] += n
    return [
        {"label": truth, "taken_for": guess, "n": n, "share": n / n_true[truth]}
        for (truth, guess), n in counts.most_common()
        if truth != guess
    ]


KIND = ChainKind()
