"""DNA in half of which a motif is planted."""

from latentstruct.cli.packing import lines_as_bytes
from latentstruct.datasets import make_planted_motif

LINE = 60


def make_example(seed: int) -> bytes:
    """Return 120 sequences in FASTA whose headers have labels, not sites."""
    data = make_planted_motif(n_positive=60, n_negative=60, length=120, width=11, mutation=0.1, random_state=seed)
    lines = []
    for k, (sequence, label) in enumerate(zip(data.X, data.Y.tolist(), strict=True)):
        lines.append(f">{'bound' if label > 0 else 'unbound'}{k % 60 + 1:02d} label={label:+d}")
        lines += [sequence[start : start + LINE] for start in range(0, len(sequence), LINE)]
    return lines_as_bytes(lines)
