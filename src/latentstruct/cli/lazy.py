"""Modules of the library that commands import when they use them, so that help is immediate."""

from typing import TYPE_CHECKING

from latentstruct.core.lazy import LazyModule

if TYPE_CHECKING:
    from latentstruct.core import ratios
    from latentstruct.data import images as image_files
    from latentstruct.data import sharded
    from latentstruct.data import trees as trees_of
    from latentstruct.estimators import annotators
    from latentstruct.features import aligned_letters, mentions, windows
    from latentstruct.features import boxes as box_features
    from latentstruct.features import images as patches
    from latentstruct.features import pairs as item_pairs
    from latentstruct.features import similar_sequences as similar
    from latentstruct.io import brackets, conllu, fasta
    from latentstruct.persistence import models
    from latentstruct.tasks.motif import sites as motif_sites
    from latentstruct.viz import plots
else:
    sharded, image_files, trees_of = (
        LazyModule(f"latentstruct.data.{name}") for name in ("sharded", "images", "trees")
    )
    box_features, patches, mentions, windows, item_pairs = (
        LazyModule(f"latentstruct.features.{name}") for name in ("boxes", "images", "mentions", "windows", "pairs")
    )
    similar = LazyModule("latentstruct.features.similar_sequences")
    brackets, conllu, fasta = (LazyModule(f"latentstruct.io.{name}") for name in ("brackets", "conllu", "fasta"))
    aligned_letters = LazyModule("latentstruct.features.aligned_letters")
    ratios, annotators = LazyModule("latentstruct.core.ratios"), LazyModule("latentstruct.estimators.annotators")
    models, motif_sites = LazyModule("latentstruct.persistence.models"), LazyModule("latentstruct.tasks.motif.sites")
    plots = LazyModule("latentstruct.viz.plots")
