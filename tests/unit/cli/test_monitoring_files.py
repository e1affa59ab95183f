"""The files for Prometheus and Grafana hold what promtool accepts, and ask only for metrics that exist."""

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from orchestrator.cli.app import build_app
from tests.monitoring import NAME, documented_metrics, promtool

DATA = Path(__file__).parents[2] / "data/monitoring"
OF_HISTOGRAMS = re.compile(r"_(bucket|count|sum)$")


def printed(what: str) -> str:
    done = CliRunner().invoke(build_app(["metrics", what]), ["metrics", what])
    assert done.exit_code == 0, done.output
    return done.stdout


def expressions() -> list[str]:
    rules: Any = yaml.safe_load(printed("rules"))
    dashboard = json.loads(printed("dashboard"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return [*queries, *(rule["expr"] for group in rules["groups"] for rule in group["rules"])]


@pytest.mark.parametrize("what", ["config", "rules", "dashboard"])
def test_what_is_printed_is_the_file_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    name = {"config": "prometheus.yaml", "rules": "rules.yaml", "dashboard": "dashboard.json"}[what]
    assert printed(what) == (files("orchestrator") / "monitoring" / name).read_text()


def test_the_job_names_the_address_at_which_the_daemon_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "orchestrator/orchestrator.toml"
    file.parent.mkdir()
    file.write_text('listen = "127.0.0.1:8791"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    [job] = yaml.safe_load(printed("config"))["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8791"]}]


def test_every_query_names_metrics_that_are_documented() -> None:
    asked = {OF_HISTOGRAMS.sub("", name) for text in expressions() for name in NAME.findall(text)}
    assert len(asked) > 20
    assert asked - documented_metrics() == set()


def test_every_metric_is_shown_or_alerted_on() -> None:
    asked = {OF_HISTOGRAMS.sub("", name) for text in expressions() for name in NAME.findall(text)}
    ours = {name for name in documented_metrics() if name.startswith("orchestrator_")}
    assert ours - asked == {"orchestrator_info"}


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    panels = json.loads(printed("dashboard"))["panels"]
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) == 23
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_promtool_accepts_the_rules_and_the_configuration(tmp_path: Path) -> None:
    rules, config = tmp_path / "rules.yaml", tmp_path / "prometheus.yml"
    rules.write_text(printed("rules"))
    config.write_text(printed("config"))
    assert "SUCCESS: 14 rules found" in promtool("check", "rules", str(rules))
    promtool("check", "config", "--syntax-only", str(config))


def test_every_alert_is_raised_when_it_should_be_and_not_before(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(printed("rules"))
    tests = shutil.copy(DATA / "rules_test.yaml", tmp_path)
    promtool("test", "rules", str(tests))
    alerts = {rule["alert"] for group in yaml.safe_load(printed("rules"))["groups"] for rule in group["rules"]}
    assert alerts == set(re.findall(r"alertname: (\w+)", (DATA / "rules_test.yaml").read_text()))


def test_promtool_accepts_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [text.replace("$job", "orchestrator").replace("$instance", ".*") for text in expressions()]
    rules = [{"record": f"query:{number}", "expr": text} for number, text in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", str(file))
