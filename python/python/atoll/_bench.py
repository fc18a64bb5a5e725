"""Experiments: `atoll bench` with its result rows as a DataFrame."""

import json
import os
import pathlib
import shutil
import subprocess


class BenchError(RuntimeError):
    """The program could not be found or run; its own words are in the text."""


def program():
    """The path of the program `atoll`: that of the environment variable ATOLL, or on PATH, or of the
    repository in which the current directory is."""
    named = os.environ.get("ATOLL")
    if named:
        return named
    found = shutil.which("atoll")
    if found:
        return found
    here = pathlib.Path.cwd()
    for folder in [here, *here.parents]:
        built = folder / "target" / "release" / "atoll"
        if (folder / "run").exists() and built.exists():
            return str(built)
    raise BenchError("the program atoll was not found: set ATOLL to its path, or build it with ./run")


def arguments(workload, options):
    """The command line: `multisite=[0, 50]` is `--multisite 0,50`, `profile=True` is `--profile`."""
    line = ["bench", workload]
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            line.append(option)
        elif value is False or value is None:
            continue
        elif isinstance(value, (list, tuple, range)):
            line += [option, ",".join(str(item) for item in value)]
        else:
            line += [option, str(value)]
    return line + ["--json"]


def rows(workload="micro", **options):
    """The result rows of `atoll bench`, as dictionaries."""
    command = [program(), *arguments(workload, options)]
    try:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as why:
        raise BenchError(f"{command[0]}: {why}") from None
    if ran.returncode != 0:
        raise BenchError(f"{' '.join(command)} ended with {ran.returncode}: {ran.stderr.strip()}")
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def bench(workload="micro", **options):
    """Runs `atoll bench WORKLOAD` with these options, and returns a pandas DataFrame with a line for
    each result row. Lists sweep. `atoll bench --help` names the options and the columns."""
    import pandas

    return pandas.DataFrame(rows(workload, **options))
