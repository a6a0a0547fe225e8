"""Departments, projects and node pools for programs: `muster.projects.create(..)`, `muster.departments.list()`.

Made once per client, beside resources.py. Holds: a key on every mutation, a deadline on every call, the API's own
messages as answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from muster.api.v1 import fleet_pb2, fleet_pb2_grpc, tenancy_pb2, tenancy_pb2_grpc
from muster.fleet.v1 import fleet_pb2 as fleet_books_pb2
from muster.tenancy.v1 import tenancy_pb2 as books_pb2
from muster_client.calls import new_key
from muster_client.pages import PAGE, pages
from muster_client.resources import Resource


class _Tenancy(Resource):
    @property
    def _stub(self) -> tenancy_pb2_grpc.TenancyServiceStub:
        return tenancy_pb2_grpc.TenancyServiceStub(self._channel)


class Projects(_Tenancy):
    """The queues into which workloads go."""

    async def create(
        self,
        name: str,
        *,
        department: str = "",
        namespace: str = "",
        quotas: Iterable[books_pb2.PoolQuota] = (),
        node_pools: Iterable[str] = (),
        like: books_pb2.Project | None = None,
        key: str | None = None,
    ) -> books_pb2.Project:
        """Makes a project. Raises AlreadyExists, InvalidInput.

        node_pools: what its workloads try by default. like: where everything else is taken from.
        """
        other = like or books_pb2.Project()
        request = tenancy_pb2.CreateProjectRequest(
            name=name,
            department=department or other.department,
            namespace=namespace or other.namespace,
            quotas=[*other.quotas, *quotas],
            default_node_pools=[*other.default_node_pools, *node_pools],
            description=other.description,
            model_quotas=other.model_quotas,
            user_limits=other.user_limits,
            rules=other.rules if other.HasField("rules") else None,
            node_types=other.node_types if other.HasField("node_types") else None,
            rank=other.rank,
            home_cluster=other.home_cluster,
            idempotency_key=key or new_key(),
        )
        return (await self._calls.unary(self._stub.CreateProject, request)).project

    async def get(self, name: str) -> books_pb2.Project:
        """One project. Raises NotFound."""
        return (await self._calls.unary(self._stub.GetProject, tenancy_pb2.GetProjectRequest(name=name))).project

    async def shares(self, names: Iterable[str] = ()) -> Sequence[fleet_books_pb2.Account]:
        """What projects hold and ask for in each node pool, with their fair shares. names: of these alone, up to 500.

        Raises Unavailable where the scheduler does not answer.
        """
        request = fleet_pb2.ListAccountsRequest(projects=names, with_shares=True)
        stub = fleet_pb2_grpc.FleetServiceStub(self._channel)
        return (await self._calls.unary(stub.ListAccounts, request)).accounts

    def list(self, *, department: str = "") -> AsyncIterator[books_pb2.Project]:
        """The projects, by name; of one department where it is named."""

        async def page(token: str) -> tuple[Sequence[books_pb2.Project], str]:
            request = tenancy_pb2.ListProjectsRequest(page_size=PAGE, page_token=token, department=department)
            answer = await self._calls.unary(self._stub.ListProjects, request)
            return answer.projects, answer.next_page_token

        return pages(page)

    async def update(
        self, project: books_pb2.Project, parts: Iterable[str] = (), *, key: str | None = None
    ) -> books_pb2.Project:
        """Changes these parts (all that can change, where none are named). Raises NotFound, Conflict, InvalidInput."""
        request = tenancy_pb2.UpdateProjectRequest(
            project=project, update_mask=FieldMask(paths=parts), idempotency_key=key or new_key()
        )
        return (await self._calls.unary(self._stub.UpdateProject, request)).project

    async def set_quota(self, project: str, quota: books_pb2.PoolQuota, *, key: str | None = None) -> books_pb2.Project:
        """Replaces a project's quota in the quota's node pool. Below what is in use is legal and stops nothing."""
        request = tenancy_pb2.SetProjectQuotaRequest(project=project, quota=quota, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub.SetProjectQuota, request)).project

    async def delete(self, name: str, *, key: str | None = None) -> None:
        """Removes a project. Raises NotFound, and NotNow while workloads of it have not ended."""
        request = tenancy_pb2.DeleteProjectRequest(name=name, idempotency_key=key or new_key())
        await self._calls.unary(self._stub.DeleteProject, request)


class Departments(_Tenancy):
    """The queues over projects."""

    async def create(self, department: books_pb2.Department, *, key: str | None = None) -> books_pb2.Department:
        """Makes a department. Raises AlreadyExists, InvalidInput."""
        request = tenancy_pb2.CreateDepartmentRequest(department=department, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub.CreateDepartment, request)).department

    async def get(self, name: str) -> books_pb2.Department:
        """One department. Raises NotFound."""
        request = tenancy_pb2.GetDepartmentRequest(name=name)
        return (await self._calls.unary(self._stub.GetDepartment, request)).department

    def list(self) -> AsyncIterator[books_pb2.Department]:
        """The departments, by name."""

        async def page(token: str) -> tuple[Sequence[books_pb2.Department], str]:
            request = tenancy_pb2.ListDepartmentsRequest(page_size=PAGE, page_token=token)
            answer = await self._calls.unary(self._stub.ListDepartments, request)
            return answer.departments, answer.next_page_token

        return pages(page)

    async def update(
        self, department: books_pb2.Department, parts: Iterable[str] = (), *, key: str | None = None
    ) -> books_pb2.Department:
        """Changes these parts (all that can change, where none are named). Raises NotFound, Conflict, InvalidInput."""
        request = tenancy_pb2.UpdateDepartmentRequest(
            department=department, update_mask=FieldMask(paths=parts), idempotency_key=key or new_key()
        )
        return (await self._calls.unary(self._stub.UpdateDepartment, request)).department

    async def set_quota(
        self, department: str, quota: books_pb2.PoolQuota, *, key: str | None = None
    ) -> books_pb2.Department:
        """Replaces a department's quota in the quota's node pool."""
        request = tenancy_pb2.SetDepartmentQuotaRequest(
            department=department, quota=quota, idempotency_key=key or new_key()
        )
        return (await self._calls.unary(self._stub.SetDepartmentQuota, request)).department

    async def delete(self, name: str, *, key: str | None = None) -> None:
        """Removes a department. Raises NotFound, and NotNow while it has projects."""
        request = tenancy_pb2.DeleteDepartmentRequest(name=name, idempotency_key=key or new_key())
        await self._calls.unary(self._stub.DeleteDepartment, request)


class NodePools(_Tenancy):
    """The nodes of a cluster by label."""

    async def create(self, pool: books_pb2.NodePool, *, key: str | None = None) -> books_pb2.NodePool:
        """Makes a node pool. Raises AlreadyExists, InvalidInput, NotFound for its cluster."""
        request = tenancy_pb2.CreateNodePoolRequest(node_pool=pool, idempotency_key=key or new_key())
        return (await self._calls.unary(self._stub.CreateNodePool, request)).node_pool

    def list(self, *, cluster: str = "") -> AsyncIterator[books_pb2.NodePool]:
        """The node pools, by cluster and name."""

        async def page(token: str) -> tuple[Sequence[books_pb2.NodePool], str]:
            request = tenancy_pb2.ListNodePoolsRequest(cluster=cluster, page_size=PAGE, page_token=token)
            answer = await self._calls.unary(self._stub.ListNodePools, request)
            return answer.node_pools, answer.next_page_token

        return pages(page)

    async def update(
        self, pool: books_pb2.NodePool, parts: Iterable[str] = (), *, key: str | None = None
    ) -> books_pb2.NodePool:
        """Changes these parts (all that can change, where none are named). Raises NotFound, Conflict, InvalidInput."""
        request = tenancy_pb2.UpdateNodePoolRequest(
            node_pool=pool, update_mask=FieldMask(paths=parts), idempotency_key=key or new_key()
        )
        return (await self._calls.unary(self._stub.UpdateNodePool, request)).node_pool

    async def delete(self, cluster: str, name: str, *, key: str | None = None) -> None:
        """Removes a node pool. Raises NotFound, and NotNow for the pool default."""
        request = tenancy_pb2.DeleteNodePoolRequest(cluster=cluster, name=name, idempotency_key=key or new_key())
        await self._calls.unary(self._stub.DeleteNodePool, request)
