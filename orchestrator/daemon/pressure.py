"""How much room the machine has: the disk of the data folder, memory, load."""

from pathlib import Path

import psutil

from orchestrator.core.schedule.pressure import ResourceReading


class Sensor:
    """Reads the machine; `data_dir` says which disk."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = str(data_dir)
        self._cores = psutil.cpu_count() or 1

    def reading(self) -> ResourceReading:
        """How the machine is now; raises OSError when the data folder is gone."""
        return ResourceReading(
            free_disk=psutil.disk_usage(self._data_dir).free,
            available_memory=psutil.virtual_memory().available,
            load_per_core=psutil.getloadavg()[0] / self._cores,
        )
