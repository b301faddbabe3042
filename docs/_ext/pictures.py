"""Logo, pictures of the home page and figures of the papers, drawn at build time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentstruct_papers import figures, results

INKS = {"light": "#22303c", "dark": "#d7dee4"}
ACCENTS = {"light": "#1b6b72", "dark": "#6cc3c5"}
LATENT = {"light": "#b3541e", "dark": "#f0a36b"}


class Theme(NamedTuple):
    """Colors of a picture."""

    name: str
    ink: str
    accent: str
    latent: str


def logo() -> str:
    """Return the logo as SVG: three observed variables connected to a hidden one."""
    nodes = [(12, 46), (32, 52), (52, 46)]
    edges = "".join(f'<path d="M32 18 L{x} {y}" stroke="#3a8d93" stroke-width="4"/>' for x, y in nodes)
    known = "".join(f'<circle cx="{x}" cy="{y}" r="8" fill="#3a8d93"/>' for x, y in nodes)
    hidden = (
        '<circle cx="32" cy="16" r="11" fill="#c46a35"/>'
        '<circle cx="32" cy="16" r="6" fill="none" stroke="#fff" stroke-width="2.5" stroke-dasharray="4 3"/>'
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">{edges}{known}{hidden}</svg>\n'


def motif() -> Callable[[Any, Theme], None]:
    """Find a motif in DNA; return a function that draws its logo."""
    from latentstruct import LatentSSVM, Motif
    from latentstruct.datasets import make_planted_motif
    from latentstruct.tasks.motif.sites import find_sites, site_matrix
    from latentstruct.viz.plots import plot_logo

    data = make_planted_motif(n_positive=100, n_negative=100, length=200, width=11, mutation=0.15)
    model = LatentSSVM(Motif(width=11), C=0.02, restarts=3).fit(data.X, data.Y)
    matrix = site_matrix([site.site for site in find_sites(model, data.X[:100])])

    def draw(figure: Any, theme: Theme) -> None:
        plot_logo(matrix, ax=figure.subplots())

    return draw


def picture() -> Callable[[Any, Theme], None]:
    """Segment images trained with half of the labels; return a function that draws one of them."""
    from latentstruct import Graph, MarginalSSVM, grid_graph

    rng = np.random.default_rng(0)
    height, width = 20, 14
    rows, columns = np.mgrid[:height, :width]
    discs = [
        (rows - rng.uniform(6, 14)) ** 2 + (columns - rng.uniform(4, 10)) ** 2 < rng.uniform(16, 30) for _ in range(12)
    ]
    seen = [np.stack([disc, ~disc], axis=-1) + rng.normal(0, 1.2, (height, width, 2)) for disc in discs]
    half = [np.where(rng.random(height * width) < 0.5, -1, disc.ravel()) for disc in discs]
    inputs = [grid_graph(values) for values in seen]
    model = MarginalSSVM(Graph(), C=0.1, max_iter=15)
    # Twelve iterations are enough for the picture.
    model.fit(inputs[1:], half[1:], callback=lambda line: line.iteration >= 12)
    found = model.predict(inputs[:1])[0].reshape(height, width)

    def draw(figure: Any, theme: Theme) -> None:
        known = np.ma.masked_equal(half[0].reshape(height, width), -1)
        panels = (("input", seen[0][..., 0]), ("known labels", known), ("predicted", found))
        for ax, (title, values) in zip(figure.subplots(1, 3), panels, strict=True):
            ax.imshow(values, cmap="cividis", interpolation="nearest")
            ax.set_title(title, fontsize="medium")
            ax.set_axis_off()

    return draw


def certificate() -> Callable[[Any, Theme], None]:
    """Train a classifier of digits; return a function that draws objective and bound."""
    from sklearn.datasets import load_digits

    from latentstruct import Bundle, Multiclass, StructuralSVM

    X, y = load_digits(return_X_y=True)
    model = StructuralSVM(Multiclass(bias=1.0), C=0.01, solver=Bundle()).fit(X / 16, y)
    iterations = [line for line in model.history_ if np.isfinite(line.lower_bound) and line.lower_bound > 0]

    def draw(figure: Any, theme: Theme) -> None:
        ax = figure.subplots()
        calls = [line.oracle_calls / len(y) for line in iterations]
        objective, bound = ([getattr(line, name) for line in iterations] for name in ("objective", "lower_bound"))
        ax.fill_between(calls, bound, objective, color=theme.accent, alpha=0.2, linewidth=0)
        ax.plot(calls, objective, color=theme.accent, label="objective")
        ax.plot(calls, bound, color=theme.latent, linestyle="--", label="lower bound")
        ax.set_xlabel("passes over the data")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)

    return draw


PICTURES: dict[str, Callable[[], Callable[[Any, Theme], None]]] = {
    "motif": motif,
    "picture": picture,
    "certificate": certificate,
}


def draw_all(folder: Path) -> None:
    """Draw each picture for the light and the dark theme."""
    import matplotlib
    from matplotlib.figure import Figure

    for name, prepare in PICTURES.items():
        draw = prepare()
        for theme in (Theme(name, INKS[name], ACCENTS[name], LATENT[name]) for name in INKS):
            colors = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
            settings = dict.fromkeys(colors, theme.ink) | {"svg.hashsalt": name, "font.size": 11}
            with matplotlib.rc_context(settings):
                figure = Figure(figsize=(4.4, 2.3), layout="constrained")
                draw(figure, theme)
                figure.savefig(folder / f"{name}-{theme.name}.svg", transparent=True, metadata={"Date": None})


def _generated(app: Any) -> Path:
    folder = Path(app.confdir) / "generated"
    folder.mkdir(exist_ok=True)
    return folder


def setup(app: Any) -> dict[str, Any]:
    """Draw the logo now, as the theme needs it first, and pictures and figures at the start of the build."""
    (_generated(app) / "logo.svg").write_text(logo(), encoding="utf-8")
    app.connect("builder-inited", lambda app: draw_all(_generated(app)))
    app.connect("builder-inited", lambda app: figures.draw_all(results.FOLDER, _generated(app) / "papers"))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
