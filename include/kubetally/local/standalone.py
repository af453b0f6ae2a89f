"""`airflow standalone` without its log servers.

They listen on every address of the machine, and one machine's api-server reads the log files
itself. `python -m kubetally.local.standalone` is otherwise the command as released.
"""

from __future__ import annotations

from typing import Any

from airflow.cli.commands import standalone_command


class _SubCommand(standalone_command.SubCommand):  # type: ignore[misc]
    def __init__(self, parent: Any, name: str, command: list[str], env: dict[str, str]) -> None:
        if name in ("scheduler", "triggerer"):
            command = [*command, "--skip-serve-logs"]
        super().__init__(parent, name=name, command=command, env=env)


if __name__ == "__main__":
    standalone_command.SubCommand = _SubCommand
    standalone_command.StandaloneCommand().run()
