"""A simulated fleet does what its scenario says, by the very decisions of the scheduler."""

from __future__ import annotations

from muster_kernel.quantities import GPU
from muster_scheduler.domain.asked.quotas import Quota
from muster_scheduler.domain.asked.terms import Label, Terms
from muster_scheduler.domain.asked.workloads import SECOND
from muster_scheduler.domain.books.pools import NodePool, Strategy
from muster_scheduler.domain.state import State
from muster_scheduler.simulation.record import Figures
from muster_scheduler.simulation.running import Simulation
from muster_scheduler.simulation.scenario import Ask, Change, Job, NodeGroup, Outage, Pace, Scenario, Tenant, request_of

HOUR = 3600 * SECOND
PACE = Pace(length=2 * HOUR, cycle=SECOND, sample=60 * SECOND, start=10 * SECOND, stop=5 * SECOND)


class Checked(State):
    """A state whose books are checked after every transaction."""

    def commit(self) -> None:
        super().commit()
        self.check()


def tenant(name: str = "p", gpus: int = 8, limit: int | None = None) -> Tenant:
    return Tenant(name, "d", (("default", Quota(gpus * GPU, limit)),))


def job(name: str, at: int, duration: int, ask: Ask | None = None, *, project: str = "p", fails: int = 0) -> Job:
    """Times in seconds."""
    return Job(name, project, at * SECOND, duration * SECOND, request_of(ask or Ask(gpus=8)), fails * SECOND)


def scenario(
    *jobs: Job,
    nodes: int = 1,
    tenants: tuple[Tenant, ...] = (tenant(),),
    pace: Pace = PACE,
    outages: tuple[Outage, ...] = (),
    changes: tuple[Change, ...] = (),
) -> Scenario:
    fleet = (NodeGroup("c", "default", "n", nodes, 8),)
    return Scenario("test", pace, fleet, tenants, tuple(jobs), outages, changes)


def run(given: Scenario) -> Figures:
    simulation = Simulation(given)
    checked = Checked(simulation.state.world.limits)
    simulation.state = checked
    return simulation.run()


def test_a_job_that_finds_no_room_waits_until_the_one_before_it_is_gone() -> None:
    figures = run(scenario(job("a", 0, 600), job("b", 60, 600)))
    (project,) = figures.projects
    assert (project.arrived, project.completed) == (2, 2)
    # a is placed at once, ready after 10 s and ends 600 s later: then, and not before, b is placed
    assert project.waits == (0, (10 + 600 - 60) * SECOND)
    assert max(sample.held for sample in figures.samples) == 8 * GPU
    assert figures.samples[5].waiting == 1
    assert figures.samples[-1].held == 0


def test_the_same_scenario_gives_the_same_figures() -> None:
    jobs = [job(f"j{n}", n * 7 % 300, 50 + n * 13 % 400, Ask(gpus=1 + n % 4), fails=n % 3 * 20) for n in range(120)]
    given = scenario(*sorted(jobs, key=lambda each: each.at), nodes=3)
    assert run(given) == run(given)


def test_what_runs_on_a_node_that_breaks_is_started_again_elsewhere() -> None:
    outage = Outage(300 * SECOND, 1200 * SECOND, "c", "n-0")
    figures = run(scenario(job("a", 0, 600), nodes=2, outages=(outage,)))
    (project,) = figures.projects
    assert project.completed == 1
    assert project.failed == 0
    free = [sample.free for sample in figures.samples]
    assert free[4] == 8 * GPU  # one node is busy, the other free
    assert min(free[6:9]) == 0  # one is down, the other busy
    assert free[-1] == 16 * GPU


def test_interrupted_work_goes_on_from_its_last_checkpoint() -> None:
    outage = Outage(500 * SECOND, 501 * SECOND, "c", "n")
    ends = []
    for checkpoint in (0, 100):
        pace = PACE._replace(checkpoint=checkpoint * SECOND)
        figures = run(scenario(job("a", 0, 600), pace=pace, outages=(outage,)))
        ends.append(
            next(s.at // SECOND for s in figures.samples if s.at > outage.at and s.held == 0 and s.waiting == 0)
        )
    assert ends[0] - ends[1] in range(360, 481)  # 400 s of the first 490 are saved, sampled once a minute


def test_a_job_that_fails_is_tried_again_and_ends_well() -> None:
    figures = run(scenario(job("a", 0, 300, fails=100)))
    assert (figures.projects[0].completed, figures.projects[0].failed) == (1, 0)


def test_a_job_without_retries_that_fails_has_failed() -> None:
    figures = run(scenario(job("a", 0, 300, Ask(gpus=8, retries=0), fails=100)))
    assert (figures.projects[0].completed, figures.projects[0].failed) == (0, 1)


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    gang = Ask(replicas=3, gpus=8)
    figures = run(scenario(job("one", 0, 600), job("gang", 10, 600, gang), nodes=3, tenants=(tenant(gpus=24),)))
    assert figures.projects[0].waits == (0, 600 * SECOND)
    assert {sample.held // GPU for sample in figures.samples} == {0, 8, 24}


def test_a_higher_priority_takes_the_place_of_a_lower_one() -> None:
    jobs = (job("low", 0, 600), job("high", 100, 300, Ask(gpus=8, priority=90)))
    (project,) = run(scenario(*jobs)).projects
    assert (project.completed, project.preempted) == (2, 1)
    assert project.waits[-1] < 20 * SECOND


def test_a_pool_is_filled_as_it_is_set_to() -> None:
    jobs = (job("a", 0, 600, Ask(gpus=1)), job("b", 60, 600, Ask(gpus=1)))
    free = []
    for strategy in (Strategy.BINPACK, Strategy.SPREAD):
        given = scenario(*jobs, nodes=2)._replace(pools=(NodePool(1, "c", "default", 1, strategy),))
        free.append(run(given).samples[5].whole // GPU)  # on nodes that are wholly free while both run
    assert free == [8, 0]


def test_a_quota_can_change_while_it_goes() -> None:
    fixed = Ask(gpus=8, preemptible=False)
    change = Change(600 * SECOND, tenant(gpus=8))
    figures = run(scenario(job("a", 0, 300, fixed), tenants=(tenant(gpus=4),), changes=(change,)))
    assert figures.projects[0].waits == (600 * SECOND,)
    assert 4 * GPU < figures.projects[0].deserved < 8 * GPU


def test_progress_is_told_at_every_sample() -> None:
    moments: list[int] = []
    Simulation(scenario(job("a", 0, 60)), lambda moment, _: moments.append(moment)).run()
    assert moments == [n * 60 * SECOND for n in range(121)]


def test_jobs_go_to_the_clusters_that_they_prefer_and_to_their_data() -> None:
    fleet = (
        NodeGroup("c", "default", "n", 2, 8),
        NodeGroup("d", "default", "n", 1, 8, labels=(("data", "x"),)),
        NodeGroup("e", "default", "n", 1, 8),
    )
    asks = (
        Ask(gpus=8, terms=Terms(preferred_clusters=("e", "d"))),
        Ask(gpus=8, terms=Terms(data=Label("data", "x"))),
        Ask(gpus=8, terms=Terms(preferred_clusters=("e", "d"))),
        Ask(gpus=8, clusters=("d", "e")),
    )
    jobs = [job(f"j{number}", number, 600, ask) for number, ask in enumerate(asks)]
    given = scenario(*jobs)._replace(fleet=fleet, tenants=(tenant(gpus=32),))
    ran: list[tuple[str, str]] = []
    simulation = Simulation(
        given, lambda *_: ran.extend((w.name, w.cluster) for w in simulation.state.world.workloads.values())
    )
    simulation.run()
    assert list(dict.fromkeys(each for each in ran if each[1])) == [("j0", "e"), ("j1", "d"), ("j2", "c"), ("j3", "e")]
