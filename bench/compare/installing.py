"""Getting the peers: Debian's by apt-get, the others by pip into virtual environments in the cache folder, one each,
because their programs have the same names."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

from compare.processes import StepError, relative, run_step

PLOTS = ("plots", ("matplotlib",))


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


def install_debian(packages, log):
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise StepError(f"this needs root and apt-get: sudo apt-get install {' '.join(packages)}")
    apt = ["apt-get", "-q", "-o", "Acquire::Retries=2", "-o", "DPkg::Lock::Timeout=120"]
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        run_step([*apt, *words], log, {"DEBIAN_FRONTEND": "noninteractive"})


def install_pip(name, packages, cache, log):
    pip = cache / name / "bin" / "pip"
    if not pip.exists():
        run_step([sys.executable, "-m", "venv", cache / name], log)
    run_step([pip, "install", "--disable-pip-version-check", *packages], log)


def has_matplotlib(python):
    return python.exists() and subprocess.run([python, "-c", "import matplotlib"], capture_output=True, timeout=120,
                                              check=False).returncode == 0


def plots_python(cache):
    """A Python that has matplotlib, or None."""
    return next(filter(has_matplotlib, (pathlib.Path(sys.executable), cache / PLOTS[0] / "bin" / "python")), None)


def install(peers, cache):
    """Installs what these peers, and the plots, need; says how it goes. Those that fail are told, and left out."""
    cache.mkdir(parents=True, exist_ok=True)
    log = cache / "install.log"
    steps = [(peer.title, peer.debian, peer.key, peer.packages) for peer in peers if peer.debian or peer.packages]
    if not plots_python(cache):
        steps.append(("matplotlib, for the plots", (), *PLOTS))
    for index, (title, debian, name, packages) in enumerate(steps, start=1):
        at = f"[{index}/{len(steps)}]"
        print(f"{at} installing {title} ({', '.join(debian or packages)}) ...", file=sys.stderr)
        begin, outcome = time.monotonic(), "installed"
        try:
            install_debian(debian, log) if debian else install_pip(name, packages, cache, log)
        except StepError as error:
            outcome = f"not installed: {error}"
        print(f"{at} {outcome} ({time.monotonic() - begin:.0f} s)", file=sys.stderr)
