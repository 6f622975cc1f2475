"""A bar chart as SVG, by hand: a README needs no plotting library."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

_COLOURS = ("#9ecae1", "#3182bd", "#fdae6b", "#e6550d")
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 250, 420, 9, 12, 58


def bars(title: str, groups: Mapping[str, Mapping[tuple[str, float], float]], *, most: float = 3.0) -> str:
    """Return a chart with one group of bars per name. Values above ``most`` are cut and say so.

    Args:
        groups: name -> (mix, load) -> value.
    """
    keys = sorted({key for values in groups.values() for key in values})
    height = _TOP + sum(len(values) * _BAR + _GAP for values in groups.values()) + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 70}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, (mix, load) in enumerate(keys):
        x = 10 + number * 170
        out.append(f'<rect x="{x}" y="32" width="10" height="10" fill="{_COLOURS[number % len(_COLOURS)]}"/>')
        out.append(f'<text x="{x + 15}" y="41">{escape(mix)}, load {load:g}</text>')
    y = _TOP
    for name, values in groups.items():
        middle = y + len(values) * _BAR / 2 + 4
        out.append(f'<text x="{_LEFT - 8}" y="{middle:.0f}" text-anchor="end">{escape(name)}</text>')
        for key in sorted(values):
            value, colour = values[key], _COLOURS[keys.index(key) % len(_COLOURS)]
            width = min(value, most) / most * _WIDTH
            out.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 1}" fill="{colour}"/>')
            mark = f"{value:.2f}" + (" (cut)" if value > most else "")
            out.append(f'<text x="{_LEFT + width + 4:.1f}" y="{y + _BAR - 1}" font-size="9">{mark}</text>')
            y += _BAR
        y += _GAP
    one = _LEFT + _WIDTH / most
    out.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{_TOP - 6}" y2="{height - 8}" stroke="#444"/>')
    return "\n".join([*out, "</svg>", ""])
