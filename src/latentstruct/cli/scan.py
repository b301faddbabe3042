"""Find all sites of motifs in long sequences."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from latentstruct.cli.common import STANDARD_STREAM, check_output
from latentstruct.cli.declaring import argument, option, output_file_option, quiet_option
from latentstruct.exceptions import InputError
from latentstruct.progress.display import Progress

if TYPE_CHECKING:
    from latentstruct.tasks.motif.scanning import Hit

MEME_FILE = "motif.meme"
SUFFIXES = {".bed": "bed", ".gff": "gff", ".gff3": "gff", ".tsv": "tsv"}
GFF_LETTERS = ".:^*$@!+_?-|/"
TSV_HEADER = "motif_id\tsequence_name\tstart\tstop\tstrand\tscore\tp-value\tq-value\tmatched_sequence"


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """Find all sites of the motifs of a model or a MEME file in long sequences, with exact p-values.

    The score of a site is the log-odds of the matrix against the background letters of the file. Its p-value is the
    probability that a random word scores as much or more, computed exactly from the matrix; its q-value is the smallest
    false discovery rate at which it is found. Sites with N are left out. Sequences are read in blocks and may be of any
    length; only the sites are kept in memory.

    BED has start from 0, end exclusive, and −10 log10 of the p-value, at most 1000, as score. GFF3 and TSV count from 1
    and have scores, p-values, q-values and letters; TSV has the columns of FIMO. Proteins have the strand ".".

    Examples: latentstruct scan MODEL genome.fa.gz -o sites.bed; latentstruct scan motif.meme genome.fa --p-value 1e-5
    -o sites.gff
    """

    motif: Path = argument("Folder of a motif model, or a file in the MEME format.")
    data: str = argument("FASTA, plain or gzip-compressed; - is standard input.")
    output: str = output_file_option()
    p_value: float = option(1e-4, "Largest p-value of a site.", metavar="NUMBER", min=0.0, max=1.0)
    q_value: float = option(1.0, "Largest q-value of a site.", metavar="NUMBER", min=0.0, max=1.0)
    strands: int | None = option(
        None, "1 to read the given strand only, as for RNA.", shown="2, 1 for proteins", min=1, max=2
    )
    mask_repeats: bool = option(False, "Read letters in lower case, such as masked repeats, as unknown.")
    format: Literal["bed", "gff", "tsv"] | None = option(
        None,
        "Format of the output: bed, gff or tsv.",
        shown="that of the file name, bed if it has no suffix",
        metavar="NAME",
    )
    quiet: bool = quiet_option()

    def output_format(self) -> str:
        """Return the format of the output; raise if the suffix of the file is not that of a format."""
        name = Path(self.output).name.removesuffix(".gz")
        suffix = Path(name).suffix.lower()
        if self.format is None and suffix and suffix not in SUFFIXES:
            *first, last = SUFFIXES
            raise InputError(
                "output", self.output, f"a name that ends in {', '.join(first)} or {last}", "Or pass `format`."
            )
        return self.format or SUFFIXES.get(suffix, "bed")


def scan(options: ScanOptions) -> None:
    """Write the sites."""
    from latentstruct.io import read_meme
    from latentstruct.io.fasta import FastaRules, sequence_blocks
    from latentstruct.io.text import write_text
    from latentstruct.tasks.motif.scanning import FoundHits, MatrixScanner

    header, show = FORMATS[options.output_format()]
    path = options.motif / MEME_FILE if options.motif.is_dir() else options.motif
    if not path.exists():
        raise InputError("motif", str(options.motif), "the folder of a motif model, or a file in the MEME format")
    check_output(options.output, [path, *([] if options.data == STANDARD_STREAM else [options.data])])
    scanners = [MatrixScanner(motif, options.p_value, options.strands) for motif in read_meme(path)]
    found: list[list[FoundHits]] = [[] for _ in scanners]
    overlap = max(scanner.width for scanner in scanners) - 1
    rules = FastaRules(mask_repeats=options.mask_repeats, alphabet=scanners[0].alphabet)
    for block in sequence_blocks(options.data, overlap, rules):
        for scanner, hits in zip(scanners, found, strict=True):
            hits.append(scanner.find(block))
    progress, lines = Progress(options.quiet), list(header)
    for scanner, hits in zip(scanners, found, strict=True):
        kept = [hit for hit in scanner.hits(hits) if hit.q_value <= options.q_value]
        progress.say(f"{scanner.motif.name}: {len(kept)} sites in {scanner.n_tested} windows")
        lines += [show(scanner.motif.name, number, hit) for number, hit in enumerate(kept, 1)]
    write_text(options.output, "\n".join([*lines, ""]))
    sys.stdout.flush()


def bed_line(motif: str, number: int, hit: "Hit") -> str:
    """Return a site as BED6."""
    cells = (hit.sequence, hit.start, hit.end, motif, round(small_score(hit)), hit.sign)
    return "\t".join(map(str, cells))


def gff_line(motif: str, number: int, hit: "Hit") -> str:
    """Return a site as GFF3, in which names must not have characters that separate attributes or begin a record."""
    sequence, name = quote(hit.sequence, safe=GFF_LETTERS), quote(motif, safe=GFF_LETTERS)
    facts = f"pvalue={hit.p_value:.3g};qvalue={hit.q_value:.3g};sequence={hit.site}"
    what = "nucleotide_motif" if hit.strand else "polypeptide_motif"
    place = (sequence, "latentstruct", what, hit.start + 1, hit.end)
    cells = (*place, f"{small_score(hit):.3g}", hit.sign, ".", f"ID={name}-{number};Name={name};{facts}")
    return "\t".join(map(str, cells))


def tsv_line(motif: str, number: int, hit: "Hit") -> str:
    """Return a site as FIMO writes it."""
    values = (f"{hit.score:.4f}", f"{hit.p_value:.3g}", f"{hit.q_value:.3g}", hit.site)
    return "\t".join(map(str, (motif, hit.sequence, hit.start + 1, hit.end, hit.sign, *values)))


def small_score(hit: "Hit") -> float:
    """Return −10 log10 of the p-value, at most 1000."""
    return min(1000.0, -10.0 * math.log10(max(hit.p_value, 1e-300)))


FORMATS: dict[str, tuple[tuple[str, ...], Callable[[str, int, "Hit"], str]]] = {
    "bed": ((), bed_line),
    "gff": (("##gff-version 3",), gff_line),
    "tsv": ((TSV_HEADER,), tsv_line),
}
