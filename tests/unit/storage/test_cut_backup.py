"""What is said of a backup that has no end."""

import io

import pytest

from orchestrator.storage.backup.archive import DamagedBackup, read_members


def test_a_backup_without_content_is_said_to_be_cut_off() -> None:
    with pytest.raises(DamagedBackup, match="no whole backup: it is cut off"):
        list(read_members(io.BytesIO()))
