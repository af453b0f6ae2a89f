"""`python -m kubetally.local.install FILE`: installs a locked requirements file into this venv.

With uv when it can be had (seconds), else with pip (minutes). Standard library only: it runs
before anything is installed. uv does not read pip's configuration, so that is handed over to it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PIP_TO_UV = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "trusted-host": "UV_INSECURE_HOST",
}


def main(path: str) -> int:
    """The exit status of the installer that was used last."""
    uv = Path(sys.executable).with_name("uv")
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    if not uv.exists():
        subprocess.run([*pip, "uv"], check=False)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    print(f"Installing {path} …", flush=True)
    if uv.exists():
        # Byte code now: it halves the start of every Airflow process.
        command: list[str | Path] = [
            uv,
            "pip",
            "install",
            "--python",
            sys.executable,
            "--compile-bytecode",
        ]
        command += ["--quiet", "--require-hashes", "-r", path]
        if (
            subprocess.run(
                command, check=False, env=uv_environment(_pip_settings(), env)
            ).returncode
            == 0
        ):
            return 0
        print("uv could not do it; pip tries, which takes some minutes …", flush=True)
    return subprocess.run([*pip, "--require-hashes", "-r", path], check=False, env=env).returncode


def uv_environment(pip: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """`env` with pip's settings under uv's names. What is said to uv itself comes first."""
    found = {PIP_TO_UV[name]: value for name, value in pip.items() if name in PIP_TO_UV}
    if "UV_FIND_LINKS" in found:  # the one list that uv separates by commas
        found["UV_FIND_LINKS"] = ",".join(found["UV_FIND_LINKS"].split())
    if "UV_INDEX_URL" in env:  # the older name of the same setting
        found.pop("UV_DEFAULT_INDEX", None)
    return {"UV_HTTP_TIMEOUT": "180", **found, **env}


def parse_pip_config(text: str) -> dict[str, str]:
    """The output of `pip config list` by setting: `:env:` over `install` over `global`."""
    found: dict[str, tuple[int, str]] = {}
    rank = {"global": 0, "install": 1, ":env:": 2}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        section, _, key = name.partition(".")
        words = shlex.split(value)
        if equals and section in rank and words and rank[section] >= found.get(key, (0, ""))[0]:
            # several values are separated by spaces, or by line breaks that pip shows as \\n
            found[key] = (rank[section], " ".join(words[0].replace("\\n", " ").split()))
    return {key: value for key, (_, value) in found.items()}


def _pip_settings() -> dict[str, str]:
    shown = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=False, capture_output=True, text=True
    )
    return parse_pip_config(shown.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
