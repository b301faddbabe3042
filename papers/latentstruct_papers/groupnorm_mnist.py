"""All ten digits at once with latent rotations: which of 110 states a group norm keeps, and what they are worth."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.estimators import LatentSSVM
from latentstruct.estimators.paths import groupnorm_path
from latentstruct.features.rotated_views import ANGLES
from latentstruct.progress.eta import Steps
from latentstruct.solvers.proximal import Proximal
from latentstruct.tasks import LatentMulticlass
from latentstruct_papers.datasets import load_mnist
from latentstruct_papers.digit_pairs import (
    N_ANGLES,
    DigitPair,
    Hits,
    cpu_seconds,
    fit_quietly,
    limits_on_purpose,
    make_pair,
    show_difference,
    show_share,
)
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIGITS = tuple(range(10))
N_STATES = len(DIGITS) * N_ANGLES
C = 100.0
SEPARATE, SHARED, UPRIGHT = "½‖w‖², all states", "½‖w‖², shared by angles", "½‖w‖², 0° alone"


class Sizes(NamedTuple):
    """How much of everything is taken; None for all."""

    train: int | None
    test: int | None
    components: int
    strengths: tuple[float, ...]
    iterations: int
    tol: float


FULL = Sizes(None, None, 40, (3.0, 1.0, 0.3, 0.1), 250, 1e-3)
QUICK = Sizes(1500, 1000, 20, (1.0, 0.3), 60, 1e-2)


class Outcome(NamedTuple):
    """One model on the test images: its states, angles in use, and CPU seconds of training, features and prediction."""

    name: str
    states: int | None
    angles: int
    right: Hits
    train_error: float
    training: float
    features: float
    predicting: float
    norms: NDArray[np.float64] | None


def measure(name: str, model: Any, data: DigitPair, training: float, norms: NDArray[np.float64] | None) -> Outcome:
    """Predict from the features that the model needs, which are computed for it alone."""
    angles = np.arange(N_ANGLES)
    if name == UPRIGHT:
        angles = np.array([ANGLES.index(0.0)])
    elif norms is not None:
        angles = model.task_.needed_states_
    features = data.views.transform(data.test_images, angles)
    right = np.asarray(model.predict(features)) == data.y_test
    train_error = float((np.asarray(model.predict(data.X[:, angles])) != data.y).mean())
    return Outcome(
        name,
        None if norms is None else int((norms > 0).sum()),
        len(angles),
        right,
        train_error,
        training,
        cpu_seconds(lambda: data.views.transform(data.test_images, angles)),
        cpu_seconds(lambda: model.predict(features)),
        norms,
    )


def _solver(sizes: Sizes) -> Proximal:
    return Proximal(tol=sizes.tol, max_iter=sizes.iterations)


def fit_dense(kind: str, data: DigitPair, sizes: Sizes) -> Outcome:
    """Train a model with ½‖w‖²."""
    task = LatentMulticlass(n_states=N_ANGLES, weights="state") if kind == SEPARATE else LatentMulticlass()
    X = data.X[:, [ANGLES.index(0.0)]] if kind == UPRIGHT else data.X
    model = LatentSSVM(task, C=C / len(data.y), init="random", solver=_solver(sizes))
    began = time.process_time()
    fit_quietly(model, X, data.y)
    norms = model.states_ if kind == SEPARATE else None
    return measure(kind, model, data, time.process_time() - began, norms)


def follow_path(data: DigitPair, sizes: Sizes, steps: Steps) -> list[Outcome]:
    """Train with the group norm along a path of strengths; each model is pruned to the states it kept."""
    task = LatentMulticlass(n_states=N_ANGLES, weights="state")
    began = time.process_time()
    with limits_on_purpose():
        path = groupnorm_path(
            LatentSSVM(task, C=C / len(data.y), solver=_solver(sizes), random_state=0),
            data.X,
            data.y,
            strengths=sizes.strengths,
            callback=lambda strength, model: steps.done(f"λ = {strength:g}: {int((model.states_ > 0).sum())} states"),
        )
    took = (time.process_time() - began) / len(sizes.strengths)
    found = []
    for k, strength in enumerate(path.strengths):
        model = path.model(k)
        found.append(measure(f"group norm, λ = {strength:g}", model.prune(), data, took, model.states_))
        steps.say(_line(found[-1]))
    return found


def _line(one: Outcome) -> str:
    states = "" if one.states is None else f", {one.states} of {N_STATES} states"
    return f"{one.name}: accuracy {100 * one.right.mean():.2f} %{states}, {one.training:.0f} s of training"


def accuracy_table(outcomes: Sequence[Outcome]) -> Table:
    """Return accuracy, states and times of all models."""
    whole = next(one for one in outcomes if one.name == SEPARATE)
    rows = [
        [
            one.name,
            one.states,
            one.angles,
            show_share(one.right),
            None if one is whole else show_difference(one.right, whole.right),
            f"{100 * (1 - one.train_error):.2f}",
            one.training,
            1e3 * one.features,
            1e3 * one.predicting,
        ]
        for one in outcomes
    ]
    columns = ["model", f"states of {N_STATES}", "angles", "test accuracy %", "− all states", "training accuracy %"]
    columns += ["training s", "features ms", "predicting ms"]
    return Table(
        "Ten digits at once: accuracy ± standard error over test images, paired differences in points, CPU times",
        columns,
        rows,
        "Angles: those that any digit uses, whose features have to be computed. Features and predicting: of all test "
        "images, by models without the states of weight zero. Training along the path is the mean over strengths.",
    )


def claims(outcomes: Sequence[Outcome]) -> list[Claim]:
    """Return states, accuracy and time of an image along the path, and without group norm."""
    shown = []
    for one in outcomes:
        states = "" if one.states is None else f"{one.states} states, "
        microseconds = 1e6 * (one.features + one.predicting) / len(one.right)
        shown.append(f"{one.name}: {states}{show_share(one.right)} %, {microseconds:.1f} µs")
    what = f"states kept of {N_STATES}, accuracy, CPU time from the pixels of an image to its digit"
    return [Claim(what, "", "; ".join(shown), "no published figure")]


def angle_table(outcomes: Sequence[Outcome]) -> Table:
    """Return how many angles each digit keeps."""
    kept = [one for one in outcomes if one.norms is not None and one.name != SEPARATE]
    rows = [
        [one.name, *(int(number) for number in (one.norms > 0).sum(axis=1))] for one in kept if one.norms is not None
    ]
    return Table(f"Angles of {N_ANGLES} that each digit keeps", ["model", *map(str, DIGITS)], rows)


def norm_plot(one: Outcome) -> "Callable[[Axes], None]":
    """Return a map of the norms of the weights of digits and angles."""

    def draw(axes: "Axes") -> None:
        assert one.norms is not None
        shown = np.where(one.norms > 0, one.norms, np.nan)
        picture = axes.imshow(shown, aspect="auto", cmap="viridis")
        axes.set_xticks(range(N_ANGLES), [f"{angle:g}°" for angle in ANGLES])
        axes.set_yticks(range(len(DIGITS)), [str(digit) for digit in DIGITS])
        axes.set(xlabel="angle", ylabel="digit", title=f"{one.name}: norms of the weights, blank where zero")
        axes.figure.colorbar(picture, ax=axes)

    return draw


def trade_plot(outcomes: Sequence[Outcome]) -> "Callable[[Axes], None]":
    """Return a plot of the accuracy against the number of states."""

    def draw(axes: "Axes") -> None:
        path = [one for one in outcomes if one.states is not None and one.name != SEPARATE]
        points = sorted((one.states or 0, 100 * float(one.right.mean())) for one in path)
        axes.plot(*zip(*points, strict=True), marker="o", label="group norm")
        for one, style in zip([o for o in outcomes if o not in path], ("--", ":", "-."), strict=False):
            axes.axhline(100 * float(one.right.mean()), linestyle=style, color="grey", label=one.name)
        axes.set(xlabel=f"states kept of {N_STATES}", ylabel="test accuracy, %")
        axes.legend()

    return draw


def run(setup: Setup, sizes: Sizes | None = None) -> Findings:
    """Tell all ten digits apart with latent rotations, along a path of strengths of the group norm."""
    sizes = (QUICK if setup.quick else FULL) if sizes is None else sizes
    data = make_pair(load_mnist(setup.data_home), DIGITS, sizes.train, sizes.test, sizes.components)
    setup.say(f"features of {len(data.y)} training images: {data.X.nbytes / 1e6:.0f} MB")
    dense = (SEPARATE, SHARED, UPRIGHT)
    steps = Steps(setup.say, len(sizes.strengths) + len(dense), "trainings")
    outcomes = follow_path(data, sizes, steps)
    for kind in dense:
        outcomes.append(fit_dense(kind, data, sizes))
        steps.done(_line(outcomes[-1]))
    middle = outcomes[len(sizes.strengths) // 2]
    return Findings(
        name="groupnorm-mnist",
        title="Ten digits at once: rotations chosen by a group norm",
        data=f"MNIST, {len(data.y)} training and {len(data.y_test)} test images",
        differs=[
            "Chen et al. (2012) tell pairs of digits apart; they have no such table.",
            f"{sizes.components} principal components of pixels from 0 to 1, fitted on all rotated copies of the "
            f"training images, and a constant feature; C = {C:g} divided by the number of images for all models, "
            "strengths λ set beforehand.",
            f"All models are trained by proximal steps from random angles to a relative tolerance of {sizes.tol:g}, "
            f"{sizes.iterations} iterations each at most.",
        ],
        tables=[accuracy_table(outcomes), angle_table(outcomes)],
        claims=claims(outcomes),
        plots={"states": trade_plot(outcomes), "norms": norm_plot(middle)},
        settings={
            "sizes": sizes._asdict(),
            "C": C,
            "accuracies": {one.name: float(one.right.mean()) for one in outcomes},
            "norms": {one.name: one.norms.tolist() for one in outcomes if one.norms is not None},
        },
    )
