"""The architecture as rules that run: import direction, no cycles, short files and functions, our own packages."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import time
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "labeled_traces": {"labeled_traces"},
    "judges": {"judges", "labeled_traces"},
    "pipeline": {"pipeline", "judges", "labeled_traces"},
    "experiments": {"experiments", "pipeline", "judges", "labeled_traces"},
}
INSTALLED = ("labeled_traces", "judges", "pipeline")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in MAY_IMPORT
    for path in sorted((ROOT / package).rglob("*.py"))
}


def imports_of(module: str) -> set[str]:
    """The project's modules that this one names in an import, at any depth of its code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{module} uses a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                found.add(name)
    return found - {module}


def test_the_rules_see_the_project() -> None:
    assert len(MODULES) > 30
    assert "labeled_traces.trace" in imports_of("judges.program")


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_only(module: str) -> None:
    package = module.partition(".")[0]
    assert {name.partition(".")[0] for name in imports_of(module)} <= MAY_IMPORT[package]


def test_there_is_no_import_cycle() -> None:
    TopologicalSorter({module: imports_of(module) for module in MODULES}).prepare()


@pytest.mark.parametrize("module", MODULES)
def test_files_and_functions_are_short(module: str) -> None:
    source = MODULES[module].read_text(encoding="utf-8")
    assert source.count("\n") <= 300
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} is too long"


@pytest.mark.parametrize("package", INSTALLED)
def test_the_packages_are_our_own(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).is_relative_to(ROOT)


def test_measurements_are_not_installed_and_each_command_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["packages"]["find"]["include"] == [f"{name}*" for name in INSTALLED]
    told = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    commands = [name for name, path in MODULES.items() if name.startswith("experiments.") and is_command(path)]
    assert [name for name in commands if f"python -m {name}" not in told] == []
    assert "experiments.calls" in commands


def is_command(path: Path) -> bool:
    """Whether it takes arguments of its own: what other commands start is none."""
    source = path.read_text(encoding="utf-8")
    return '__name__ == "__main__"' in source and "ArgumentParser" in source


def test_help_imports_no_heavy_library() -> None:
    """The measured limit of `--help` is 0.5 s; a timed test would be noise, so the cause is tested, with slack."""
    heavy = ["dspy", "gepa", "krippendorff", "litellm", "matplotlib", "mlflow", "openai", "optuna", "pandas"]
    heavy += ["psycopg", "scipy", "sklearn", "sqlalchemy"]
    code = (
        "import sys\nfrom pipeline.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    start = time.monotonic()
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.splitlines()[-1] == "[]"
    assert time.monotonic() - start < 10
