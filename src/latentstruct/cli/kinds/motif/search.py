"""Search for motifs one after the other, each tested on sequences that were not trained on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from latentstruct import tasks
from latentstruct.cli.kinds.motif.files import MotifData, MotifParts
from latentstruct.cli.parameters import AUTO
from latentstruct.core.lazy import sparse
from latentstruct.estimators.folds import FoldScores
from latentstruct.exceptions import Description, InputError
from latentstruct.io import MemeMotif, Sequences, write_meme
from latentstruct.io.fasta import write_site_groups
from latentstruct.metrics.measures import roc_area
from latentstruct.progress.display import Progress
from latentstruct.tasks.motif.significance import Enrichment, score_enrichment
from latentstruct.tasks.motif.sites import Site, consensus, find_sites, mask_sites, site_matrix
from latentstruct.tasks.motif.starts import refined_motifs
from latentstruct.tasks.motif.task import numbered_letters
from latentstruct.tasks.motif.words import GappedWords
from latentstruct.viz.plots import can_plot, plot_logo

MEME_FILE, LOGO_FILE, SITES_FILE = "motif.meme", "logo.png", "sites.bed"
SIGNIFICANT = 0.05
"""Largest E-value of a significant motif."""
LEAST_HELD_OUT, MOST_HELD_OUT = 8, 1000
"""Sequences of each class that are held out."""
USUAL_SHARE = 1 / 3
CHOICE_FOLDS, MOST_TO_CHOOSE = 3, 500
"""Folds, and sequences of each class, by which widths and weights of words are compared."""
WORD_LENGTHS = {"dna": 4, "protein": 2}
"""Letters of the words that are compared with a motif."""
WORD_WEIGHTS = (0.0, 0.25, 1.0, 4.0)
"""Weights of words beside the motif that are compared; 0 is the motif alone."""
WORD_CS = (0.001, 0.01, 0.1)
"""Values of C with which they are compared if C is auto: large weights need small values."""
EQUAL_AREAS = 0.003
"""Difference of areas under the ROC curve that is ignored; the smallest of equal values is taken."""

ModelsOfFold = Callable[[Any], Iterator[tuple[Any, Any]]]
"""Yields the values of a parameter with models trained on the given sequences."""


@dataclass(frozen=True)
class MotifTest:
    """A motif found in a part of the sequences, and how well it distinguishes the others."""

    width: int
    coef: Any
    consensus: str
    enrichment: Enrichment

    @property
    def threshold(self) -> float:
        """The score above which a window is a site: 0, or less if more sequences distinguish the classes then."""
        return min(0.0, float(np.nextafter(self.enrichment.threshold, -np.inf)))

    def e_value(self, n_tests: int) -> float:
        """Return the expected number of motifs as significant by chance among those that were tested."""
        return self.enrichment.p_value * n_tests


@dataclass(frozen=True)
class FoundMotif:
    """A motif of all sequences: its sites in positive sequences, their matrix, and its test."""

    motif: MemeMotif
    sites: list[Site]
    enrichment: Enrichment | None

    def describe(self) -> dict[str, Any]:
        """Return the facts of the motif."""
        tested = self.enrichment
        return {
            "name": self.motif.name,
            "consensus": consensus(self.motif.matrix),
            "p_value": None if tested is None else tested.p_value,
            "e_value": self.motif.e_value,
            "n_sites": self.motif.n_sites,
            "information": float(self.motif.bits.sum()),
            "significance": significance_in_words(tested, self.motif.e_value),
        }


def significance_in_words(tested: Enrichment | None, e_value: float | None) -> str:
    """Return the significance of a motif in words."""
    if tested is None or e_value is None:
        return "not tested, as no sequences were held out"
    values = f"p-value {tested.p_value:.2g}, E-value {e_value:.2g}"
    counts = (
        f"held out: {tested.positive_above} of {tested.n_positive} positive and {tested.negative_above} of "
        f"{tested.n_negative} negative sequences above the threshold"
    )
    return f"{values} ({counts})" if e_value <= SIGNIFICANT else f"no significant motif: {values} ({counts})"


@dataclass
class MotifSearch:
    """The motifs of a training."""

    options: Any  # those of the training
    parts: MotifParts
    background_weight: float  # of a background sequence
    width: int = 0
    tests: list[MotifTest] = field(default_factory=list)
    n_tests: int = 0
    found: list[FoundMotif] = field(default_factory=list)
    choices: list[FoldScores] = field(default_factory=list)
    """How the width and the weight of words were chosen."""
    alone: Any = None
    """The model of the motif without words, if the training has words."""

    def __post_init__(self) -> None:
        options = self.options
        # C is chosen for the training only, which has more data.
        self.C = type(options).C if options.chooses_C else options.C
        self.kmer_weight = options.kmer_weight if options.kmers else 0.0

    def run(self, progress: Progress) -> None:
        """Choose the width and find motifs in a part of the sequences; test them on the others."""
        if not isinstance(self.parts, MotifData):
            return
        X = self.data[0]
        tested = self._held_out()
        trained = np.flatnonzero(~tested)
        low, high = self.options.width_range
        high = max(low, min(high, *map(self.parts.alphabet.longest_known, X)))
        self.width = low if low == high else self._choose_width(trained, (low, high), progress)
        if self.kmer_weight == AUTO:
            self.kmer_weight = self._choose_kmer_weight(trained, progress)
        if not tested.any():
            progress.say("the motif is not tested: there are too few different sequences to hold some out")
            return
        # Each copy of a sequence counts once.
        held = np.array(list({X[i]: i for i in np.flatnonzero(tested).tolist()}.values()))
        progress.say(f"training on {len(trained)} sequences; {len(held)} are held out to test the motif")
        masked = list(X)
        while self.n_tests < self.options.most_motifs:
            model = self._discover(masked, trained)
            self.n_tests += 1
            test = self._test(model, masked, held)
            e_value = test.e_value(self.n_tests)
            progress.say(f"motif {self.n_tests}: {test.consensus}, {significance_in_words(test.enrichment, e_value)}")
            if self.n_tests == 1 or e_value <= SIGNIFICANT:
                self.tests.append(test)
            if e_value > SIGNIFICANT or self.n_tests == self.options.most_motifs:
                break
            before, masked = masked, mask_sites(model, masked, test.threshold)
            if masked == before:
                break

    @cached_property
    def data(self) -> tuple[list[str], Any, Any]:
        """Sequences, labels and weights."""
        X, Y, weights = self.parts.training(self.background_weight)
        return X, np.array(Y), np.array(weights)

    @property
    def significant(self) -> bool:
        """Whether the first motif is significant."""
        return bool(self.tests) and self.tests[0].e_value(self.n_tests) <= SIGNIFICANT

    def _held_out(self) -> Any:
        """Return which sequences are held out, shape (n,); none if there are too few."""
        (X, y, _), share = self.data, self.options.test_share
        held = np.zeros(len(X), dtype=bool)
        rng = np.random.default_rng(self.options.seed)
        for sign in (1, -1):
            rows = np.flatnonzero(y == sign)
            n = min(round((USUAL_SHARE if share is None else share) * len(rows)), MOST_HELD_OUT)
            if n < (LEAST_HELD_OUT if share is None else 1):
                return self._none_held_out(sign, len(rows))
            held[rng.permutation(rows)[:n]] = True
        # Copies of a sequence would be known from training.
        copies = {x for x, one in zip(X, held, strict=True) if one}
        held = np.array([x in copies for x in X])
        for sign in (1, -1):
            if held[y == sign].all():
                return self._none_held_out(sign, len({x for x, label in zip(X, y, strict=True) if label == sign}))
        return held

    def _none_held_out(self, sign: int, n: int) -> Any:
        """Return that no sequences are held out; raise if a test is wanted although it is not possible."""
        got = Description(f"{n} different {'positive' if sign > 0 else 'negative'} sequences")
        if share := self.options.test_share:
            raise InputError("test_share", share, "such that sequences of both classes are held out and trained on")
        if self.options.most_motifs > 1:
            raise InputError("motifs", got, f"1, or at least {3 * LEAST_HELD_OUT} sequences of each class")
        return np.zeros(len(self.data[0]), dtype=bool)

    def _svm(self, width: int, restarts: int) -> Any:
        return self.options.motif_svm(width, restarts, self.C, 0.0)

    def _fit(self, model: Any, X: list[str], rows: Any, **given: Any) -> Any:
        """Return a model trained on some sequences, in which sites may be masked."""
        _, y, weight = self.data
        return model.fit([X[i] for i in rows], y[rows], sample_weight=weight[rows], **given)

    def _discover(self, X: list[str], rows: Any) -> Any:
        """Return the model of a motif of some sequences.

        Positive sequences that probably have no site of the best initial motif are left out: with them the model would
        be a mixture of several motifs, or of a motif and noise. Random starts need all sequences.
        """
        if self.options.start == "random":
            return self._fit(self._svm(self.width, self.options.restarts), X, rows)
        y = self.data[1]
        model = self._svm(self.width, 1)
        given = [X[i] for i in rows]
        model.task.learn(given, y[rows])
        initial = refined_motifs(model.task, model.task.prepare(given, y[rows]))
        if not initial or not initial[0].carriers.any():
            return self._fit(self._svm(self.width, self.options.restarts), X, rows)
        starts, strands, carriers = initial[0]
        positive = rows[y[rows] > 0][carriers]
        windows = list(zip(starts[carriers].tolist(), strands[carriers].tolist(), strict=True))
        negative = rows[y[rows] < 0]
        return self._fit(model, X, np.concatenate([positive, negative]), H=[*windows, *[None] * len(negative)])

    def with_site(self, X: list[str], test: MotifTest) -> Any:
        """Return which sequences the model of a tested motif is trained on, shape (n,); see `_discover`."""
        y = self.data[1]
        if self.options.start == "random":
            return np.ones(len(X), dtype=bool)
        task = self.options.motif(test.width)
        task.learn(X, y)
        return (y < 0) | (task.scores(task.prepare(X), test.coef) > test.threshold)

    def model(self) -> Any:
        """Return the model to train."""
        known = self.significant or self.kmer_weight
        return self.options.motif_svm(
            self.width, 1 if known else self.options.restarts, self.options.C, self.kmer_weight
        )

    def beginning(self) -> dict[str, Any]:
        """Return the arguments of fit by which training begins with the motif that was tested.

        Other starts could lead to another motif. Sequences without a site get no weight, unless words distinguish them.
        The motif beside words is trained without them first.
        """
        if self.kmer_weight:
            self.alone = self._motif_alone()
            return {"coef_init": self._with_words(self.alone.coef_)}
        if not self.significant:
            return {}
        X, _, weight = self.data
        return {"sample_weight": weight * self.with_site(X, self.tests[0]), "coef_init": self.tests[0].coef}

    def _motif_alone(self) -> Any:
        if self.significant:
            X, test = self.data[0], self.tests[0]
            return self._fit(self._svm(self.width, 1), X, np.flatnonzero(self.with_site(X, test)), coef_init=test.coef)
        X, y, weight = self.parts.training(self.background_weight)
        return self._svm(self.width, self.options.restarts).fit(X, y, sample_weight=weight)

    def _with_words(self, coef: Any) -> Any:
        """Return the weights of a motif, and zeros for the words beside it."""
        return np.pad(coef, (0, self._words(self.options.kmers).n_features))

    def _words(self, length: int) -> GappedWords:
        strands, alphabet = self.options.motif(1).strands, self.options.letters
        return GappedWords(length, self.options.gaps, strands, alphabet.letters)

    def _test(self, model: Any, X: list[str], held: Any) -> MotifTest:
        y = self.data[1]
        scores = model.decision_function([X[i] for i in held])
        enrichment = score_enrichment(scores[y[held] > 0], scores[y[held] < 0])
        positive = [X[i] for i in np.flatnonzero(y > 0)]
        sites = [site.site for site in called_sites(find_sites(model, positive))]
        letters = consensus(site_matrix(sites, alphabet=model.task_.alphabet_))
        return MotifTest(model.task_.width, model.coef_, letters, enrichment)

    def _choose_width(self, rows: Any, limits: tuple[int, int], progress: Progress) -> int:
        """Return the width whose motif distinguishes sequences best that were not trained on.

        The folds of each width start from the motif of the next one.
        """
        low, high = limits
        middle = (low + high) // 2
        widths = sorted({*range(middle, low - 1, -2), *range(middle, high + 1, 2), low, high})
        X = self.data[0]

        def models(trained: Any) -> Iterator[tuple[int, Any]]:
            first = self._fit(self._svm(middle, self.options.restarts), X, trained)
            yield middle, first
            for way in ([w for w in widths if w > middle], [w for w in widths[::-1] if w < middle]):
                model = first
                for width in way:
                    model = self._fit(self._svm(width, 1), X, trained, coef_init=resized(model, width))
                    yield width, model

        return int(self._settle(self._compare("width", widths, models, rows, self.C), progress))

    def _choose_kmer_weight(self, rows: Any, progress: Progress) -> float:
        """Return the weight of the words beside the motif that distinguishes sequences best; 0 if they do not help."""
        X = self.data[0]

        def models(C: float, trained: Any) -> Iterator[tuple[float, Any]]:
            alone = self._fit(self._svm(self.width, self.options.restarts), X, trained)
            yield WORD_WEIGHTS[0], alone
            begun = self._with_words(alone.coef_)
            for weight in WORD_WEIGHTS[1:]:
                model = self.options.motif_svm(self.width, 1, C, weight)
                yield weight, self._fit(model, X, trained, coef_init=begun)

        Cs = WORD_CS if self.options.chooses_C else (self.C,)
        compared = [self._compare("kmer_weight", WORD_WEIGHTS, partial(models, C), rows, C) for C in Cs]
        return float(self._settle(max(compared, key=lambda one: float(one.means.max())), progress))

    def _compare(self, name: str, values: Sequence[Any], models: ModelsOfFold, rows: Any, C: float) -> FoldScores:
        """Return how well the models of all values distinguish sequences that were not trained on.

        Values are compared by folds of the sequences that are not held out, so that the test of the motif remains
        valid, and with words alone, without a motif.
        """
        (X, y, _), rng = self.data, np.random.default_rng(self.options.seed)
        kinds = [rng.permutation(rows[y[rows] == sign])[:MOST_TO_CHOOSE] for sign in (1, -1)]
        folds = [np.concatenate([kind[k::CHOICE_FOLDS] for kind in kinds]) for k in range(CHOICE_FOLDS)]
        areas, plain = np.zeros((len(values), CHOICE_FOLDS)), np.zeros(CHOICE_FOLDS)
        words = self._counted_words(X, self._word_length)
        for k, judged in enumerate(folds):
            trained = np.concatenate([fold for j, fold in enumerate(folds) if j != k])
            for value, model in models(trained):
                areas[values.index(value), k] = roc_area(y[judged] > 0, model.decision_function([X[i] for i in judged]))
            plain[k] = self._area_of_words(words, trained, judged, C)
        return FoldScores(name, values, areas, baseline=plain, tolerance=EQUAL_AREAS)

    def _settle(self, choice: FoldScores, progress: Progress) -> Any:
        """Keep and print a comparison; return the value that is chosen."""
        self.choices.append(choice)
        assert choice.baseline is not None
        shown = ", ".join(f"{value:g}: {area:.3f}" for value, area in zip(choice.values, choice.means, strict=True))
        alone = f"words of {self._word_length} letters without a motif: {choice.baseline.mean():.3f}"
        progress.say(f"{choice.parameter} {choice.value:g} chosen by the cross-validated AUC ({shown}; {alone})")
        return choice.value

    @property
    def _word_length(self) -> int:
        """The length of the words that are compared with a motif."""
        return self.options.kmers or WORD_LENGTHS[self.options.letters.name]

    def _counted_words(self, X: list[str], length: int) -> Any:
        """Return how often each word is in each sequence, as a sparse matrix of shape (n, number of words)."""
        words = self._words(length)
        indptr, places, data = words.rows(*numbered_letters(X, self.options.letters))
        return sparse.csr_array((data, places, indptr), shape=(len(X), words.n_features))

    def _area_of_words(self, words: Any, trained: Any, judged: Any, C: float) -> float:
        """Return the area under the ROC curve of a linear SVM on words."""
        _, y, weight = self.data
        model = self.options.build("StructuralSVM", tasks.Multiclass(bias=1.0), C=C)
        model.fit(words[trained], y[trained], sample_weight=weight[trained])
        return roc_area(y[judged] > 0, model.decision_function(words[judged]))

    def collect(self, model: Any) -> list[FoundMotif]:
        """Return the motifs of all sequences: that of the model, and further ones where its sites are masked."""
        if self.found:
            return self.found
        self.C = model.C
        model = model if self.alone is None else self.alone
        self.found = [self._found(model, self.parts.positives(), 0)]
        if len(self.tests) > 1 and isinstance(self.parts, MotifData):
            X, y, _ = self.data
            names, positive = self.parts.positive.names, int((y > 0).sum())
            masked = list(X)
            for number, test in enumerate(self.tests[1:], 1):
                masked = mask_sites(model, masked, self.tests[number - 1].threshold)
                rows = np.flatnonzero(self.with_site(masked, test))
                if not (y[rows] > 0).any():
                    continue
                model = self._fit(self._svm(test.width, 1), masked, rows, coef_init=test.coef)
                sequences = Sequences(names, [""] * positive, masked[:positive])
                self.found.append(self._found(model, [sequences], number))
        return self.found

    def _found(self, model: Any, positives: Iterable[Sequences], number: int) -> FoundMotif:
        """Return the motif of a model with its sites in positive sequences."""
        alphabet = model.task_.alphabet_
        sites, counts = [], np.ones(alphabet.size)
        for part in positives:
            sites += find_sites(model, part)
            counts += [sum(sequence.count(letter) for sequence in part.sequences) for letter in alphabet.letters]
        if model.task_.strands == 2:
            counts += counts[::-1]
        test = self.tests[number] if number < len(self.tests) else None
        called = called_sites(sites)
        name = f"{self.options.motif_name}-{number + 1}" if len(self.tests) > 1 else self.options.motif_name
        matrix = site_matrix([site.site for site in called], alphabet=alphabet)
        e_value = None if test is None else test.e_value(self.n_tests)
        motif = MemeMotif(name, matrix, counts / counts.sum(), len(called), e_value)
        return FoundMotif(motif, called, None if test is None else test.enrichment)

    def write(self, folder: Path) -> dict[str, str]:
        """Write the matrices, their logos and the sites; without matplotlib there are no logos."""
        files = {"matrix": folder / MEME_FILE, "sites": folder / SITES_FILE}
        motifs = [found.motif for found in self.found]
        write_meme(files["matrix"], motifs, self.options.motif(1).strands)
        write_site_groups(files["sites"], {found.motif.name: found.sites for found in self.found})
        if can_plot():
            from matplotlib.figure import Figure

            files["logo"] = folder / LOGO_FILE
            widest = max(len(motif.matrix) for motif in motifs)
            figure = Figure(figsize=(1.5 + 0.45 * widest, 2.6 * len(motifs)), layout="constrained")
            for ax, motif in zip(figure.subplots(len(motifs), squeeze=False)[:, 0], motifs, strict=True):
                plot_logo(motif.matrix, motif.background, ax)
                ax.set_title(motif.name)
            figure.savefig(files["logo"], dpi=150)
        return {what: str(path) for what, path in files.items()}


def called_sites(sites: list[Site]) -> list[Site]:
    """Return the sites that score above 0; all of them if none does, of which training warns."""
    return [site for site in sites if site.score > 0] or sites


def resized(model: Any, width: int) -> Any:
    """Return the weights of a model for another width.

    Rows of zeros are added at both ends, or the weaker rows at the ends are left out.
    """
    rows = model.task_.matrix(model.coef_)
    rows = rows - rows.mean(axis=1, keepdims=True)
    more = width - len(rows)
    if more > 0:
        rows = np.pad(rows, ((more // 2, more - more // 2), (0, 0)))
    while len(rows) > width:
        strength = np.abs(rows).sum(axis=1)
        rows = rows[1:] if strength[0] < strength[-1] else rows[:-1]
    return np.concatenate([rows.ravel(), model.coef_[model.task_.first_background_ :]])
