"""Options that tell how the columns of tokens are read and what features are made of them."""

from typing import Annotated

import typer

WindowOption = Annotated[int, typer.Option(help="Words on each side that features look at.")]
AffixesOption = Annotated[int, typer.Option(help="Length of the longest prefix and suffix; 0 for none.")]
ShapeOption = Annotated[bool, typer.Option(help="Use the shape of the word.")]
BigramsOption = Annotated[bool, typer.Option(help="Use pairs and triples of neighbours.")]
MinCountOption = Annotated[int, typer.Option(min=1, help="Tokens that must have a feature for it to be kept.")]
LabelColumnOption = Annotated[int, typer.Option(help="Column of the labels, from 0; -1 is the last.")]
ColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="LIST", show_default="all but the labels", help="Columns to use, as 0,1; word first."),
]
UnknownMarkOption = Annotated[
    str | None,
    typer.Option(
        metavar="MARK",
        show_default="all labels are known",
        help="What stands for an unknown label; '' if there is nothing after the tab.",
    ),
]
