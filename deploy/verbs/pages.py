"""`pages`: what is written from the language's catalogue, its reference page and its definitions for Kubernetes.

Called by people after they edit the catalogue, and by `lint`, which writes them elsewhere and compares.
Holds: deploy/crds contains what was written and nothing else.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from verbs.paths import CRDS, LANGUAGE_PAGE, PYTHON, ROOT
from verbs.protos import difference, replace_tree
from verbs.shell import output_of, run, say


def pages() -> int:
    """Writes the page and the definitions anew."""
    with tempfile.TemporaryDirectory() as folder:
        page, crds = write(Path(folder))
        changed = [LANGUAGE_PAGE.name] if stale_page(page) else []
        LANGUAGE_PAGE.write_bytes(page.read_bytes())
        changed += replace_tree(crds, CRDS)
    say(f"{len(changed)} written anew: {', '.join(changed)}" if changed else "the pages were up to date")
    return 0


def write(into: Path) -> tuple[Path, Path]:
    """Writes the page and the folder of definitions into a folder and answers where they are."""
    page, crds = into / LANGUAGE_PAGE.name, into / CRDS.name
    page.write_text(output_of([PYTHON, "-m", "muster_language.schemas.reference"]), encoding="utf-8")
    run([PYTHON, "-m", "muster_language.schemas.crds", crds])
    return page, crds


def stale_page(fresh: Path) -> bool:
    """Whether the committed page is not the fresh one."""
    return not LANGUAGE_PAGE.exists() or LANGUAGE_PAGE.read_bytes() != fresh.read_bytes()


def stale() -> list[str]:
    """The files of the repository that are not what the catalogue gives."""
    with tempfile.TemporaryDirectory() as folder:
        page, crds = write(Path(folder))
        found = [LANGUAGE_PAGE] if stale_page(page) else []
        found += [CRDS / path for path in difference(crds, CRDS)]
    return [path.relative_to(ROOT).as_posix() for path in found]
