"""Starts the runtime in a process group of its own: ``python launcher.py KEY_VARIABLE COMMAND …``.

A stand-alone script: the key goes from one environment variable into the one that the runtime reads, without being in an
argument or an object of the caller's process. ``-`` for the variable means that there is no key, and none is needed.
"""

import os
import subprocess
import sys


def main(key_variable: str, *command: str) -> None:
    """Become the runtime."""
    key = os.environ.get(key_variable, "")
    for name in [name for name in os.environ if key_variable == "-" and name.endswith("_API_KEY")]:
        del os.environ[name]
    os.environ["DEEPSEEK_API_KEY"] = key or "none"
    if os.name == "posix":
        os.setsid()
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    sys.exit(subprocess.call(command))  # noqa: S603 - the runtime of the installed wheel


if __name__ == "__main__":
    main(*sys.argv[1:])
