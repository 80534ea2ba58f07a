"""The documents, the alerts and the dashboard name the metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # it ships none
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from tpc.coordinator.operations.monitoring.metrics import families

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
ROW = re.compile(r"^\| `(tpc_\w+)` \| (\w+) \| (.+?) \|", re.MULTILINE)
NAME = re.compile(r"\btpc_[a-z_]+")

REGISTRY = CollectorRegistry()
OF_CODE = {name: one for name, one in vars(families(REGISTRY)).items() if isinstance(one, MetricWrapperBase)}


def described() -> list[Metric]:
    return [metric for one in OF_CODE.values() for metric in one.describe()]


def documented(metric: Metric) -> str:
    """The name that is scraped, in documents and expressions."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def scraped_names() -> set[str]:
    """Everything that an expression may name."""
    suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "gauge": ("",)}
    return {metric.name + suffix for metric in described() for suffix in suffixes[metric.type]}


def test_the_table_of_metrics_is_the_registry_s() -> None:
    table = {(name, kind) for name, kind, _ in ROW.findall((ROOT / "docs/reference/metrics.md").read_text())}
    assert table == {(documented(metric), metric.type) for metric in described()}


def test_the_table_names_the_labels_of_every_metric() -> None:
    rows = ROW.findall((ROOT / "docs/reference/metrics.md").read_text())
    labels = {name: tuple(re.findall(r"`(\w+)`", named)) for name, _, named in rows}
    assert labels == {documented(m): one._labelnames for one in OF_CODE.values() for m in one.describe()}


def test_every_metric_says_what_it_is() -> None:
    assert all(metric.documentation.endswith(".") for metric in described())


def test_the_alerts_name_metrics_that_exist_and_each_says_what_to_do() -> None:
    [group] = yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]
    assert len(group["rules"]) == 6
    for rule in group["rules"]:
        assert NAME.findall(rule["expr"]), rule["alert"]
        assert set(NAME.findall(rule["expr"])) <= scraped_names(), rule["alert"]
        assert {"summary", "action"} <= set(rule["annotations"])
        assert set(NAME.findall(json.dumps(rule["annotations"]))) <= scraped_names() | names_of_histograms()


def names_of_histograms() -> set[str]:
    return {metric.name for metric in described() if metric.type == "histogram"}


def test_the_dashboard_names_metrics_that_exist_and_shows_every_one() -> None:
    dashboard: dict[str, Any] = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    named = {name for expression in expressions for name in NAME.findall(expression)}
    assert named <= scraped_names()
    shown = {metric.name for metric in described() if any(name.startswith(metric.name) for name in named)}
    assert {metric.name for metric in described()} - shown == {"tpc_recoveries"}  # changes() shows starts better
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
