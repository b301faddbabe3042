"""Search for motifs one after the other, each tested on sequences that were not trained on."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from latentstruct import tasks
from latentstruct.cli.kinds.motif.files import MotifData, MotifParts
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
WIDTH_FOLDS, MOST_FOR_WIDTH = 3, 500
"""Folds, and sequences of each class, by which widths are compared."""
WORD_LENGTHS = {"dna": 4, "protein": 2}
"""Letters of the words that are compared with a motif."""
EQUAL_AREAS = 0.003
"""Difference of the areas under the ROC curve of widths that is ignored; the narrowest of equal widths is taken."""


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
    """The motifs of a training.

    Parameters
    ----------
    options : MotifOptions
        The options of the training.
    parts : MotifParts
        The sequences.
    background_weight : float
        Weight of a background sequence.
    """

    options: Any
    parts: MotifParts
    background_weight: float
    width: int = 0
    tests: list[MotifTest] = field(default_factory=list)
    n_tests: int = 0
    found: list[FoundMotif] = field(default_factory=list)
    choice: FoldScores | None = None
    """How the width was chosen."""

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
        if not tested.any():
            progress.say("the motif is not tested: there are too few sequences to hold some out")
            return
        held = np.flatnonzero(tested)
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
            if n < (LEAST_HELD_OUT if share is None else 1) or n == len(rows):
                self._require_no_test(share, sign, len(rows))
                return np.zeros(len(X), dtype=bool)
            held[rng.permutation(rows)[:n]] = True
        # Copies of a sequence would be known from training.
        copies = {x for x, one in zip(X, held, strict=True) if one}
        return np.array([x in copies for x in X])

    def _require_no_test(self, share: float | None, sign: int, n: int) -> None:
        """Raise if sequences cannot be held out although a test is wanted."""
        got = Description(f"{n} {'positive' if sign > 0 else 'negative'} sequences")
        if share:
            raise InputError("test_share", share, "such that sequences of both classes are held out and trained on")
        if self.options.most_motifs > 1:
            raise InputError("motifs", got, f"1, or at least {3 * LEAST_HELD_OUT} sequences of each class")

    def _fit(self, width: int, X: list[str], rows: Any, coef_init: Any = None) -> Any:
        """Return a model of some sequences, in which sites may be masked; with initial weights there is one start."""
        _, y, weight = self.data
        restarts = self.options.restarts if coef_init is None else 1
        model = self.options.motif_svm(width, restarts)
        given = {} if coef_init is None else {"coef_init": coef_init}
        return model.fit([X[i] for i in rows], y[rows], sample_weight=weight[rows], **given)

    def _discover(self, X: list[str], rows: Any) -> Any:
        """Return the model of a motif of some sequences.

        Positive sequences that probably have no site of the best initial motif are left out: with them the model would
        be a mixture of several motifs, or of a motif and noise. Random starts need all sequences.
        """
        if self.options.start == "random":
            return self._fit(self.width, X, rows)
        _, y, weight = self.data
        model = self.options.motif_svm(self.width, 1)
        given = [X[i] for i in rows]
        model.task.learn(given, y[rows])
        batch = model.task.prepare(given, y[rows])
        initial = refined_motifs(model.task, batch)
        if not initial or not initial[0].carriers.any():
            return self._fit(self.width, X, rows)
        starts, strands, carriers = initial[0]
        positive = rows[y[rows] > 0][carriers]
        windows = list(zip(starts[carriers].tolist(), strands[carriers].tolist(), strict=True))
        negative = rows[y[rows] < 0]
        chosen = np.concatenate([positive, negative])
        latents = [*windows, *[None] * len(negative)]
        return model.fit([X[i] for i in chosen], y[chosen], sample_weight=weight[chosen], H=latents)

    def training_rows(self, X: list[str], test: MotifTest) -> Any:
        """Return which sequences the model of a tested motif is trained on; see `_discover`."""
        y = self.data[1]
        if self.options.start == "random":
            return np.arange(len(X))
        task = self.options.motif_svm(test.width, 1).task
        task.learn(X, y)
        return np.flatnonzero((y < 0) | (task.scores(task.prepare(X), test.coef) > test.threshold))

    def training(self) -> tuple[Any, Any, dict[str, Any]]:
        """Return sequences and labels that the model of the first motif is trained on, and further arguments of fit."""
        (X, y, weight), test = self.data, self.tests[0]
        rows = self.training_rows(X, test)
        task = self.options.motif_svm(test.width, 1, words=True).task
        task.learn(X, y)
        coef = np.pad(test.coef, (0, task.n_features - len(test.coef)))
        return [X[i] for i in rows], y[rows], {"sample_weight": weight[rows], "coef_init": coef}

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

        Widths are compared by folds of the sequences that are not held out, so that the test of the motif remains
        valid, and with words alone, without a motif. The folds of each width start from the motif of the next one.
        """
        (X, y, weight), rng = self.data, np.random.default_rng(self.options.seed)
        kinds = [rng.permutation(rows[y[rows] == sign])[:MOST_FOR_WIDTH] for sign in (1, -1)]
        folds = [np.concatenate([kind[k::WIDTH_FOLDS] for kind in kinds]) for k in range(WIDTH_FOLDS)]
        low, high = limits
        middle = (low + high) // 2
        widths = sorted({*range(middle, low - 1, -2), *range(middle, high + 1, 2), low, high})
        areas, plain = np.zeros((len(widths), WIDTH_FOLDS)), np.zeros(WIDTH_FOLDS)
        words = self._counted_words(X)
        for k, judged in enumerate(folds):
            trained = np.concatenate([fold for j, fold in enumerate(folds) if j != k])
            first = self._fit(middle, X, trained)
            for way in ([w for w in widths if w >= middle], [w for w in widths[::-1] if w < middle]):
                model = first
                for width in way:
                    if width != middle:
                        model = self._fit(width, X, trained, resized(model, width))
                    scores = model.decision_function([X[i] for i in judged])
                    areas[widths.index(width), k] = roc_area(y[judged] > 0, scores)
            task = tasks.Multiclass(bias=1.0)
            model = self.options.latent_svm(task).fit(words[trained], y[trained], sample_weight=weight[trained])
            plain[k] = roc_area(y[judged] > 0, model.decision_function(words[judged]))
        self.choice = FoldScores("width", widths, areas, baseline=plain, tolerance=EQUAL_AREAS)
        shown = ", ".join(f"{width}: {area:.3f}" for width, area in zip(widths, self.choice.means, strict=True))
        alone = f"words of {self._word_length} letters without a motif: {plain.mean():.3f}"
        progress.say(f"width {self.choice.value} chosen by the cross-validated AUC ({shown}; {alone})")
        return int(self.choice.value)

    @property
    def _word_length(self) -> int:
        """The length of the words of the model without a motif."""
        return self.options.kmers or WORD_LENGTHS[self.options.letters.name]

    def _counted_words(self, X: list[str]) -> Any:
        """Return how often each word is in each sequence, as a sparse matrix of shape (n, number of words)."""
        task = self.options.motif_svm(1, 1).task
        alphabet = self.options.letters
        words = GappedWords(self._word_length, self.options.gaps, task.strands, alphabet.letters)
        indptr, places, data = words.rows(*numbered_letters(X, alphabet))
        return sparse.csr_array((data, places, indptr), shape=(len(X), words.n_features))

    def collect(self, model: Any) -> list[FoundMotif]:
        """Return the motifs of all sequences: that of the model, and further ones where its sites are masked."""
        if self.found:
            return self.found
        self.found = [self._found(model, self.parts.positives(), 0)]
        if len(self.tests) > 1 and isinstance(self.parts, MotifData):
            X, y, _ = self.data
            names, positive = self.parts.positive.names, int((y > 0).sum())
            masked = list(X)
            for number, test in enumerate(self.tests[1:], 1):
                masked = mask_sites(model, masked, self.tests[number - 1].threshold)
                rows = self.training_rows(masked, test)
                if not (y[rows] > 0).any():
                    continue
                model = self._fit(test.width, masked, rows, test.coef)
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
        write_meme(files["matrix"], motifs, self.options.motif_svm(1, 1).task.strands)
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
