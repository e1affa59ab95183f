"""What leaves the machine: branches and pull requests, callbacks."""

from orchestrator import clock
from orchestrator.daemon.reporting.callbacks import CallbackSources
from orchestrator.daemon.runs import RunExecutor
from orchestrator.integrations.callbacks.outbox import Outbox
from orchestrator.integrations.publishing.outbound import Outbound
from orchestrator.integrations.publishing.publisher import Publisher
from orchestrator.integrations.publishing.targets import PublishTargets
from orchestrator.integrations.tickets.trackers import trackers_of
from orchestrator.settings.environment import environment_with_secrets
from orchestrator.wiring.base import QUARANTINE, Base


def publish_targets(base: Base) -> PublishTargets:
    settings = base.settings.now
    return PublishTargets(
        settings.forge, trackers_of(settings), environment_with_secrets(), base.pipeline_of, base.files
    )


def publisher(base: Base, targets: PublishTargets) -> Publisher:
    outbound = Outbound(
        workspace=base.workspace,
        files=base.files,
        family_of=lambda task: base.pipeline_of(task).family,
        hosts=targets.hosts,
        redactor=base.redactor,
        quarantined=base.settings.now.data_dir / QUARANTINE,
        clock=clock.now,
    )
    return Publisher(outbound=outbound, tell_tracker=targets.tell)


def callback_outbox(base: Base, running: RunExecutor) -> Outbox:
    sources = CallbackSources(
        settings=lambda: base.settings.now,
        pipeline_of=base.pipeline_of,
        workspace=base.workspace,
        load=lambda task_id: base.store.load(task_id).task,
        note_of=running.last_message,
    )
    return sources.outbox(base.files, base.store.data_dir, base.redactor.masked, clock.now)
