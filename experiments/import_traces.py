"""The time that import takes against `json.loads` of the same bytes, and its memory, on generated traces.

Each import is a process of its own: reading, labels, repairs, answers and writing. Times are of the CPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.generated_traces import ARRAYS, FORMS, write


@dataclass(frozen=True)
class Measured:
    """`loads`, `start` and `whole`: CPU seconds of json.loads, of an import of one trace, of the whole import."""

    form: str
    megabytes: float
    loads: float
    start: float
    whole: float
    peak: float

    @property
    def ratio(self) -> float:
        """Without the time that Python needs to start, which does not grow with the data."""
        return (self.whole - self.start) / self.loads


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.import_traces", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=100, help="of each form (100)")
    parser.add_argument("--formats", nargs="+", choices=tuple(FORMS), default=tuple(FORMS))
    parser.add_argument("--json", action="store_true", help="print one document; the table goes to stderr")
    args = parser.parse_args()
    shown = sys.stderr if args.json else sys.stdout
    print(f"{'format':15}{'MB':>8}{'json.loads s':>14}{'import s':>10}{'ratio':>7}{'peak MB':>9}", file=shown)
    found = []
    for form in args.formats:
        row = _measured(form, args.megabytes)
        found.append(row)
        said = f"{form:15}{row.megabytes:8,.0f}{row.loads:14.2f}{row.whole - row.start:10.2f}{row.ratio:7.1f}"
        print(f"{said}{row.peak:9,.0f}", file=shown, flush=True)
    if args.json:
        print(json.dumps([{**asdict(row), "ratio": row.ratio} for row in found], indent=2))


def _measured(form: str, megabytes: float) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder, "one.json"), Path(folder, "many.json")
        write(one, form, 0)
        write(many, form, megabytes)
        loads = _in_process(_LOADS, str(many), str(form in ARRAYS))
        begun, ended = (_in_process(_IMPORT, str(path), f"{folder}/out.jsonl") for path in (one, many))
        return Measured(form, many.stat().st_size / 1e6, loads["cpu"], begun["cpu"], ended["cpu"], ended["peak"])


_LOADS = """
import json
with open(sys.argv[1], "rb") as file:
    started = time.process_time()
    for text in [file.read()] if sys.argv[2] == "True" else file:
        json.loads(text)
    cpu = time.process_time() - started
"""
_IMPORT = """
import contextlib, io
from pipeline.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main(["import", sys.argv[1], "--out", sys.argv[2], "--force"]) == 0
cpu = time.process_time()
"""
_SAID = """
import json
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 * 1.024
print(json.dumps({"cpu": cpu, "peak": peak}))
"""


def _in_process(code: str, *arguments: str) -> Any:
    ran = subprocess.run(
        [sys.executable, "-c", f"import resource, sys, time\n{code}{_SAID}", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(ran.stdout)


if __name__ == "__main__":
    main()
