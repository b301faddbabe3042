"""Handwritten words by a small convolutional network with a chain, by the protocols of the literature.

``python -m benchmarks.neural_letters [--folds 10] [--protocol nine/one one/nine]`` prints the error per letter of a
convolutional network with `ChainLoss`, of the same network without a chain and of a linear chain on pixels, with
standard errors over folds. "nine/one" trains on nine folds and tests on one, "one/nine" the other way round.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

from latentstruct import Chain, StructuralSVM
from latentstruct.torch import ChainLoss
from latentstruct_papers.datasets import load_ocr_letters

N_LETTERS, BATCH, EPOCHS = 26, 32, {"nine/one": 8, "one/nine": 40}


def network() -> nn.Module:
    """Return a network from images (…, 16, 8) to scores of letters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(32 * 4 * 2, 128),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(128, N_LETTERS),
    )


def padded(words, labels):
    """Return images (B, T, 16, 8) and labels (B, T), −100 after the end of a word."""
    longest = max(map(len, words))
    images, tags = torch.zeros(len(words), longest, 16, 8), torch.full((len(words), longest), -100)
    for k, (word, own) in enumerate(zip(words, labels, strict=True)):
        images[k, : len(word)] = torch.from_numpy(word).float().reshape(-1, 16, 8)
        tags[k, : len(word)] = torch.from_numpy(own)
    return images, tags


def emissions_of(net, images, tags):
    """Return the scores (B, T, S) of letters; those of padding are 0."""
    scores = torch.zeros(*tags.shape, N_LETTERS)
    scores[tags != -100] = net(images[tags != -100].unsqueeze(1))
    return scores


def shifted(images):
    """Return images moved by at most one pixel each way, the same way for a batch."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return images.roll((down, right), (-2, -1))


def train(words, labels, chain: bool, epochs: int, seed: int):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    net, head = network(), ChainLoss(N_LETTERS)
    steps = epochs * -(-len(words) // BATCH)
    optimizer = torch.optim.AdamW([*net.parameters(), *head.parameters()], weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    net.train()
    for _ in range(epochs):
        for some in np.array_split(rng.permutation(len(words)), steps // epochs):
            images, tags = padded([words[i] for i in some], [labels[i] for i in some])
            scores = emissions_of(net, shifted(images), tags)
            if chain:
                loss = head(scores, tags, reduction="token_mean")
            else:
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval(), head


@torch.no_grad()
def errors(net, head, words, labels, chain: bool) -> float:
    """Return the share of wrong letters."""
    wrong = total = 0
    for first in range(0, len(words), 200):
        images, tags = padded(words[first : first + 200], labels[first : first + 200])
        scores, real = emissions_of(net, images, tags), tags != -100
        found = head.decode(scores, real) if chain else scores.argmax(-1)
        wrong += int((found != tags)[real].sum())
        total += int(real.sum())
    return wrong / total


def fold_errors(letters, fold: int, protocol: str) -> dict[str, float]:
    inside = letters.folds != fold if protocol == "nine/one" else letters.folds == fold
    parts = [
        ([letters.X[i] for i in rows], [letters.Y[i] for i in rows]) for rows in map(np.flatnonzero, (inside, ~inside))
    ]
    found = {}
    for name, chain in (("conv + chain", True), ("conv", False)):
        net, head = train(*parts[0], chain, EPOCHS[protocol], fold)
        found[name] = errors(net, head, *parts[1], chain)
    model = StructuralSVM(Chain(), C=0.1).fit(*parts[0])
    found["linear chain"] = 1.0 - model.score(*parts[1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=10, help="number of folds to run (default: all)")
    parser.add_argument("--protocol", nargs="+", choices=list(EPOCHS), default=list(EPOCHS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    letters = load_ocr_letters()
    for protocol in arguments.protocol:
        rows = []
        for fold in range(arguments.folds):
            began = time.process_time()
            rows.append(fold_errors(letters, fold, protocol))
            shown = ", ".join(f"{name} {value:.4f}" for name, value in rows[-1].items())
            print(f"{protocol}, fold {fold}: {shown} ({time.process_time() - began:.0f} s of CPU)", flush=True)
        for name in rows[0]:
            values = np.array([row[name] for row in rows])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            print(
                f"{protocol}, {name}: {100 * values.mean():.2f} % ± {100 * error:.2f} over {len(values)} folds",
                flush=True,
            )


if __name__ == "__main__":
    main()
