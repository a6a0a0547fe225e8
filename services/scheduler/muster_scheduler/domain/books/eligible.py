"""Which nodes a workload may use by what its project and its department say beside its own words.

Called by placement, by reasons and by the clocks of what runs.
Holds: the stricter rule of the two counts; a workload that was never admitted may use any node.
"""

from __future__ import annotations

from muster_scheduler.domain.asked.rules import ANY_TYPE, NO_RULES, Rules, allowed_types, run_limit, tightened
from muster_scheduler.domain.asked.workloads import SECOND, Workload
from muster_scheduler.domain.books.queues import Queues
from muster_scheduler.domain.fleet.eligibility import ANY_NODE, Eligibility


def eligibility_of(queues: Queues, workload: Workload, grace: int) -> Eligibility:
    """The eligibility of an admitted workload; of one that is not, any node. grace: seconds that an end takes."""
    request = workload.request
    if request is None:
        return ANY_NODE
    project = queues.projects.get(workload.project)
    department = queues.department_of(workload.project)
    listed = (project.node_types if project else ANY_TYPE, department.node_types if department else ANY_TYPE)
    limit = run_limit(rules_of(queues, workload), request)
    return Eligibility(
        allowed_types(request.kind, request.terms.node_type, *listed),
        request.terms.tolerations,
        None if limit is None else max(0, limit * SECOND - workload.ran) + grace * SECOND,
        frozenset(workload.avoid),
    )


def rules_of(queues: Queues, workload: Workload) -> Rules:
    """The rules that hold for a workload: those of its project, which tighten those of its department."""
    project, department = queues.projects.get(workload.project), queues.department_of(workload.project)
    own = project.rules if project else NO_RULES
    return tightened(department.rules, own) if department else own
