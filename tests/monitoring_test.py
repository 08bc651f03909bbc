#!/usr/bin/env python3
"""The metrics that examples/ asks for are those that a server has.  monitoring_test.py BINARY"""
import json
import pathlib
import re
import subprocess
import sys
import unittest
import urllib.request

BINARY = sys.argv[1]
ROOT = pathlib.Path(__file__).parent.parent
MODEL = ROOT / "models" / "story-q4_k_m.gguf"
DASHBOARD = ROOT / "examples" / "grafana" / "rocmforge.json"
ALERTS = ROOT / "examples" / "prometheus" / "alerts.yaml"
PATIENCE = 60


def scraped():
    """What a server tells after an answer: types by name, labels by name."""
    process = subprocess.Popen([BINARY, "serve", str(MODEL), "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        base = next(found.group(1) for line in process.stderr if (found := re.search(r"ready: (http://\S+)", line)))
        body = json.dumps({"prompt": "Once", "max_tokens": 3}).encode()
        urllib.request.urlopen(urllib.request.Request(base + "/v1/completions", data=body), timeout=PATIENCE).read()
        text = urllib.request.urlopen(base + "/metrics", timeout=PATIENCE).read().decode()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    labels = {}
    for name, found in re.findall(r"^([a-z_:]+)(?:\{(.*)\})? ", text, re.M):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', found))
    return types, labels


class MonitoringTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.types, cls.labels = scraped()

    def check(self, expression):
        names = re.findall(r"\b(rocmforge_\w+)(\{[^}]*\})?(\[)?", expression)
        self.assertTrue(names or expression.startswith("up{"), f"asks for nothing: {expression}")
        for name, selector, is_range in names:
            family = re.sub("_bucket$", "", name)
            self.assertIn(family, self.types, expression)
            self.assertEqual(name.endswith("_bucket"), self.types[family] == "histogram", expression)
            for label in re.findall(r"(\w+)=~?\"", selector):
                self.assertTrue(label == "instance" or label in self.labels[name], f"{name} has no {label}: {expression}")
            is_counting = self.types[family] in ("counter", "histogram")
            self.assertEqual(bool(is_range), is_counting, f"only what counts has a rate: {expression}")
        for grouped in re.findall(r"by \(([^)]*)\)", expression):
            for label in grouped.split(", "):
                self.assertIn(label, ("le", "instance", "model"), expression)
        self.assertEqual(expression.count("("), expression.count(")"), expression)

    def test_the_dashboard_asks_for_metrics_that_exist(self):
        dashboard = json.loads(DASHBOARD.read_text())
        panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
        self.assertGreater(len(panels), 12)
        for panel in panels:
            self.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                self.check(target["expr"])
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
                self.assertIn(name, self.types)
                self.assertTrue(label == "instance" or label in self.labels[name])

    def test_the_alerts_ask_for_metrics_that_exist(self):
        text = ALERTS.read_text()
        alerts = re.findall(r"- alert: (\w+)\n\s+expr: (\|\n(?:\s{10,}.*\n)+|.*\n)", text)
        self.assertEqual(len(alerts), text.count("- alert:"))
        self.assertGreater(len(alerts), 5)
        for _, expression in alerts:
            self.check(" ".join(expression.removeprefix("|").split()))
        self.assertEqual(text.count("severity:"), len(alerts))
        self.assertEqual(text.count("summary:"), len(alerts))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
