"""Every kind of work, one module each, and the table of their names.

To add a kind of work, write its class and name it in WORK. Nothing else lists the kinds: the state machine, prompts,
pipeline rules, graphs and schemas ask the class.
"""

from orchestrator.core.decide.work.agent import AgentWork
from orchestrator.core.decide.work.checks import ChecksWork
from orchestrator.core.decide.work.children import ChildrenWork
from orchestrator.core.decide.work.deliver import DeliverWork
from orchestrator.core.decide.work.intake import IntakeWork
from orchestrator.core.decide.work.record import RecordWork
from orchestrator.core.decide.work.steps import StepsWork
from orchestrator.core.decide.work.verify import VerifyWork
from orchestrator.core.task.pipeline import Work

WORK: dict[str, Work] = {
    kind.name: kind
    for kind in (
        IntakeWork(),
        AgentWork(),
        StepsWork(),
        VerifyWork(),
        ChildrenWork(),
        ChecksWork(),
        RecordWork(),
        DeliverWork(),
    )
}
"""Each kind of work by the name that pipeline files use."""
