"""Texts whose shape would cost the square of their length: each is read within seconds of CPU time, whatever it holds.

Every case runs in a process of its own under RLIMIT_CPU, so that the load of the machine does not count.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

CPU_SECONDS: Final = 2
_LIMIT: Final = (
    "import resource, time\n"
    f"resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + {CPU_SECONDS + 1},) * 2)\n"
)
_HEAD: Final = "apiVersion: run.ai/v2alpha1\nkind: TrainingWorkload\nmetadata: {name: a, namespace: p}\nspec:\n"
_DRAFT: Final = (
    "from muster.api.v1 import workloads_pb2 as api\nfrom muster_submission.handlers.drafts import read_draft\n"
    f"HEAD = {_HEAD!r}\n"
    "def refused(text): assert read_draft(api.WorkloadDraft(yaml=text)).problems, text[:80]\n"
)
_BODY: Final = (
    "from muster_language.rest.bodies import read_body\nfrom muster_language.spec import Kind\n"
    "def refused(spec): assert read_body(Kind.TRAINING, {'name': 'x', 'spec': spec}).violations\n"
)
_JSON: Final = (
    "from muster_submission.rest.bodies import parse\nfrom muster_submission.rest.errors import BadBody\n"
    "def refused(text):\n"
    "    try: parse(text)\n"
    "    except BadBody: return\n"
    "    raise AssertionError(text[:80])\n"
)
_FILTER: Final = (
    "from muster_submission.domain.filtering import BadFilter, Places, read\n"
    "def refused(*given):\n"
    "    try: read(given, Places())\n"
    "    except BadFilter: return\n"
    "    raise AssertionError(given[0][:80])\n"
)

CASES: Final = {
    "a JSON text without its end, of escaped quotes": (_JSON, r"""refused('"' + '\\"' * 500_000)"""),
    "spaces in filterBy": (_FILTER, "refused(' ' * 60_000 + 'x')"),
    "a filterBy beyond its length": (_FILTER, "refused('name=' + ' ' * 4_000_000)"),
    "commas in filterBy": (_FILTER, "refused(',name' * 12_000)"),
    "unknown fields": (_DRAFT, "refused(HEAD + ''.join(f'  qpu{n}: 1\\n' for n in range(19_000)))"),
    "unknown words": (
        _DRAFT,
        (
            "refused(HEAD + '  tolerations: {items: {' + ', '.join("
            "'t%d: {value: {effect: x%d}}' % (n, n) for n in range(4_500)) + '}}')"
        ),
    ),
    "many documents": (
        _DRAFT,
        "refused('---\\n'.join([HEAD + ''.join(f'  qpu{n}: 1\\n' for n in range(900))] * 50))",
    ),
    "a list of many jobs": (
        _DRAFT,
        r"refused('apiVersion: x\nkind: ColossalAIJobList\nitems:\n' + '- {k: y}\n' * 6_000)",
    ),
    "a draft beyond the longest document": (_DRAFT, "refused(HEAD + '#' * 3_000_000)"),
    "unknown members": (_BODY, "refused({f'qpu{n}': 1 for n in range(40_000)})"),
    "labels that are none": (_BODY, "refused({'labels': [{'name': f'a {n}', 'value': '!'} for n in range(9_000)]})"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_shape_of_a_text_costs_the_square_of_its_length(case: tuple[str, str]) -> None:
    prepare, run = case
    code = f"{prepare}{_LIMIT}{run}"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "it was ended at its limit of CPU time"
