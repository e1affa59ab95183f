"""What installs and removes a service: plans that are shown, and carried out on real files."""

import os
from pathlib import Path

import pytest

from orchestrator.cli.service.carrying_out import carry_out, forget
from orchestrator.cli.service.content import files_of, links_of
from orchestrator.cli.service.plan import Deed, Step, installation, removal
from orchestrator.cli.service.record import read_record
from orchestrator.cli.service.scope import Places, Scope, ServiceRefused
from orchestrator.cli.service.upgrade import source_of, upgrade_steps


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Those of a user's service, below a folder of the test."""
    config = tmp_path / "config"
    return Places(
        scope=Scope.USER,
        units=config / "systemd/user",
        config=config / "orchestrator",
        data_dir=tmp_path / "state/50% of it",
        socket=tmp_path / "run/orchestrator.sock",
        account="ann",
        home=tmp_path,
        prefix=tmp_path / "venv 5%",
    )


def deeds(steps: list[Step], *kinds: Deed) -> list[str]:
    return [step.path.name if step.path else " ".join(step.command) for step in steps if step.deed in kinds]


def files_only(steps: list[Step]) -> list[Step]:
    return [step for step in steps if step.path is not None]


def install(places: Places) -> list[Step]:
    """Write the files of an installation; there is no service manager for its commands."""
    steps = files_only(installation(places, read_record(places.record), lingers=True))
    carry_out(places, steps, lambda _: None)
    return steps


def remove(places: Places, *, delete_data: bool = False) -> list[Step]:
    steps = removal(places, read_record(places.record), delete_data=delete_data)
    carry_out(places, files_only(steps), lambda _: None)
    forget(places)
    return steps


def test_an_installation_writes_what_is_missing_and_a_second_one_nothing(places: Places) -> None:
    wanted = ["orchestrator.service", "install.conf", "orchestrator.toml"]
    assert deeds(install(places), Deed.WRITE) == wanted
    assert deeds(install(places), Deed.SAME) == wanted
    assert oct(places.unit.stat().st_mode & 0o777) == "0o600"


def test_the_commands_start_a_service_that_is_the_same_and_restart_one_that_changed(places: Places) -> None:
    first = installation(places, read_record(places.record), lingers=False)
    assert deeds(first, Deed.RUN) == [
        "loginctl enable-linger ann",
        "systemctl --user daemon-reload",
        "systemctl --user enable orchestrator.service",
        "systemctl --user restart orchestrator.service",
    ]
    install(places)
    again = installation(places, read_record(places.record), lingers=True)
    assert deeds(again, Deed.RUN)[-1] == "systemctl --user start orchestrator.service"


def test_files_of_an_older_version_are_replaced_and_changed_ones_are_kept(places: Places) -> None:
    install(places)
    places.settings.write_text("max_agents = 9\n")
    carry_out(places, [Step(deed=Deed.WRITE, path=places.unit, content=b"[Unit]\n# older\n")], lambda _: None)
    steps = install(places)
    assert deeds(steps, Deed.WRITE) == ["orchestrator.service"]
    assert deeds(steps, Deed.KEEP) == ["orchestrator.toml"]
    assert places.unit.read_bytes() == files_of(places)[places.unit]
    assert places.settings.read_text() == "max_agents = 9\n"


def test_a_file_that_somebody_else_wrote_is_neither_overwritten_nor_removed(places: Places) -> None:
    places.drop_ins.mkdir(parents=True)
    (places.drop_ins / "mine.conf").write_text("[Service]\n")
    places.unit.write_text("[Unit]\n")
    assert deeds(install(places), Deed.KEEP) == ["orchestrator.service"]
    remove(places)
    assert places.unit.read_text() == "[Unit]\n"
    assert [file.name for file in places.drop_ins.iterdir()] == ["mine.conf"]


def test_a_removal_leaves_nothing_but_the_data_unless_that_is_given_up_too(places: Places) -> None:
    (places.data_dir / "tasks").mkdir(parents=True)
    install(places)
    steps = remove(places)
    assert deeds(steps, Deed.KEEP) == [places.data_dir.name]
    assert [path for path in places.config.rglob("*") if path.is_file()] == []
    assert not places.config.is_dir() or not any(places.config.joinpath("orchestrator").glob("*"))
    assert (places.data_dir / "tasks").is_dir()
    assert not [step for step in steps if step.deed is Deed.DELETE_DATA]
    remove(places, delete_data=True)
    assert not places.data_dir.exists()


def test_an_installation_that_was_cut_off_can_be_repeated_and_removed(places: Places) -> None:
    """The record is written first, so each file is ours from its first byte on."""
    steps = files_only(installation(places, read_record(places.record), lingers=True))

    def cut_off(step: Step) -> None:
        if step.path == places.settings:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(places, steps, cut_off)
    assert places.unit.exists()
    assert not places.settings.exists()
    assert deeds(install(places), Deed.WRITE) == ["orchestrator.toml"]
    remove(places)
    assert not places.unit.exists()


def test_nothing_is_written_through_a_link(places: Places, tmp_path: Path) -> None:
    places.units.mkdir(parents=True)
    places.unit.symlink_to(tmp_path / "elsewhere")
    assert deeds(install(places), Deed.KEEP) == ["orchestrator.service"]
    with pytest.raises(ServiceRefused, match="is a link"):
        carry_out(places, [Step(deed=Deed.WRITE, path=places.unit, content=b"x")], lambda _: None)
    assert not (tmp_path / "elsewhere").exists()


def test_a_command_that_fails_is_named_with_what_it_said(places: Places) -> None:
    step = Step(deed=Deed.RUN, command=("sh", "-c", "echo no such account >&2; exit 7"))
    with pytest.raises(ServiceRefused, match=r"failed \(7\): no such account"):
        carry_out(places, [step], lambda _: None)
    carry_out(places, [Step(deed=Deed.TRY, command=step.command)], lambda _: None)


def test_paths_with_spaces_and_percent_signs_reach_systemd_and_the_settings(places: Places) -> None:
    files = files_of(places)
    drop_in = files[places.drop_ins / "install.conf"].decode()
    assert f'ExecStart="{places.prefix.parent}/venv 5%%/bin/orchestrator" serve' in drop_in
    assert f'data_dir = "{places.data_dir}"' in files[places.settings].decode()


def test_the_machine_s_service_has_an_account_its_folders_and_fewer_rights(places: Places) -> None:
    system = Places(**{**{name: getattr(places, name) for name in places.__slots__}, "scope": Scope.SYSTEM})
    names = [path.as_posix() for path in files_of(system)]
    assert [name for name in names if name.startswith("/etc/")] == [
        "/etc/sysusers.d/orchestrator.conf",
        "/etc/tmpfiles.d/orchestrator.conf",
    ]
    assert str(system.drop_ins / "hardening.conf") in names
    assert list(links_of(system).values()) == [system.program]
    assert "User=ann" in files_of(system)[system.drop_ins / "install.conf"].decode()


def test_an_upgrade_drains_and_saves_only_if_that_is_wanted(places: Places) -> None:
    words = [" ".join(step.command) for step in upgrade_steps(places, "x.whl", Path("/b"), drain=True)]
    program = str(places.program)
    assert words[:2] == [f"{program} drain", f"{program} backup /b"]
    assert words[2].endswith("-m pip install --quiet --upgrade x.whl")
    assert len(upgrade_steps(places, "x.whl", None, drain=False)) == len(words) - 2


def test_what_is_upgraded_to_is_what_was_named_or_where_this_version_came_from() -> None:
    assert source_of(".[claude]") == ".[claude]"
    assert source_of("").startswith("orchestrator")
    with pytest.raises(ServiceRefused, match="is not a source"):
        source_of("--index-url=http://evil.example")


def test_a_record_that_cannot_be_read_owns_nothing(places: Places) -> None:
    install(places)
    places.record.write_text("{")
    assert not read_record(places.record).is_ours(places.unit)
    assert os.path.lexists(places.unit)
