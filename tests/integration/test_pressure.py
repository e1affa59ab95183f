"""Readings of the machine's resources."""

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.core.schedule.pressure import Floors, ShortOf, judge
from orchestrator.daemon.monitors import read_resources

MIB = 2**20


def test_the_disk_is_the_one_of_the_data_folder(tmp_path: Path) -> None:
    assert abs(read_resources(tmp_path).free_disk - shutil.disk_usage(tmp_path).free) < 1024 * MIB
    assert read_resources(Path("/proc")).free_disk == 0


def test_memory_is_what_the_kernel_reports_as_available() -> None:
    rows = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(row.split()[1]) * 1024 for row in rows if row.startswith("MemAvailable:"))
    assert abs(read_resources(Path("/")).available_memory - available) < 1024 * MIB


def test_the_load_is_per_processor() -> None:
    cores = os.cpu_count() or 1
    before = os.getloadavg()[0] / cores
    load = read_resources(Path("/")).load_per_core
    assert load in {before, os.getloadavg()[0] / cores}


def test_a_reading_can_be_evaluated(tmp_path: Path) -> None:
    reading = read_resources(tmp_path)
    assert judge(reading, Floors(free_disk=1, available_memory=1, load_per_core=1000)) is None
    shortage = judge(reading, Floors(free_disk=reading.free_disk + 1))
    assert shortage is not None
    assert shortage.kind is ShortOf.DISK


def test_a_missing_data_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_resources(tmp_path / "gone")
