"""A run as one HTML page that needs nothing beside it: the headline, the pictures, the table of projects.

Called by the command. Pure.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

from muster_scheduler.simulation.report import headline, heads, rows

_STYLE: Final = (
    "body{font:15px/1.5 sans-serif;color:#222;max-width:760px;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #eee}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto;margin:.5em 0}"
)
_MOST: Final = 1000


def page(told: dict[str, Any], pictures: dict[str, str]) -> str:
    """The page."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads())
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows(told, _MOST)
    )
    sentences = "".join(f"<p>{escape(line)}</p>\n" for line in headline(told).splitlines())
    title = escape(f"Simulation of {told['scenario']}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>{title}</h1>\n{sentences}"
        + "".join(pictures.values())
        + f"<h2>Projects</h2>\n<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>\n</body></html>\n"
    )
