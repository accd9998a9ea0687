from __future__ import annotations

from pathlib import Path

import pytest

from experiments.generated_traces import FORMS, write
from labeled_traces.readers import read


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_whole(form: str, tmp_path: Path) -> None:
    write(tmp_path / "a.json", form, 0.3)
    data, report = read(tmp_path / "a.json")
    whole = {3, 4} if form.endswith("-mixed") else {{"agentrx": 16, "openinference": 12}.get(form, 13)}
    assert {len(row.trace.spans) for row in data} <= whole  # files of spans end within a trace
    assert not [kind for kind in report.counts if "left out" in kind]
    assert all(row.trace.roots[0].inputs for row in data)
