"""Record data_folder.tar.xz and expected.json anew: `python tests/data/data_folder_v1/record.py`.

The files beside this script were recorded with it on 2026-11-22, with Python 3.11 and git 2.39, as root on Debian. The
script needs git, Python 3.11 or later with venv, and a package index. It takes one to three minutes. It

1. extracts COMMIT, the last commit that wrote state.json with `schema_version` 1, into ROOT/code;
2. makes an environment for that code in ROOT/venv;
3. runs drive.py with that code: a real daemon and the scripted agent bring one task into each state, the daemon is
   killed with SIGKILL, and its data folder is packed together with the repositories that it worked on;
4. lets the store of that code load the unpacked archive, and writes what it reads there to expected.json.

Files in a data folder hold absolute paths, so ROOT is fixed. tests/fakes/recorded.py unpacks the archive into another
folder whose path has the same length.

Ids, times and commits differ between two recordings. The tests name none of them. They pass six minutes after the
recording: then the usage limit that one of the tasks met is over, as it is for ever after.
"""

import shutil
import subprocess
import sys
from pathlib import Path

COMMIT = "fafb27782b9b689775bc3d903128c3f7c0ff4beb"
HERE = Path(__file__).resolve().parent
ROOT = Path("/tmp/orchestrator-data-folder-v1")


def main() -> int:
    """Record the folder; the exit code."""
    try:
        ROOT.mkdir(mode=0o700)
    except FileExistsError:
        sys.stderr.write(f"{ROOT} is there already, from another recording; remove it first\n")
        return 1
    try:
        python = environment(extracted(ROOT / "code"))
        # nothing of the recorder's own environment may get into the files that are packed
        clean = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(ROOT / "home"), "LANG": "C.UTF-8", "TZ": "UTC"}
        driving = [str(python), "-B", str(HERE / "drive.py"), str(ROOT), str(HERE)]
        subprocess.run(driving, check=True, cwd=ROOT / "code", env={**clean, "PYTHONPATH": str(ROOT / "code")})
    finally:
        shutil.rmtree(ROOT)
    return 0


def extracted(code: Path) -> Path:
    """The folder with the files of the commit."""
    code.mkdir()
    archive = subprocess.run(["git", "archive", COMMIT], check=True, capture_output=True, cwd=HERE.parents[2]).stdout
    subprocess.run(["tar", "--extract", "--directory", code], check=True, input=archive)
    return code


def environment(code: Path) -> Path:
    """The Python of a new environment that has what the code needs, in the versions that it was tested with."""
    venv = ROOT / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin/python"
    constraints = str(code / ".ci/constraints.txt")
    install = [str(python), "-m", "pip", "install", "--quiet", "--constraint", constraints, "--editable", str(code)]
    subprocess.run(install, check=True)
    return python


if __name__ == "__main__":
    sys.exit(main())
