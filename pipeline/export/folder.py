"""The tuned judges of a run as a folder that stands alone: programs, rule, manifest, a page for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from judges.lm import JudgeError
from labeled_traces.files import parse_json, read_text, write_lines
from labeled_traces.trace import TraceError
from pipeline.export.run_export import TunedRun
from pipeline.export.scorer import READS
from pipeline.run_folder import JUDGES, MANIFEST, PLACES

README = "README.md"


def export_to_folder(run: TunedRun, out: Path) -> dict[str, Any]:
    """Writes the folder, and returns its manifest. The same run again writes the same bytes.

    Raises:
        JudgeError: the folder holds other judges, or other files.
    """
    manifest = _manifest(run)
    _check_ours(out, manifest)
    # First, so that an export that is stopped can be started again.
    write_lines(out / MANIFEST, [json.dumps(manifest, indent=1, ensure_ascii=True)])
    if run.folder[PLACES].is_file():  # what these judges were tuned on goes with them
        write_lines(out / PLACES, read_text(run.folder[PLACES]).splitlines())
    run.suite.save(out / JUDGES)
    write_lines(out / README, [_readme(manifest)])
    return manifest


def _check_ours(out: Path, manifest: dict[str, Any]) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        there = parse_json((out / MANIFEST).read_text(encoding="utf-8"), MANIFEST)
        what = f"the judges of {there['run']}"
        ours = any(there[key] == manifest[key] for key in ("run", "suite"))
    except (TraceError, OSError, UnicodeDecodeError, KeyError, TypeError):
        what, ours = "files that no export wrote", False
    if not ours:
        raise JudgeError(f"{out} holds {what}: accepted is a new folder, an empty one, or one of the same judges")


def _manifest(run: TunedRun) -> dict[str, Any]:
    return {
        "run": run.folder.name,
        "verdict": run.verdict or None,
        "unchanged": run.unchanged,
        "notes": list(run.cautions),
        "simulated": run.simulated,
        "suite": run.suite.hash,
        "decision_rule": run.suite.rule.to_json(),
        "judges": {
            name: {
                "folder": f"{JUDGES}/{name}",
                "program": program.hash,
                "model": program.knobs.model,
                "endpoint": program.knobs.endpoint,
                "layout": program.knobs.layout,
            }
            for name, program in run.suite.programs.items()
        },
    }


def _readme(manifest: dict[str, Any]) -> str:
    names = "\n".join(f"- `{row['folder']}`: {name}, for {row['model']}" for name, row in manifest["judges"].items())
    verdict = manifest["verdict"] or "not validated"
    notes = "".join(f"\n\n{note[0].upper()}{note[1:]}." for note in manifest["notes"])
    simulated = "\n\nThe traces or the model were simulated: this says nothing of real ones." * manifest["simulated"]
    return f"""\
# Judges of {manifest["run"]}

Verdict on held-out traces: {verdict}.{notes}{simulated}

{names}

Each folder is one judge: `rubric.md`, `architecture_notes.md`, `examples.jsonl`, `output_template.md`, `knobs.yaml`.
`{JUDGES}/decision_rule.yaml` turns what they find into what is reported. `{MANIFEST}` says the same to programs.

    gpa-judges evaluate data.jsonl --judges .

`gpa-judges export RUN --to mlflow` registers them in MLflow, as scorers.

{READS}"""
