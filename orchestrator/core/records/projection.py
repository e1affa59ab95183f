"""Files that show a task as another program or a person expects it: derived from its state, and never read for it.

A family of pipelines that has such files implements `Projection`. The daemon writes them below `records/` in the task's
folder, after the decisions of the task and of its children, and again when it starts. So a projection that is lost or
changed costs nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.core.task.task import Task

RECORDS = "records"
"""The folder of a task that its projections are in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """A task that is to be shown. `children` has what `facts` made of each child that is a task, by its id.

    `artifact` returns the text of a file in the task's folder, `record` that of a file which an earlier projection
    wrote; both return "" for a file that is not there. Texts of agents have their secrets masked.
    """

    task: Task
    children: Mapping[str, object]
    artifact: Callable[[str], str]
    record: Callable[[str], str]


class Projection(ABC):
    """Composes the files. It reads nothing but what it is given, so the same state gives the same files."""

    def facts(self, child: Task, artifact: Callable[[str], str]) -> object:
        """Return what the files of its parent say of a child; it is kept until the next decision of that child."""
        del artifact
        return child

    @abstractmethod
    def files(self, projected: Projected) -> Mapping[str, str]:
        """Return the texts of the files by their names; files that it does not name stay as they are."""
