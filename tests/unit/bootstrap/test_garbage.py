"""Full collections of garbage pass over what the daemon keeps."""

import subprocess
import sys

PROGRAM = """
import gc
from orchestrator.bootstrap.garbage import keep_collections_short
keep_collections_short()
before = gc.get_freeze_count()
gc.collect()
quick = gc.get_freeze_count()
kept = []
while gc.get_freeze_count() == before and len(kept) < 50:
    kept.append([[number] for number in range(1_000_000)])
    gc.collect()
print(before > 1000, quick == before, gc.get_freeze_count() > before + 100_000)
"""


def test_what_made_a_collection_long_is_passed_over_by_the_next() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
