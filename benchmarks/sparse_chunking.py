"""CoNLL-2000 chunking as a whole against CRFsuite with the same features: CPU, peak memory, F1 and size of the model.

Each training runs in a process of its own, which reads features from one file: lines of their names, as CRFsuite has
them. CRFsuite has its default parameters (L-BFGS, c2 = 1) until it stops by itself.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Other modules are imported where they are used: the memory of a process is what is measured.
if TYPE_CHECKING:
    from benchmarks.common import Line

TEMPLATE: dict[str, Any] = {"affixes": 0, "shape": False}
C = 0.5
"""CRFsuite minimizes c2 ‖w‖² + c1 ‖w‖₁ + loss with c2 = 1, which is ½‖w‖² + (c1 / 2) ‖w‖₁ + loss / 2."""


def write_attributes(path: Path, subset: str) -> None:
    """Write one token per line: its label and the names of its features; a blank line after each sentence."""
    from latentstruct import WindowFeatures
    from latentstruct_papers.datasets import load_conll2000

    data = load_conll2000(subset=subset)
    features = WindowFeatures(**TEMPLATE)
    X = features.fit_transform(data.tokens)
    names = [name.replace("\t", " ") for name in features.get_feature_names_out()]
    with open(path, "w", encoding="utf-8") as file:
        for x, labels in zip(X, data.Y, strict=True):
            for t, label in enumerate(labels):
                file.write("\t".join([label, *(names[k] for k in x.indices[x.indptr[t] : x.indptr[t + 1]])]) + "\n")
            file.write("\n")


def sentences(path: str) -> Any:
    """Yield the labels and the names of the features of each sentence."""
    labels: list[str] = []
    rows: list[list[str]] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line == "\n":
                yield labels, rows
                labels, rows = [], []
            else:
                label, *row = line.rstrip("\n").split("\t")
                labels.append(label)
                rows.append(row)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def crfsuite(train: str, test: str, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for labels, rows in sentences(train):
        trainer.append(rows, labels)
    trainer.set_params(options)
    began = time.process_time()
    trainer.train(f"{folder}/model.crfsuite")
    seconds, memory = time.process_time() - began, peak()
    tagger = pycrfsuite.Tagger()
    tagger.open(f"{folder}/model.crfsuite")
    predicted = [tagger.tag(rows) for _, rows in sentences(test)]
    return {"seconds": seconds, "memory": memory, "size": os.path.getsize(f"{folder}/model.crfsuite"), "Y": predicted}


def ours(train: str, test: str, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    """Train with the command's own features, which are those of the files."""
    from latentstruct import CRF, Chain, WindowFeatures
    from latentstruct_papers.datasets import load_conll2000

    data = load_conll2000(subset="train")
    features = WindowFeatures(**TEMPLATE)
    X, Y = features.fit_transform(data.tokens), data.Y
    del data
    began = time.process_time()
    model = CRF(Chain(), C=C, seen_only=True, n_jobs=1, **options).fit(X, Y)
    seconds, memory = time.process_time() - began, peak()
    tokens = load_conll2000(subset="test").tokens
    predicted = [labels.tolist() for labels in model.predict(features.transform(tokens))]
    task: Any = model.task_
    used = model.coef_[: task.transitions_at_].reshape(-1, len(task.labels_)).any(axis=1)
    names = [name for name, kept in zip(features.get_feature_names_out(), used, strict=True) if kept]
    model.save(f"{folder}/model", compact=True)
    size = sum(file.stat().st_size for file in Path(f"{folder}/model").iterdir()) + len(json.dumps(names))
    return {"seconds": seconds, "memory": memory, "size": size, "Y": predicted, "gap": model.relative_gap_}


def measured(side: str, options: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return what a training in a process of its own reached."""
    from latentstruct.metrics import chunk_scores
    from latentstruct_papers.datasets import load_conll2000

    files = f"{folder}/train.tsv", f"{folder}/test.tsv", folder
    command = [sys.executable, "-m", "benchmarks.sparse_chunking", side, *files, json.dumps(options)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found["f1"] = 100 * chunk_scores(load_conll2000(subset="test").Y, found.pop("Y")).f1
    return found


def described(found: dict[str, Any]) -> str:
    gap = f", gap {found['gap']:.2%}" if "gap" in found else ""
    return f"F1 {found['f1']:.2f}, {found['memory']:.0f} MB, model {found['size'] / 1e6:.1f} MB{gap}"


def run(quick: bool = False) -> list["Line"]:
    from benchmarks.common import Line

    if quick:
        return []
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        for subset in ("train", "test"):
            write_attributes(Path(folder) / f"{subset}.tsv", subset)
        peer = measured("crfsuite", {}, folder)
        trainings: tuple[tuple[str, dict[str, float], float | None], ...] = (
            ("½‖w‖²", {}, 0.5),
            ("½‖w‖² + ¼‖w‖₁", {"l1": 0.25}, None),
        )
        for what, options, limit in trainings:
            found = measured("ours", options, folder)
            reached = f"{described(found)}; CRFsuite {described(peer)}"
            name = f"CoNLL-2000 CRF of seen pairs, whole training, {what}"
            lines.append(Line(name, found["seconds"], peer["seconds"], "CRFsuite's default, c2 = 1", limit, reached))
            name = f"CoNLL-2000 CRF of seen pairs, peak memory in bytes, {what}"
            sizes = found["memory"] * 2**20, peer["memory"] * 2**20
            lines.append(Line(name, *sizes, "CRFsuite's default, c2 = 1", 1.0, reached))
    return lines


def main(side: str, train: str, test: str, folder: str, options: str) -> None:
    print(json.dumps({"crfsuite": crfsuite, "ours": ours}[side](train, test, folder, json.loads(options))))


if __name__ == "__main__":
    main(*sys.argv[1:])
