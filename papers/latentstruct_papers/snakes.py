"""Snakes: labels that only edges with features can tell, with and without them."""

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from latentstruct.estimators import StructuralSVM
from latentstruct.exceptions import ConvergenceWarning
from latentstruct.progress.eta import Steps
from latentstruct.tasks import Graph, Multiclass
from latentstruct.tasks.graph.inputs import GraphInput, grid_edges
from latentstruct_papers.datasets import load_snakes
from latentstruct_papers.findings import Claim, Findings, Table
from latentstruct_papers.ratios import Share, difference, pooled_share
from latentstruct_papers.trials import Setup

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS, DIRECTIONS, FEATURES = "multiclass SVM, no edges", "SSVM, edges by direction", "SSVM, edges with features"
COLORS = ((0, 0, 255), (0, 255, 0), (0, 255, 255), (255, 0, 0), (255, 255, 0))
"""The colors of the cells, that of the background first."""
STRENGTHS = (0.01, 0.1, 1.0)
N_HELD_OUT = 40
PYSTRUCT = 0.768
MAX_ITER, MAX_ITERATIONS = 150, 50

Grids = Sequence[NDArray[Any]]


def cell_colors(grid: Any) -> NDArray[np.float64]:
    """Return the color of each cell as 5 indicators: (height, width, 5)."""
    return (np.asarray(grid)[:, :, None] == np.array(COLORS)).all(axis=3).astype(np.float64)


def cell_features(grid: Any) -> NDArray[np.float64]:
    """Return the colors of the 3 × 3 cells around each, background outside the grid: (height · width, 45)."""
    colors = cell_colors(grid)
    height, width = colors.shape[:2]
    padded = np.zeros((height + 2, width + 2, len(COLORS)))
    padded[..., 0] = 1.0
    padded[1:-1, 1:-1] = colors
    around = [padded[i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.concatenate(around, axis=2).reshape(height * width, -1)


def make_graph(grid: Any, edge_features: bool) -> GraphInput:
    """Return a grid with 4 neighbors; edges have a type by direction and, on request, the features of both ends."""
    cells = cell_features(grid)
    edges, directions = grid_edges(*np.asarray(grid).shape[:2])
    ends = np.hstack([cells[edges[:, 0]], cells[edges[:, 1]]]) if edge_features else None
    return GraphInput(cells, edges, ends, None, directions)


class Model(NamedTuple):
    """One way to label cells: builds an estimator of a given C, and its inputs."""

    name: str
    estimator: Callable[[float], Any]
    fit: Callable[[Any, Grids, Grids], Any]
    predict: Callable[[Any, Grids], list[NDArray[np.int64]]]


def _cells_model() -> Model:
    def predict(model: Any, X: Grids) -> list[NDArray[np.int64]]:
        flat = model.predict(np.vstack([cell_features(x) for x in X]))
        ends = np.cumsum([x.shape[0] * x.shape[1] for x in X])[:-1]
        return np.split(np.asarray(flat), ends)

    return Model(
        CELLS,
        lambda C: StructuralSVM(Multiclass(), C=C),
        lambda model, X, Y: model.fit(np.vstack([cell_features(x) for x in X]), np.concatenate([y.ravel() for y in Y])),
        predict,
    )


def _graph_model(name: str, edge_features: bool) -> Model:
    def graphs(X: Grids) -> list[GraphInput]:
        return [make_graph(x, edge_features) for x in X]

    def fit(model: Any, X: Grids, Y: Grids) -> Any:
        with warnings.catch_warnings():
            # The iterations are limited on purpose; the table has their number.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(graphs(X), [y.ravel() for y in Y])

    return Model(
        name,
        lambda C: StructuralSVM(Graph(max_iterations=MAX_ITERATIONS), C=C, max_iter=MAX_ITER),
        fit,
        lambda model, X: [np.asarray(y) for y in model.predict(graphs(X))],
    )


class Outcome(NamedTuple):
    """What one model reached: right cells of each test grid, all and of the snake, and how it was trained."""

    name: str
    C: float
    right: NDArray[np.int64]
    right_snake: NDArray[np.int64]
    sizes: NDArray[np.int64]
    snake_sizes: NDArray[np.int64]
    whole: Share
    train: float
    certified: bool
    iterations: int
    predicted: list[NDArray[np.int64]]


def measure(
    model: Model, train: tuple[Grids, Grids], test: tuple[Grids, Grids], say: Callable[[str], None], quick: bool
) -> Outcome:
    """Choose C on held-out training grids, train on all of them and test."""
    X, Y = train
    scores = {}
    held_out = min(N_HELD_OUT, len(X) // 4)
    for C in STRENGTHS if not quick else STRENGTHS[1:2]:
        if quick:
            scores[C] = 0.0
            continue
        fitted = model.fit(model.estimator(C), X[:-held_out], Y[:-held_out])
        scores[C] = accuracy(model.predict(fitted, X[-held_out:]), Y[-held_out:])
    C = max(scores, key=lambda value: scores[value])
    fitted = model.fit(model.estimator(C), X, Y)
    predicted = model.predict(fitted, test[0])
    pairs = [(guess == y.ravel(), y.ravel() > 0) for guess, y in zip(predicted, test[1], strict=True)]
    whole = np.array([hit.all() for hit, _ in pairs], dtype=np.float64)
    outcome = Outcome(
        model.name,
        C,
        np.array([hit.sum() for hit, _ in pairs]),
        np.array([hit[snake].sum() for hit, snake in pairs]),
        np.array([len(hit) for hit, _ in pairs]),
        np.array([snake.sum() for _, snake in pairs]),
        pooled_share(whole, np.ones(len(whole))),
        accuracy(model.predict(fitted, X), Y),
        bool(fitted.certified_),
        int(fitted.n_iter_),
        predicted,
    )
    shown = pooled_share(outcome.right, outcome.sizes).percent()
    say(f"{model.name}: C = {C:g}, {shown} % of the test cells right, {outcome.iterations} iterations")
    return outcome


def accuracy(predicted: Sequence[NDArray[np.int64]], Y: Grids) -> float:
    """Return the share of right cells."""
    right = sum(int((guess == y.ravel()).sum()) for guess, y in zip(predicted, Y, strict=True))
    return right / sum(y.size for y in Y)


def result_table(outcomes: Sequence[Outcome]) -> Table:
    """Return accuracies with standard errors."""
    rows: list[list[Any]] = []
    for one in outcomes:
        rows.append(
            [
                one.name,
                f"{one.C:g}",
                pooled_share(one.right, one.sizes).percent(),
                pooled_share(one.right_snake, one.snake_sizes).percent(),
                one.whole.percent(),
                f"{100 * one.train:.1f}",
                "yes" if one.certified else "no",
                one.iterations,
            ]
        )
    rows.append(["PyStruct, cut short, by direction", None, f"{100 * PYSTRUCT:.1f}", None, None, None, None, 20])
    columns = ["model", "C", "cells right %", "snake cells %", "whole grids %", "training %", "certified", "iterations"]
    return Table(
        "Test accuracy ± standard error over grids",
        columns,
        rows,
        "Snake cells: those that are not background. C by held-out training grids. PyStruct was given only 50 training "
        "grids and 20 iterations, so its figure does not compare. Certified: exact inference and a proved gap.",
    )


def gain_table(outcomes: Sequence[Outcome]) -> Table:
    """Return what each model gains over the one before."""
    rows = [
        [
            f"{after.name} − {before.name}",
            difference(after.right, before.right, after.sizes).percent(),
            difference(after.right_snake, before.right_snake, after.snake_sizes).percent(),
        ]
        for before, after in pairwise(outcomes)
    ]
    return Table("Paired differences ± standard error over grids", ["models", "cells", "snake cells"], rows)


def claims(outcomes: Sequence[Outcome]) -> list[Claim]:
    """Return the accuracies, and the gains of each model over the one before."""
    found = [Claim(f"correct cells, {outcomes[0].name}", "", _percent(outcomes[0]), "no published figure")]
    for before, after in pairwise(outcomes):
        gain = difference(after.right, before.right, after.sizes).percent()
        shown = f"{_percent(after)}, {gain} more than {before.name}"
        found.append(Claim(f"correct cells, {after.name}", "", shown, "no published figure"))
    return found


def _percent(one: Outcome) -> str:
    return f"{pooled_share(one.right, one.sizes).percent()} %"


def label_plot(outcomes: Sequence[Outcome], Y: Grids) -> "Callable[[Axes], None]":
    """Return a plot of the accuracy on each part of the snake."""
    truth = np.concatenate([y.ravel() for y in Y])

    def draw(axes: "Axes") -> None:
        for one in outcomes:
            hit = np.concatenate(one.predicted) == truth
            axes.plot(range(11), [100 * hit[truth == label].mean() for label in range(11)], marker="o", label=one.name)
        axes.set(xlabel="label: 0 background, 1 to 10 along the snake", ylabel="test cells right (%)", ylim=(0, 103))
        axes.set_xticks(range(11))
        axes.legend(fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.1))

    return draw


def run(setup: Setup) -> Findings:
    """Label the cells of snakes without edges, with edges by direction, and with features of edges."""
    data = load_snakes(setup.data_home)
    n_train, n_test = (40, 30) if setup.quick else (len(data.X_train), len(data.X_test))
    train = data.X_train[:n_train], data.Y_train[:n_train]
    test = data.X_test[:n_test], data.Y_test[:n_test]
    models = [_cells_model(), _graph_model(DIRECTIONS, False), _graph_model(FEATURES, True)]
    steps = Steps(setup.say, len(models), "models")
    outcomes = [measure(model, train, test, steps.done, setup.quick) for model in models]
    differs = [
        "No published table has these models; the figure of PyStruct is that of a run cut short.",
        "Node features are the colors of the 3 × 3 cells around; edge features are those of both ends, with weights "
        "of their own for each direction.",
        "Inference on grids is belief propagation where elimination would need too large tables, and training is cut "
        f"off after {MAX_ITER} iterations.",
    ]
    return Findings(
        name="snakes",
        title="Snakes (Nowozin et al., 2011): edge features on grids",
        data=f"{n_train} training and {n_test} test grids of {min(x.shape[0] for x in train[0])} to "
        f"{max(max(x.shape[:2]) for x in train[0])} cells a side, 11 labels",
        differs=[*differs, "Quick: fewer grids and C = 0.1 without choice."] if setup.quick else differs,
        tables=[result_table(outcomes), gain_table(outcomes)],
        claims=claims(outcomes),
        plots={"labels": label_plot(outcomes, test[1])},
        settings={
            "strengths": list(STRENGTHS),
            "held_out": N_HELD_OUT,
            "max_iter": MAX_ITER,
            "max_iterations": MAX_ITERATIONS,
            "chosen": {one.name: one.C for one in outcomes},
        },
    )
