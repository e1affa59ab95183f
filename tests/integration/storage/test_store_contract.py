"""Every store, tested against the contract."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from orchestrator.storage.event_index import INDEX
from orchestrator.storage.journal import NAME
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.protocols import Store
from orchestrator.supervisor.simulation.memory import FaultInjector, MemoryDisk, MemoryStore, SimulatedCrash
from tests.integration.storage.store_contract import Harness, StoreContract

Sizes = dict[Path, int]


@dataclass
class Folder:
    """A data folder; a crash leaves a copy of it, in which the newest files may be shorter."""

    root: Path
    opened: list[FolderStore] = field(default_factory=list)
    copies: Iterator[int] = field(default_factory=count)

    def open(self) -> Store:
        return self._opened(self.root / "data")

    def after_crash(self) -> Store:
        copy = self.root / f"copy-{next(self.copies)}"
        shutil.copytree(self.root / "data", copy)
        return self._opened(copy)

    def after_crashes_in(self, store: Store, commit: Callable[[], None]) -> Iterator[Store]:
        """The journal is written before the index, and each may end anywhere in its new line."""
        store.settle()
        journal = self.root / "data" / "tasks" / "LOCAL-1" / NAME
        index = self.root / "data" / INDEX
        begin = {path: path.stat().st_size for path in (journal, index)}
        commit()
        end = {path: path.stat().st_size for path in (journal, index)}
        for cut in (begin[journal], begin[journal] + 1, end[journal] - 1):
            yield self._shortened({journal: cut, index: begin[index]})
        for cut in (begin[index], begin[index] + 5, end[index] - 1, end[index]):
            yield self._shortened({journal: end[journal], index: cut})
        yield self._shortened({index: 0})

    def close(self) -> None:
        for store in self.opened:
            with suppress(OSError):
                store.close()

    def _shortened(self, sizes: Sizes) -> Store:
        copy = self.root / f"copy-{next(self.copies)}"
        shutil.copytree(self.root / "data", copy)
        for path, size in sizes.items():
            os.truncate(copy / path.relative_to(self.root / "data"), size)
        return self._opened(copy)

    def _opened(self, folder: Path) -> FolderStore:
        store = FolderStore(folder)
        self.opened.append(store)
        return store


@dataclass
class Memory:
    """A disk in memory; a crash leaves a copy of it that is not in use."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    faults: FaultInjector = field(default_factory=FaultInjector)

    def open(self) -> Store:
        return MemoryStore(self.disk, self.faults)

    def after_crash(self) -> Store:
        copy = deepcopy(self.disk)
        copy.in_use = False
        return MemoryStore(copy, FaultInjector())

    def after_crashes_in(self, store: Store, commit: Callable[[], None]) -> Iterator[Store]:  # noqa: ARG002
        for steps in range(2):
            self.faults.crash_after(steps)
            with pytest.raises(SimulatedCrash):
                commit()
            yield self.after_crash()


class TestFolderStore(StoreContract):
    """Tasks in folders."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Harness]:
        folder = Folder(tmp_path)
        yield folder
        folder.close()


class TestMemoryStore(StoreContract):
    """Tasks in memory, as the simulation stores them."""

    @pytest.fixture
    def place(self) -> Harness:
        return Memory()
