"""Why a request to the daemon failed, as its clients see it; apart from the client, which takes long to import."""

from typing import TYPE_CHECKING

from orchestrator.errors import OrchestratorError

if TYPE_CHECKING:
    from orchestrator.server.schemas.tasks import ProblemView


class DaemonUnreachable(OrchestratorError):
    """No daemon answers on the socket."""


class RequestRefused(OrchestratorError):
    """The daemon refused a request; `problem` says why."""

    def __init__(self, problem: "ProblemView") -> None:
        self.problem = problem
        super().__init__(problem.detail)

    @property
    def kind(self) -> str:
        """The last part of the problem's type, such as `no-such-task`."""
        return self.problem.type.rpartition(":")[2]
