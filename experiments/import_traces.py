"""The time that import takes against `json.loads` of the same bytes, and its memory, on generated traces.

Each run is a process of its own, `json.loads` and import in turn, of a file just written. Times are of the
CPU, without the start of Python: the medians of `--repeats`. Import is all that the command does: reading (with
parsing), making traces (with repairs and the search for answers), writing. `json.loads` reads line by line, or a
document at once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.generated_traces import DOCUMENTS, FORMS, write


@dataclass(frozen=True)
class Measured:
    """CPU seconds of json.loads, and of import by parts; `peak`: megabytes of memory of import."""

    form: str
    megabytes: float
    loads: float
    reading: float
    traces: float
    writing: float
    peak: float

    @property
    def whole(self) -> float:
        return self.reading + self.traces + self.writing

    @property
    def ratio(self) -> float:
        return self.whole / self.loads


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.import_traces", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=100, help="of each form (100)")
    parser.add_argument("--formats", nargs="+", choices=tuple(FORMS), default=tuple(FORMS))
    parser.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="runs of each, of which the median counts (3)"
    )
    parser.add_argument("--json", action="store_true", help="print one document; the table goes to stderr")
    args = parser.parse_args()
    shown = sys.stderr if args.json else sys.stdout
    names = ("format", "MB", "json.loads s", "import s", "ratio", "reading", "traces", "writing", "peak MB")
    print("{:16}{:>7}{:>14}{:>10}{:>7}{:>10}{:>8}{:>9}{:>9}".format(*names), file=shown)
    found = []
    for form in args.formats:
        row = _measured(form, args.megabytes, args.repeats)
        found.append(row)
        times = f"{row.loads:14.2f}{row.whole:10.2f}{row.ratio:7.1f}"
        parts = f"{row.reading:10.2f}{row.traces:8.2f}{row.writing:9.2f}"
        print(f"{form:16}{row.megabytes:7,.0f}{times}{parts}{row.peak:9,.0f}", file=shown, flush=True)
    if args.json:
        print(json.dumps([{**asdict(row), "whole": row.whole, "ratio": row.ratio} for row in found], indent=2))


def _measured(form: str, megabytes: float, repeats: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        one, many = Path(folder, "one.json"), Path(folder, "many.json")
        write(one, form, 0)
        write(many, form, megabytes)
        codes = {"reading": _READING, "traces": _TRACES, "whole": _IMPORT}
        started = {name: _in_process(code, str(one), f"{folder}/out.jsonl")["cpu"] for name, code in codes.items()}
        times: dict[str, list[float]] = {name: [] for name in ("loads", *codes)}
        peak = 0.0
        for _ in range(repeats):
            times["loads"].append(_in_process(_LOADS, str(many), str(form in DOCUMENTS))["cpu"])
            for name, code in codes.items():
                run = _in_process(code, str(many), f"{folder}/out.jsonl")
                times[name].append(run["cpu"] - started[name])
                peak = max(peak, run["peak"])
        loads, reading, traces, whole = (statistics.median(times[name]) for name in ("loads", *codes))
        return Measured(form, many.stat().st_size / 1e6, loads, reading, traces - reading, whole - traces, peak)


_LOADS = """
import json
started = time.process_time()
with open(sys.argv[1], "rb") as file:
    for text in [file.read()] if sys.argv[2] == "True" else file:
        json.loads(text)
cpu = time.process_time() - started
"""
_READING = """
from pathlib import Path
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.report import ReadReport
for _ in read_files([Path(sys.argv[1])], ReadReport()):
    pass
cpu = time.process_time()
"""
_TRACES = """
from labeled_traces.readers import read_into
read_into(lambda rows, report: [place for place, _ in rows], sys.argv[1])
cpu = time.process_time()
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
