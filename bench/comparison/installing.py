"""Getting the peers: Debian's by apt-get, the others by pip into virtual environments in the cache folder, one each,
because their programs have the same names."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from comparison import processes
from comparison.drivers import relative

PLOTS = ("plots", ("matplotlib",))
TIMEOUT_S = 1800


def say(text):
    print(text, file=sys.stderr, flush=True)


def how_to(peer, cache):
    """The commands that install a peer, as one can type them."""
    if peer.debian:
        return f"apt-get install {' '.join(peer.debian)}"
    if peer.packages:
        return pip_commands(peer.key, peer.packages, cache)
    return "see its description file"


def pip_commands(name, packages, cache):
    folder = relative(cache / name)
    return f"python3 -m venv {folder} && {folder / 'bin' / 'pip'} install {' '.join(packages)}"


def run(command, log):
    """Returns an error's text, or None."""
    status, error = processes.run_logged(command, log, {"DEBIAN_FRONTEND": "noninteractive"}, TIMEOUT_S)
    return error or (f"{command[0]} ended with {status}; {log} has what it said" if status != 0 else None)


def install_debian(packages, log):
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return f"this needs root and apt-get: sudo apt-get install {' '.join(packages)}"
    apt = ["apt-get", "-q", "-o", "Acquire::Retries=2", "-o", "DPkg::Lock::Timeout=120"]
    return run([*apt, "update"], log) or run([*apt, "install", "-y", "--no-install-recommends", *packages], log)


def install_pip(name, packages, cache, log):
    folder = cache / name
    if not (folder / "bin" / "pip").exists():
        error = run([sys.executable, "-m", "venv", folder], log)
        if error:
            return f"{error} (Debian has venv in the package python3-venv)"
    return run([folder / "bin" / "pip", "install", "--disable-pip-version-check", *packages], log)


def has_matplotlib(python):
    return python.exists() and subprocess.run([python, "-c", "import matplotlib"], capture_output=True, timeout=120,
                                              check=False).returncode == 0


def installed_python(cache):
    """That of the environment for the plots."""
    return cache / PLOTS[0] / "bin" / "python"


def plots_python(cache):
    """A Python that has matplotlib, or None."""
    return next(filter(has_matplotlib, (pathlib.Path(sys.executable), installed_python(cache))), None)


def install(peers, cache):
    """Installs what these peers, and the plots, need; says how it goes. Those that fail are told, and left out."""
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / "install.log"
    steps = [(peer.title, peer.debian, peer.key, peer.packages) for peer in peers if peer.debian or peer.packages]
    if not has_matplotlib(installed_python(cache)):
        steps.append(("matplotlib, for the plots", (), *PLOTS))
    for index, (title, debian, name, packages) in enumerate(steps, start=1):
        say(f"[{index}/{len(steps)}] installing {title} ({', '.join(debian or packages)}) ...")
        begin = time.monotonic()
        error = install_debian(debian, log) if debian else install_pip(name, packages, cache, log)
        say(f"[{index}/{len(steps)}] {'not installed: ' + error if error else 'installed'} "
            f"({time.monotonic() - begin:.0f} s)")
