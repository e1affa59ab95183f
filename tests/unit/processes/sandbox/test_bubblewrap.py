"""The command of bubblewrap: what is mounted, in which order, and what precedes the command itself."""

from pathlib import Path

from orchestrator.processes.sandbox.bubblewrap import SHIELDED, wrap
from orchestrator.processes.sandbox.mounts import Access, Mount

EMPTY, WORKTREE = Path("/d/empty"), Path("/d/worktrees/T-1")
DATA = Mount(path=Path("/d"), access=Access.HIDDEN)


def words(*mounts: Mount, is_root: bool = False) -> list[str]:
    """Return the words, with the arguments of each option in one piece."""
    given = wrap("/usr/bin/bwrap", mounts, EMPTY, WORKTREE, is_root=is_root)
    return " ".join(given).split(" --")


def test_the_machine_is_read_only_and_the_command_has_namespaces_of_its_own() -> None:
    given = words()
    assert given[0] == "/usr/bin/bwrap"
    assert {"unshare-pid", "unshare-ipc", "unshare-uts", "die-with-parent"} <= set(given)
    assert given.index("ro-bind / /") < given.index("dev /dev") < given.index("proc /proc")


def test_the_command_starts_in_its_folder_and_gets_the_signals_that_its_sandbox_ignores() -> None:
    assert wrap("bwrap", (), EMPTY, WORKTREE, is_root=False)[-5:] == (
        "--chdir",
        str(WORKTREE),
        "--",
        "/usr/bin/env",
        f"--default-signal={','.join(SHIELDED)}",
    )


def test_what_is_shown_in_a_hidden_folder_is_mounted_after_it_and_before_it_is_sealed() -> None:
    given = words(DATA, Mount(path=WORKTREE, access=Access.WRITABLE))
    order = ["tmpfs /d", "bind /d/worktrees/T-1 /d/worktrees/T-1", "remount-ro /d"]
    assert [word for word in given if word in order] == order


def test_a_hidden_file_is_an_empty_one_and_a_private_folder_stays_writable() -> None:
    secret = Mount(path=Path("/home/ada/.netrc"), access=Access.HIDDEN, is_folder=False)
    given = words(secret, Mount(path=Path("/tmp"), access=Access.PRIVATE))
    assert "ro-bind /d/empty /home/ada/.netrc" in given
    assert "tmpfs /tmp" in given
    assert not [word for word in given if word.startswith("remount-ro")]


def test_readable_and_writable_paths_are_bound_and_devices_can_be_opened() -> None:
    device = Mount(path=Path("/dev/kvm"), access=Access.WRITABLE, is_folder=False)
    given = words(Mount(path=Path("/d/objects"), access=Access.READABLE), device)
    assert "ro-bind /d/objects /d/objects" in given
    assert "dev-bind /dev/kvm /dev/kvm" in given


def test_no_capability_is_left_and_root_keeps_only_those_for_files() -> None:
    assert "cap-drop ALL" in words()
    assert not [word for word in words() if word.startswith("cap-add")]
    kept = {word for word in words(is_root=True) if word.startswith("cap-add")}
    assert "cap-add CAP_CHOWN" in kept
    assert not {"cap-add CAP_SYS_ADMIN", "cap-add CAP_KILL", "cap-add CAP_SYS_PTRACE"} & kept
