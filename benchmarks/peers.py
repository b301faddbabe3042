"""Other structural SVMs on the same objective: PyStruct, dlib and structsvm, those that are installed."""

import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_iris

from benchmarks.common import Line, cpu
from benchmarks.digits import crammer_singer_objective
from benchmarks.letters import split
from benchmarks.propagation import installed
from latentstruct import Chain, ExampleTask, Multiclass, StructuralSVM
from latentstruct_papers.datasets import load_ocr_letters

# All have to reach the gap that our estimators have by default, as a share of the objective.
GAP = 1e-3


def chain_objective(nodes: np.ndarray, edges: np.ndarray, X: list, Y: list, C: float) -> float:
    """½‖w‖² + C · Σ slack of node weights (S, d) and transitions (S, S), in NumPy: the judge of both sides."""
    total = 0.5 * float((nodes**2).sum() + (edges**2).sum())
    for x, y in zip(X, Y, strict=True):
        scores, every = x @ nodes.T, np.arange(len(y))
        truth = scores[every, y].sum() + edges[y[:-1], y[1:]].sum()
        scores += 1.0
        scores[every, y] -= 1.0
        best = scores[0]
        for row in scores[1:]:
            best = (best[:, None] + edges).max(axis=0) + row
        total += C * float(best.max() - truth)
    return total


class Until:
    """PyStruct's logger: ends a fit by the interrupt that its learners catch, once the judge's objective is reached."""

    def __init__(self, judge: Any, target: float, every: int = 10) -> None:
        self.judge, self.target, self.every = judge, target, every
        self.judging, self.passes = 0.0, 0

    def __call__(self, learner: Any, iteration: Any) -> None:
        if iteration == "final":
            return
        self.passes = iteration + 1
        if self.passes % self.every == 0:
            began = time.process_time()
            reached = self.judge(learner.w) <= self.target
            self.judging += time.process_time() - began
            if reached:
                raise KeyboardInterrupt


def pystruct_lines() -> list[Line]:
    from pystruct.learners import FrankWolfeSSVM, OneSlackSSVM
    from pystruct.models import ChainCRF

    C, n_labels = 0.1, 26
    letters = load_ocr_letters()
    (X, Y), rest = split(letters, letters.folds == 1), split(letters, letters.folds != 1)
    n_nodes = n_labels * X[0].shape[1]

    def judge(w: np.ndarray) -> float:
        return chain_objective(w[:n_nodes].reshape(n_labels, -1), w[n_nodes:].reshape(n_labels, -1), X, Y, C)

    StructuralSVM(Chain(), C=C, tol=0.9).fit(X, Y)
    ours, model = cpu(lambda: StructuralSVM(Chain(), C=C, tol=GAP).fit(X, Y))
    # Our weights of nodes are stored by input, PyStruct's by label.
    by_label = model.coef_[:n_nodes].reshape(-1, n_labels).T.ravel()
    objective = judge(np.concatenate([by_label, model.coef_[n_nodes:]]))
    about = f"objective {objective:.2f}, accuracy {model.score(*rest):.4f}"

    # Its tolerances are absolute: of the mean slack here, of the gap there.
    one_slack = OneSlackSSVM(ChainCRF(), C=C, tol=GAP * objective / (C * len(X)))
    until = Until(judge, objective)
    frank_wolfe = FrankWolfeSSVM(ChainCRF(), C=C, tol=GAP * objective, random_state=0, logger=until)
    # Its own example for letters ends here, long before such a gap.
    short = FrankWolfeSSVM(ChainCRF(), C=C, max_iter=11, random_state=0)
    lines = []
    for name, learner, limit in (
        ("OneSlackSSVM", one_slack, 0.05),
        ("FrankWolfeSSVM until it is as low as ours", frank_wolfe, 0.05),
        ("FrankWolfeSSVM, 11 passes", short, None),
    ):
        peer, _ = cpu(lambda learner=learner: learner.fit(X, Y))  # type: ignore[misc]
        theirs = f"{judge(learner.w):.2f}, accuracy {learner.score(*rest):.4f}"
        if learner is frank_wolfe:
            peer -= until.judging
            theirs += f", {until.passes} passes"
        what = f"letters, 704 words: SVM C=0.1 to {GAP:.1%}"
        lines.append(Line(what, ours, peer, f"PyStruct {name}", limit, f"{about}; PyStruct's {theirs}"))
    return lines


class Classes(ExampleTask):
    """Classes by a function of one example, as anyone would write them for dlib too; weights (S, d)."""

    def joint_feature(self, x: np.ndarray, y: int) -> np.ndarray:
        features = np.zeros((10, len(x)))
        features[y] = x
        return features.ravel()

    def output_loss(self, y: int, y_hat: int) -> float:
        return float(y != y_hat)

    def argmax(self, x: np.ndarray, w: np.ndarray) -> int:
        return int((w.reshape(10, -1) @ x).argmax())

    def loss_augmented_argmax(self, x: np.ndarray, y: int, w: np.ndarray) -> int:
        scores = w.reshape(10, -1) @ x
        scores[y] -= 1.0
        return int(scores.argmax())


class DlibProblem:
    """The classes for dlib: sparse features are made once, and scores of all examples when a pass begins.

    Without its cache dlib asks for all examples in turn, which lets NumPy do a whole pass in one product.
    """

    max_cache_size = 0

    def __init__(self, X: np.ndarray, y: np.ndarray, C: float, epsilon: float) -> None:
        self.X, self.y, self.C, self.epsilon = X, y, C, epsilon
        self.num_samples, self.num_dimensions = len(X), 10 * X.shape[1]
        self.made: dict[tuple[int, int], Any] = {}
        self.calls = 0

    def features(self, i: int, label: int) -> Any:
        import dlib

        if (i, label) not in self.made:
            vector, first = dlib.sparse_vector(), label * self.X.shape[1]
            vector.extend([dlib.pair(first + int(f), float(self.X[i, f])) for f in np.flatnonzero(self.X[i])])
            self.made[i, label] = vector
        return self.made[i, label]

    def get_truth_joint_feature_vector(self, i: int) -> Any:
        return self.features(i, int(self.y[i]))

    def separation_oracle(self, i: int, w: Any) -> tuple[float, Any]:
        self.calls += 1
        if i == 0:
            scores = self.X @ np.array(list(w)).reshape(10, -1).T
            scores[np.arange(len(self.y)), self.y] -= 1.0
            self.best = scores.argmax(axis=1)
        label = int(self.best[i])
        return float(label != self.y[i]), self.features(i, label)


def dlib_lines() -> list[Line]:
    import dlib

    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    C = 10.0 / len(X)
    StructuralSVM(Multiclass(), C=C, tol=0.9).fit(X, y)
    StructuralSVM(Classes(), C=C, tol=0.9).fit(list(X[:50]), y[:50].tolist())
    built_in, model = cpu(lambda: StructuralSVM(Multiclass(), C=C, tol=GAP).fit(X, y), 3)
    by_hand, own = cpu(lambda: StructuralSVM(Classes(), C=C, tol=GAP).fit(list(X), y.tolist()), 3)
    # dlib's C is that of the mean slack, and so is its tolerance.
    epsilon = GAP * model.objective_ / (C * len(X))

    def solve() -> tuple[Any, int]:
        problem = DlibProblem(X, y, C * len(X), epsilon)
        return dlib.solve_structural_svm_problem(problem), problem.calls

    peer, (w, calls) = cpu(solve, 3)
    theirs = crammer_singer_objective(np.array(list(w)).reshape(10, -1), X, y, C)
    what = f"digits, 10 classes: SVM to {GAP:.1%}"
    passes = f"dlib's {theirs:.4f} after {calls / len(X):.0f} passes"
    return [
        Line(what, built_in, peer, "dlib", 0.5, f"objective {model.objective_:.4f}; {passes}"),
        Line(
            f"{what}, an ExampleTask in Python",
            by_hand,
            peer,
            "dlib",
            None,
            f"objective {own.objective_:.4f} after {own.n_oracle_calls_ / len(X):.0f} passes; {passes}",
        ),
    ]


def structsvm_weights(X: np.ndarray, y: np.ndarray, C: float, epsilon: float) -> np.ndarray:
    """Train structsvm's bundle method: an integer program chooses one class for each row."""
    import ilpy
    from structsvm import BundleMethod, SoftMarginLoss
    from structsvm.linear_costs import LinearCosts

    n_classes, truth = int(y.max()) + 1, np.eye(int(y.max()) + 1)[y].ravel()
    features = np.zeros((n_classes, X.shape[1], len(X), n_classes))
    constraints, costs = ilpy.Constraints(), LinearCosts()
    for k in range(n_classes):
        # It minimizes costs w·φ, so that a score is a negative cost.
        features[k, :, :, k] = -X.T
    for i in range(len(X)):
        one = ilpy.Constraint()
        for k in range(n_classes):
            one.set_coefficient(i * n_classes + k, 1.0)
        one.set_relation(ilpy.Relation.Equal)
        one.set_value(1.0)
        constraints.add(one)
    costs.set_coefficients(1.0 - truth)
    costs.set_offset(0.0)
    n_weights = n_classes * X.shape[1]
    loss = SoftMarginLoss(constraints, features.reshape(n_weights, -1), truth, costs=costs)
    bundle = BundleMethod(loss.value_and_gradient, n_weights, regularizer_weight=1.0 / C, eps=epsilon / C)
    # It turns the log of its solver on and has no option for that; writing it would count as work.
    bundle._solver.set_verbose(False)
    return bundle.optimize().reshape(n_classes, -1)


def structsvm_lines() -> list[Line]:
    X, y = load_iris(return_X_y=True)
    X = np.hstack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones((len(X), 1))])
    C = 0.1
    StructuralSVM(Multiclass(), C=C, tol=0.9).fit(X, y)
    ours, model = cpu(lambda: StructuralSVM(Multiclass(), C=C, tol=GAP).fit(X, y), 3)
    peer, weights = cpu(lambda: structsvm_weights(X, y, C, GAP * model.objective_), 3)
    theirs = crammer_singer_objective(weights, X, y, C)
    reached = f"objective {model.objective_:.4f}; structsvm's {theirs:.4f}"
    return [Line(f"iris, 150 rows, 3 classes: SVM to {GAP:.1%}", ours, peer, "structsvm with SCIP", 0.1, reached)]


def run(quick: bool = False) -> list[Line]:
    lines = []
    for name, measure in (("pystruct", pystruct_lines), ("dlib", dlib_lines), ("structsvm", structsvm_lines)):
        if not installed(name):
            print(f"{name} is not installed: its lines are left out")
        elif not (quick and name == "pystruct"):
            lines += measure()
    return lines
