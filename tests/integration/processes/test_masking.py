"""Provided values reach the agent and appear in no file of its run, whatever the agent does with them."""

import json
import os
from pathlib import Path

from orchestrator.processes.spec import RunSpec, Stdin
from orchestrator.redaction.masking import masks_of
from tests.folder_search import files_with, open_files
from tests.integration.processes.stage import QUICK, Stage, python

SECRET = 's3cr3t "Välue"'
TALK = """import json, os, sys
value = os.environ["TOKEN"]
print(json.dumps({"type": "user", "content": f"TOKEN={value}"}), flush=True)
print(json.dumps({"type": "user", "content": value}, ensure_ascii=False), flush=True)
for letter in f"never say {value} aloud\\n":
    sys.stderr.write(letter)
    sys.stderr.flush()
print(f"unfinished {value}", end="", file=sys.stderr, flush=True)
"""


async def start(stage: Stage, code: str, stdin: Stdin = Stdin.PUMP) -> Path:
    folder = stage.folder()
    spec = RunSpec(
        run="LOCAL-1/1",
        argv=python(code),
        cwd=stage.cwd,
        env={"PATH": os.environ["PATH"], "TOKEN": SECRET},
        secret=frozenset({"TOKEN"}),
        masks=masks_of({"TOKEN": SECRET}),
        stdin=stdin,
        limits=QUICK,
        cgroup=stage.cgroup,
    )
    await stage.runs.start(folder, spec)
    return folder


def told_of(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace")


async def test_an_agent_that_prints_its_values_reveals_nothing(stage: Stage) -> None:
    folder = await start(stage, TALK)
    assert (await stage.exit_of(folder)).code == 0
    lines = [json.loads(line) for line in stage.output(folder).splitlines()]
    assert [line["content"] for line in lines] == ["TOKEN=<TOKEN>", "<TOKEN>"]
    assert (folder / "stderr.log").read_text() == "never say <TOKEN> aloud\nunfinished <TOKEN>"
    assert files_with(stage.base, SECRET.encode(), json.dumps(SECRET)[1:-1].encode()) == []


async def test_the_output_of_a_check_is_masked_as_plain_text(stage: Stage) -> None:
    folder = await start(stage, f"print({SECRET!r}, '\"')", Stdin.NULL)
    await stage.exit_of(folder)
    assert stage.output(folder) == b'<TOKEN> "\n'


async def test_a_holder_does_not_reveal_the_values_in_its_process(stage: Stage) -> None:
    folder = await start(stage, "print('ready', flush=True)\ninput()")
    await stage.says(folder, b"ready")
    holder = stage.holder(folder)
    for name in ("environ", "cmdline"):
        assert SECRET not in told_of(holder, name)
    assert not any("memfd" in opened for opened in open_files(holder))
    assert "TOKEN" not in json.loads((folder / "spec.json").read_text())["env"]


async def test_an_agent_inherits_no_descriptor_of_its_holder(stage: Stage) -> None:
    folder = await start(
        stage, "import os\nprint(sorted(os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))"
    )
    await stage.exit_of(folder)
    assert stage.output(folder) == b"['0', '1', '2'] 4\n", "the fourth is the listing itself"


async def test_nothing_is_lost_of_a_long_line_that_repeats_a_value_many_times(stage: Stage) -> None:
    code = "import os\nvalue = os.environ['TOKEN']\nos.write(2, ''.join(f'{value}{n}' for n in range(50000)).encode())"
    folder = await start(stage, code)
    await stage.exit_of(folder)
    assert (folder / "stderr.log").read_text() == "".join(f"<TOKEN>{number}" for number in range(50000))
