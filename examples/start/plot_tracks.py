"""
Tracks of objects by integer programs
=====================================

Detections of moving objects are linked to tracks: which detections are real, which belong together, where tracks begin
and end. Linear constraints describe what a set of tracks is, and `Program` learns the costs, here also from a fifth of
the labels.
"""

# %%
# The data
# --------
# Objects drift through a square and are detected in most frames, with noise. Other detections are false. Links are
# possible between detections that are close in successive frames.

import matplotlib.pyplot as plt
import numpy as np

from latentstruct import LatentSSVM, Program, StructuralSVM
from latentstruct.tasks.program.builders import tracking, tracking_output

rng = np.random.default_rng(0)


def draw_video(n_frames=10, n_objects=6, n_false=3):
    """Return the program of one video, the true values of its variables, and its detections and links."""
    place, speed = rng.uniform(0, 10, (n_objects, 2)), rng.normal(scale=0.5, size=(n_objects, 2))
    found = []  # frame, number of the object (−1 if there is none), x, y, confidence
    for frame in range(n_frames):
        for k in range(n_objects):
            if rng.random() < 0.95:
                found.append((frame, k, *(place[k] + 0.1 * rng.normal(size=2)), rng.normal(1.0)))
        for _ in range(rng.poisson(n_false)):
            found.append((frame, -1, *rng.uniform(0, 10, 2), rng.normal(0.0)))
        place, speed = place + speed, speed + 0.1 * rng.normal(size=(n_objects, 2))
    frame, owner, x, y, confidence = np.array(found).T
    distance = np.hypot(x[:, None] - x, y[:, None] - y)
    edges = np.argwhere((frame[:, None] + 1 == frame) & (distance < 2.5))
    first, second = edges.T
    nodes = np.column_stack([confidence, np.ones(len(frame))])
    program = tracking(nodes, edges, np.column_stack([distance[first, second], np.ones(len(edges))]))
    same = (owner[first] == owner[second]) & (owner[first] >= 0)
    return program, tracking_output(owner >= 0, edges, same), np.column_stack([x, y]), edges


videos = [draw_video() for _ in range(30)]
X, Y = [video[0] for video in videos], [video[1] for video in videos]

# %%
# All labels, and a fifth of them
# -------------------------------
# Unknown variables are −1, and latent. The linear relaxations of these programs are integral: training is exact.

full = StructuralSVM(Program(), C=0.1).fit(X[:10], Y[:10])
masked = [np.where(rng.random(len(y)) < 0.8, -1, y) for y in Y[:10]]
partial = LatentSSVM(Program(), C=0.5, random_state=0).fit(X[:10], masked)


def link_f1(model):
    """Return F1 of the links of held-out videos."""
    right = found = true = 0
    for video, predicted in zip(videos[10:], model.predict(X[10:]), strict=True):
        links = slice(len(video[2]), len(video[2]) + len(video[3]))
        right += (predicted[links] * video[1][links]).sum()
        found, true = found + predicted[links].sum(), true + video[1][links].sum()
    return 2 * right / (found + true)


# %%
# Held-out videos
# ---------------
# The fifth of the labels costs next to nothing: what is unknown is completed by the constraints.

print("certified:", full.certified_)
print(f"all labels:       F1 of links {link_f1(full):.3f}")
print(f"20 % of the labels: {link_f1(partial):.3f}")

# %%
# Predicted tracks
# ----------------
# Crosses are detections that are in no track.

program, truth, places, edges = videos[10]
predicted = full.predict([program])[0]
fig, ax = plt.subplots(figsize=(5, 5))
for (a, b), on in zip(edges, predicted[len(places) : len(places) + len(edges)], strict=True):
    if on:
        ax.plot(*places[[a, b]].T, color="C0")
used = predicted[: len(places)] == 1
ax.scatter(*places[used].T, s=12, color="C0")
ax.scatter(*places[~used].T, s=12, color="0.6", marker="x")
ax.set(xticks=[], yticks=[], aspect="equal", title="Predicted tracks")
plt.show()
