"""What the daemon's own examination found, as a file that survives a restart."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.daemon.inspection.doctor_checks import DoctorFinding
from orchestrator.formats.versioned import read_versioned, write_versioned

NAME = "doctor.json"
FORMAT = 1
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminationRecord:
    """An examination that was due at a time: when it was made, what it found, and whether people were told.

    `known` names the findings that people were told of before.
    """

    due: datetime
    checked_at: datetime
    findings: tuple[DoctorFinding, ...]
    is_told: bool = False
    known: tuple[str, ...] = ()


def read_record(folder: Path) -> ExaminationRecord | None:
    """Return what was recorded last; None if there is nothing that can be read. Blocks."""
    record = read_versioned(ExaminationRecord, folder / NAME, FORMAT)
    return record if record is not None and record.due > _EVER else None


def write_record(folder: Path, record: ExaminationRecord) -> None:
    """Replace what was recorded last. Blocks. Raises OSError."""
    write_versioned(folder / NAME, record, FORMAT)
