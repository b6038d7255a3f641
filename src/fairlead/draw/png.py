"""Pictures of many cells: PNG with a palette, as an image element that is stretched over a panel's plot.

Called by `sim.figure_gantt` and `recorder.figures`, where rectangles would be too many. Pure.
"""

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fairlead.draw import svg

Colour = tuple[int, int, int]


def mixtures(first: str, last: str, levels: int) -> list[Colour]:
    """Colours from one (#rrggbb) to another, both included."""
    one, other = (np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)]) for c in (first, last))
    shares = (n / (levels - 1) for n in range(levels))
    rows = (np.rint(one * (1 - share) + other * share) for share in shares)
    return [(int(r), int(g), int(b)) for r, g, b in rows]


def indexed(index: npt.NDArray[np.uint8], palette: Sequence[Colour], alpha: Sequence[int]) -> bytes:
    """The file: `index[row, column]` into a palette of at most 256 colours, each with its opacity to 255."""
    rows, columns = index.shape
    lines = b"".join(b"\0" + line.tobytes() for line in index)
    head = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)
    colours = bytes(part for colour in palette for part in colour)
    chunks = ((b"IHDR", head), (b"PLTE", colours), (b"tRNS", bytes(alpha)))
    chunks += ((b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def image(picture: bytes, height: int) -> str:
    """The element, over the plot of a panel of this height."""
    data = base64.b64encode(picture).decode()
    box = f'x="{svg.LEFT}" y="{svg.TOP}" width="{svg.WIDTH - svg.LEFT - svg.RIGHT}"'
    box += f' height="{height - svg.TOP - svg.BOTTOM}" preserveAspectRatio="none" class="cells"'
    return f'<image {box} href="data:image/png;base64,{data}"/>'
