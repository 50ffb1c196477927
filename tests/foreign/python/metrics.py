"""Reads metrics in Prometheus' text format from standard input with the parser of its Python library. Each argument is
NAME{LABEL=VALUE}>=NUMBER or NAME>=NUMBER: a sample, and the least value that it must have."""

import re
import sys

from prometheus_client.parser import text_string_to_metric_families

samples = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.type in ("counter", "gauge", "histogram"), family
    assert family.documentation, family.name
    for sample in family.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        assert key not in samples, f"{key} is there twice"
        samples[key] = sample.value

for wanted in sys.argv[1:]:
    name, label, value, least = re.fullmatch(r"(\w+)(?:\{(\w+)=([^}]*)\})?>=(\d+)", wanted).groups()
    labels = ((label, value),) if label else ()
    actual = samples.get((name, labels))
    assert actual is not None and actual >= int(least), f"{wanted}: {actual}"

# A histogram's ranges are cumulative, and the last one has all.
ranges = {}
for (name, labels), value in samples.items():
    if name.endswith("_bucket"):
        rest = tuple(label for label in labels if label[0] != "le")
        ranges.setdefault((name, rest), []).append((float(dict(labels)["le"]), value))
for (name, labels), values in ranges.items():
    counts = [count for _, count in sorted(values)]
    assert counts == sorted(counts), (name, labels, counts)
    assert counts[-1] == samples[name.removesuffix("_bucket") + "_count", labels], (name, labels)
assert ranges
