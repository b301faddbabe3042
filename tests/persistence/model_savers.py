"""Processes that save models into one folder: some are killed at any moment, some work at the same time.

Run as ``python model_savers.py WORK``, where WORK/a, WORK/b, … are models. The interpreter is started once and forks,
as starting one for each of hundreds of kills would take minutes; it has one thread and only loads and saves.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

import latentstruct
from latentstruct.persistence import atomic_files

N_KILLS, N_SAVES, N_FIRST = 220, 60, 30


class Folder:
    """A model folder, and the models that may be in it."""

    def __init__(self, path, models, fresh=True):
        self.path, self.models = path, models
        if fresh:
            self.models[0].save(path)

    def check(self):
        """Return what is wrong with the folder as a reader finds it, or None."""
        try:
            found = latentstruct.load(self.path)
        except latentstruct.InputError as error:
            return str(error)
        whole = any(found.C == model.C and np.array_equal(found.coef_, model.coef_) for model in self.models)
        return None if whole else f"C={found.C} with other weights"

    def left_over(self):
        """Return the files that do not belong to the model."""
        names = {path.name for path in self.path.iterdir()}
        return sorted(names - {"model.json", json.loads((self.path / "model.json").read_bytes())["weights"]})

    def save_forever(self):
        while True:
            for model in self.models:
                model.save(self.path)


def forked(work):
    """Run work in a child process, and return its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def kill_at_random(folder):
    """Kill a saver at random moments, between which all of a save may happen."""
    began = time.perf_counter()
    for _ in range(20):
        folder.models[0].save(folder.path)
    duration, rng, wrong = (time.perf_counter() - began) / 20, random.Random(0), []
    for _ in range(N_KILLS):
        child = forked(folder.save_forever)
        time.sleep(rng.uniform(0, 4 * duration))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        wrong.append(folder.check())
        folder.models[1].save(folder.path)
        wrong += [folder.check(), *folder.left_over()]
    return [text for text in wrong if text]


def kill_at_each_operation(folder):
    """Kill a saver before the k-th operation on files for every k there is."""
    wrong, k = [], 0
    while True:
        child = forked(lambda k=k: save_until(folder, k))
        _, status = os.waitpid(child, 0)
        wrong.append(folder.check())
        folder.models[0].save(folder.path)
        wrong += [folder.check(), *folder.left_over()]
        if not os.WIFSIGNALED(status):
            return [text for text in wrong if text], k
        k += 1


def save_until(folder, k):
    """Save, but for a kill before operation k."""
    left = [k]

    def count(*_):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def counted(function):
        return lambda *args: (count(), function(*args))[1]

    # What Python announces are names that are opened, renamed, removed and locked; synchronizing is not announced.
    sys.addaudithook(
        lambda event, args: count() if event in ("open", "os.rename", "os.remove", "fcntl.flock") else None
    )
    atomic_files.os.fsync = counted(os.fsync)
    folder.models[1].save(folder.path)


def save_together(folder, n_savers):
    """Let processes save at the same time while this one reads."""
    savers = {
        forked(lambda model=model: [model.save(folder.path) for _ in range(N_SAVES)])
        for model in folder.models[:n_savers]
    }
    wrong, n_reads, failed = [], 0, 0
    while savers:
        wrong.append(folder.check())
        n_reads += 1
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            savers.remove(child)
            failed += status != 0
    return {
        "wrong": [text for text in wrong if text],
        "failed": failed,
        "left_over": folder.left_over(),
        "reads": n_reads,
    }


def save_first(place, models):
    """Let processes save at the same time into folders that are not there yet."""
    wrong = []
    for number in range(N_FIRST):
        path = place / str(number)
        savers = [forked(lambda model=model, path=path: model.save(path)) for model in models]
        wrong += [f"exit status {status}" for _, status in (os.waitpid(saver, 0) for saver in savers) if status]
        folder = Folder(path, models, fresh=False)
        wrong += [folder.check(), *folder.left_over()]
    return [text for text in wrong if text]


def main(work):
    models = [latentstruct.load(path) for path in sorted(work.iterdir())]
    wrong, n_operations = kill_at_each_operation(Folder(work / "operations", models))
    found = {
        "operations": {"wrong": wrong, "n": n_operations},
        "random": kill_at_random(Folder(work / "random", models)),
        "first": save_first(work / "first", models),
        "together": {n: save_together(Folder(work / f"together{n}", models), n) for n in (2, 4)},
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
