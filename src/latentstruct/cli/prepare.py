"""Data that need not fit into memory: prepared once, part by part, and trained on from a folder."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latentstruct.cli.chain_columns import ChainRecord, choose_columns, parse_columns
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
from latentstruct.cli.classes import ClassesRecord, ZeroBasedOption, row_blocks
from latentstruct.cli.classes import LabelColumnOption as TableLabelOption
from latentstruct.cli.common import reported_errors, say_warnings
from latentstruct.cli.found_motif import PARTS
from latentstruct.cli.grammar import App
from latentstruct.cli.half_labels import EMPTY, check_mark, warn_of_counts
from latentstruct.cli.motif import BackgroundOption, NegativesOption, PositivesOption
from latentstruct.cli.motif_files import MotifFiles
from latentstruct.cli.motif_folders import MotifReading, mixed_kinds
from latentstruct.cli.old_options import JsonOption, QuietOption
from latentstruct.cli.prepare_like import (
    ChainLike,
    LikeOption,
    UnlabelledOption,
    check_unlabelled,
    load_like,
    refuse_other_options,
    survey_classes,
)
from latentstruct.cli.prepared import check_data_folder, refuse_prepared, tell_prepared
from latentstruct.exceptions import InputError
from latentstruct.progress import Progress, caught_warnings

if TYPE_CHECKING:
    from latentstruct.features import WindowFeatures
    from latentstruct.formats import ColumnSentences

prepare_app = App()

FolderOption = Annotated[
    Path,
    typer.Option("-o", "--output", metavar="FOLDER", help="Folder to write; replaces earlier prepared data."),
]
ShardOption = Annotated[float, typer.Option("--shard-mb", min=0.1, help="Megabytes of a file in it.")]
PREPARED = Path("prepared")


def check_plain(*names: str | None) -> None:
    """Raise unless all of the files can be read twice."""
    from latentstruct.formats.blocks import refuse_stream

    refuse_prepared(*names)
    for name in names:
        if name is not None:
            refuse_stream(name)


@prepare_app.command("chain")
@reported_errors()
def prepare_chain(
    ctx: typer.Context,
    data: Annotated[str, typer.Argument(metavar="DATA", help="File with tokens in columns, which is read twice.")],
    output: FolderOption = PREPARED,
    window: WindowOption = 2,
    affixes: AffixesOption = 3,
    shape: ShapeOption = True,
    bigrams: BigramsOption = True,
    min_count: MinCountOption = 1,
    label_column: LabelColumnOption = -1,
    columns: ColumnsOption = None,
    unknown: UnknownMarkOption = None,
    like: LikeOption = None,
    unlabelled: UnlabelledOption = False,
    shard_mb: ShardOption = 16.0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Prepare sentences for latentstruct train chain: the features of their tokens go into files.

    The file is read part by part, first to learn features and labels, then to write them. In memory are the names of
    all features that occur, as many as --min-count drops too. Training from the folder needs room for one of its files
    and for some vectors with a number for each weight: about 18 with --solver lbfgs, up to 200 with bundle.

    With --like MODEL features, labels and columns are those of the model, so that latentstruct evaluate takes the
    folder. Features that the model does not know are left out, labels that it does not know are refused.

    Examples: latentstruct prepare chain train.txt --min-count 2 -o prepared; latentstruct prepare chain test.txt --like
    tagger -o test
    """
    from latentstruct.features import WindowFeatures
    from latentstruct.sharded_data import ShardedData
    from latentstruct.tasks import Chain

    check_unlabelled(like, unlabelled)
    check_plain(data)
    check_data_folder(output)
    asked, unknown = parse_columns(columns), EMPTY if unknown == "" else unknown
    progress = Progress(quiet)
    if like is not None:
        model = load_like(like, "chain")
        record: ChainRecord = model.record
        made = {"window": window, "affixes": affixes, "shape": shape, "bigrams": bigrams, "min_count": min_count}
        settled: dict[str, tuple[Any, Any]] = {name: (made[name], record.features[name]) for name in made}
        settled |= {"label_column": (record.place(label_column), record.label_column)}
        settled |= {"columns": (asked and [record.place(column) for column in asked], record.columns)}
        settled |= {"unknown": (unknown, record.unknown)}
        refuse_other_options(ctx, model, settled)
        found = ChainLike(data, model, not unlabelled).survey(progress)
        tell_prepared(ShardedData.write(output, model.estimator.task_, found.blocks, shard_mb, found.extra), json)
        return
    reading = ChainReading(
        data, WindowFeatures(window, affixes, shape, bigrams, min_count), label_column, asked, unknown
    )
    record, counts = reading.learn()
    progress.say(f"read {record.n_examples} sentences, {counts.total()} tokens from {data}: writing their features")
    task, known = Chain(), sorted(label for label in counts if label != reading.unknown)
    n_features = len(reading.template.vocabulary_)
    task.restore({"labels": known, "n_inputs": n_features, "latent": reading.unknown is not None})
    sizes = {"n_tokens": counts.total(), "n_features": n_features, "n_labels": len(known)}
    sizes |= {} if reading.unknown is None else {"n_unlabelled": counts[reading.unknown]}
    extra = {"record": asdict(record), "sizes": sizes}
    tell_prepared(ShardedData.write(output, task, reading.examples(record), shard_mb, extra), json)


@dataclass(frozen=True)
class ChainReading:
    """A file of sentences that is gone through part by part: options as those of the command."""

    name: str
    template: "WindowFeatures"
    label_column: int
    asked: list[int] | None
    unknown: str | None

    def parts(self) -> "Iterator[ColumnSentences]":
        """Read the file."""
        from latentstruct.formats.blocks import read_conll_blocks

        return read_conll_blocks(self.name, {} if self.unknown is None else {self.label_column: self.unknown})

    def learn(self) -> tuple[ChainRecord, Counter[str]]:
        """Learn the features; return what is kept beside a model, and how often each label occurs."""
        counts: Counter[str] = Counter()
        n_examples, label_at, n_columns, used = 0, 0, 0, [0]

        def used_columns() -> "Iterator[ColumnSentences]":
            nonlocal n_examples, label_at, n_columns, used
            for part in self.parts():
                n_columns = part.n_columns
                label_at, used = choose_columns(n_columns, self.label_column, self.asked, self.name)
                counts.update(part.columns[label_at])
                n_examples += len(part)
                yield choose(part, used)

        self.template.fit_blocks(used_columns())
        if self.unknown is None:
            warn_of_counts(counts, self.name)
        else:
            check_mark(counts, self.unknown, self.name)
        features = self.template.to_state()
        return ChainRecord(features, label_at, n_columns, used, n_examples, 0.0, self.unknown), counts

    def examples(self, record: ChainRecord) -> Iterator[tuple[Any, Any]]:
        """Yield features and labels, −1 for unknown ones."""
        for part in self.parts():
            labels = part.column(record.label_column)
            if self.unknown is not None:
                labels = [[-1 if label == self.unknown else label for label in line] for line in labels]  # type: ignore[misc]
            yield self.template.transform(choose(part, record.columns)), labels


def choose(sentences: "ColumnSentences", used: list[int]) -> "ColumnSentences":
    """Return some columns of sentences."""
    from latentstruct.formats import ColumnSentences

    return ColumnSentences(tuple(sentences.columns[k] for k in used), sentences.offsets)


@prepare_app.command("classes")
@reported_errors()
def prepare_classes(
    ctx: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="File of svmlight lines, which is read twice, or a .csv or .tsv table, read whole."
        ),
    ],
    output: FolderOption = PREPARED,
    label: TableLabelOption = None,
    zero_based: ZeroBasedOption = False,
    like: LikeOption = None,
    unlabelled: UnlabelledOption = False,
    shard_mb: ShardOption = 16.0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Prepare samples for latentstruct train classes.

    Svmlight is read part by part, first to learn the labels and the number of features, then to write the samples. A
    table is read whole, which takes up to 16 bytes of memory for each number in it; training from the folder then needs
    room for one of its files only.

    With --like MODEL labels, features and columns are those of the model, so that latentstruct evaluate and predict
    take the folder. Labels and features that the model does not know are refused.

    Examples: latentstruct prepare classes train.svm -o prepared; latentstruct prepare classes test.csv --like
    classifier -o test
    """
    from latentstruct.formats import read_classes
    from latentstruct.formats.blocks import read_svmlight_blocks, survey_svmlight
    from latentstruct.formats.text import extension
    from latentstruct.sharded_data import ShardedData
    from latentstruct.tasks import Multiclass
    from latentstruct.tasks.labels import LabelSet

    check_unlabelled(like, unlabelled)
    check_plain(data)
    check_data_folder(output)
    progress = Progress(quiet)
    if like is not None:
        model = load_like(like, "classes")
        settled = {"label": (label, model.record.label), "zero_based": (zero_based, model.record.zero_based)}
        refuse_other_options(ctx, model, settled)
        found = survey_classes(data, model, not unlabelled, progress)
        tell_prepared(ShardedData.write(output, model.estimator.task_, found.blocks, shard_mb, found.extra), json)
        return
    names = None
    if label is not None or extension(data) in (".csv", ".tsv"):
        samples = read_classes(data, label=label, zero_based=zero_based)
        names, y, (n_samples, n_features) = samples.feature_names, samples.y.tolist(), samples.X.shape
        labels, blocks = dict.fromkeys(y), row_blocks(samples.X, y)
    else:
        n_features, written, n_samples = survey_svmlight(data, zero_based)
        labels, blocks = dict.fromkeys(written.values()), read_svmlight_blocks(data, n_features, written, zero_based)
    progress.say(f"read {n_samples} samples, {n_features} features from {data}: writing them")
    task = Multiclass()
    task.restore({"labels": LabelSet.learn(labels).labels, "n_inputs": n_features})
    record = ClassesRecord(names, label, zero_based, n_samples, 0.0)
    extra = {"record": asdict(record), "sizes": {"n_features": n_features, "n_labels": len(labels)}}
    tell_prepared(ShardedData.write(output, task, blocks, shard_mb, extra), json)


@prepare_app.command("motif")
@reported_errors()
def prepare_motif(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            show_default="--positive and others",
            help="FASTA with label=1 or label=-1 in its headers, which is read twice.",
        ),
    ] = None,
    positive: PositivesOption = None,
    negative: NegativesOption = None,
    background: BackgroundOption = None,
    output: FolderOption = PREPARED,
    like: LikeOption = None,
    unlabelled: UnlabelledOption = False,
    shard_mb: ShardOption = 16.0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Prepare DNA sequences for latentstruct train motif.

    The files are as for train motif. They are read sequence by sequence, first to learn what is there, then to write
    it: positive, negative and background sequences evenly mixed. In memory are the names of all sequences. Width, order
    and strands of the motif, and the weight of the background, are chosen later, so that any motif model takes the
    folder for evaluate and predict.

    With --like MODEL each sequence must have room for the motif of the model. With --unlabelled as well, DATA is any
    FASTA to predict from.

    Examples: latentstruct prepare motif --positive bound.fa --background intergenic.fa.gz -o prepared; latentstruct
    prepare motif genome.fa.gz --like MODEL --unlabelled -o genome
    """
    from latentstruct.sharded_data import ShardedData
    from latentstruct.tasks import Motif

    files = MotifFiles(data, positive, negative, background)
    check_unlabelled(like, unlabelled)
    files.check(None)
    if unlabelled and (data is None or background is not None):
        raise InputError(
            f"--unlabelled is given with --{'background' if data else 'positive'}, which tells what its sequences are; "
            "expected DATA alone: leave one of them out"
        )
    check_plain(data, positive, negative, background)
    check_data_folder(output)
    width = 0 if like is None else load_like(like, "motif").estimator.task_.width
    progress, reading = Progress(quiet), MotifReading(files, not unlabelled, width)
    with caught_warnings() as warned:
        stored = reading.learn()
    say_warnings(warned)
    progress.say(f"read {len(stored.names)} sequences, {reading.n_letters} letters: writing them")
    # Letters are stored, not windows, so that any width serves.
    task = Motif(1, background_order=0)
    task.learn(["A", "A"], [1, -1])
    sizes = {} if unlabelled else dict(zip(PARTS, stored.counts, strict=True))
    sizes |= {"n_letters": reading.n_letters}
    blocks = reading.blocks(mixed_kinds(stored.counts))
    extra = {"record": asdict(stored), "sizes": sizes}
    tell_prepared(ShardedData.write(output, task, blocks, shard_mb, extra), json)
