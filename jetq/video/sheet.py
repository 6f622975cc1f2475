"""Draw the contact sheet: what was found, when, and which node found it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from jetq.errors import JetqError
from jetq.video.pictures import decode_jpeg, draw_boxes, text_width, write_text
from jetq.video.run import Shot

#: One tile (pixels): the picture's place and the caption below.
TILE_W, TILE_H, CAPTION_H, GAP = 320, 180, 40, 10
#: Most tiles on a sheet, and tiles in a row.
MAX_TILES, COLUMNS = 36, 4
_BACKGROUND = (32, 28, 26)
#: One colour per node (BGR), told apart also by those who cannot tell red from green.
_COLORS = ((230, 159, 86), (0, 159, 230), (115, 158, 0), (66, 228, 240), (178, 114, 204), (0, 94, 213), (167, 121, 204))


@dataclass(frozen=True, slots=True)
class Tile:
    """One picture of the sheet."""

    clip: str
    node: str
    shot: Shot


def choose(tiles: Mapping[str, Sequence[Tile]], most: int = MAX_TILES) -> list[Tile]:
    """Choose the pictures of each clip with the highest scores, as many of each, in the order of the film."""
    if not tiles:
        return []
    each = max(1, most // len(tiles))
    chosen: list[Tile] = []
    for group in list(tiles.values())[:most]:
        by_frame: dict[int, list[Tile]] = {}
        for tile in group:
            by_frame.setdefault(tile.shot.frame, []).append(tile)
        # A file that was analysed several times: another run's picture for each frame, so that all nodes are seen.
        one_each = [same[n % len(same)] for n, (_, same) in enumerate(sorted(by_frame.items()))]
        top = sorted(one_each, key=lambda tile: -tile.shot.score)[:each]
        chosen += sorted(top, key=lambda tile: tile.shot.frame)
    return chosen


def draw(path: Path, tiles: Sequence[Tile], *, title: str, nodes: Mapping[str, str]) -> None:
    """Write the sheet as PNG.

    Args:
        path: where to.
        tiles: the pictures, left to right, top to bottom.
        title: the first line.
        nodes: what to say of each node, in the order of their colours.

    Raises:
        JetqError: the file cannot be written.
    """
    colors = {node: _COLORS[n % len(_COLORS)] for n, node in enumerate(nodes)}
    columns = min(COLUMNS, max(2, len(tiles)))
    rows = math.ceil(len(tiles) / columns)
    width = columns * (TILE_W + GAP) + GAP
    legend = _legend(nodes, width)
    head = 40 + 22 * len(legend)
    sheet = np.full((head + rows * (TILE_H + CAPTION_H + GAP) + GAP, width, 3), _BACKGROUND, np.uint8)
    write_text(sheet, title, (GAP, 26), size=0.6, color=(255, 255, 255))
    for line, entries in enumerate(legend):
        for x, node, text in entries:
            y = 50 + 22 * line
            cv2.rectangle(sheet, (x, y - 11), (x + 12, y + 1), colors[node], -1)
            write_text(sheet, text, (x + 18, y))
    for n, tile in enumerate(tiles):
        at = (GAP + n % columns * (TILE_W + GAP), head + n // columns * (TILE_H + CAPTION_H + GAP))
        _place(sheet, tile, at, colors.get(tile.node, (128, 128, 128)))
    done, coded = cv2.imencode(".png", sheet)
    if not done:
        raise JetqError(f"{path.name} could not be made; run the video again")
    path.write_bytes(coded.tobytes())


def _legend(nodes: Mapping[str, str], width: int) -> list[list[tuple[int, str, str]]]:
    """Break the legend into lines: (x, node, text) each."""
    lines: list[list[tuple[int, str, str]]] = []
    x = width
    for node, said in nodes.items():
        text = f"{node}: {said}"
        if x + 18 + text_width(text) > width - GAP:
            lines.append([])
            x = GAP
        lines[-1].append((x, node, text))
        x += 18 + text_width(text) + 24
    return lines


def _place(sheet: NDArray[np.uint8], tile: Tile, at: tuple[int, int], color: tuple[int, int, int]) -> None:
    x, y = at
    picture = _fitted(tile.shot)
    h, w = picture.shape[:2]
    left, top = x + (TILE_W - w) // 2, y + (TILE_H - h) // 2
    sheet[top : top + h, left : left + w] = picture
    cv2.rectangle(sheet, (x, y + TILE_H), (x + TILE_W - 1, y + TILE_H + 3), color, -1)
    shot = tile.shot
    write_text(sheet, f"{tile.clip}  {shot.t_s:.2f} s  (frame {shot.frame})", (x + 2, y + TILE_H + 18))
    write_text(sheet, f"{tile.node}  score {shot.score:.3f}  boxes {len(shot.boxes)}", (x + 2, y + TILE_H + 34))


def _fitted(shot: Shot) -> NDArray[np.uint8]:
    """Return the picture scaled into a tile, its boxes drawn in."""
    picture = decode_jpeg(shot.jpeg)
    scale = min(TILE_W / picture.shape[1], TILE_H / picture.shape[0])
    size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
    fitted = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
    draw_boxes(fitted, shot.boxes, scale=size[0] / shot.width)
    return fitted
