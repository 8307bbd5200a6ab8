"""A root with Debian 12 and nothing else, in which commands are typed. It is made of this machine's apt sources, kept
in a folder for the next time, and copied for each use. Mounts are in a namespace of their own, and processes too: both
end with the shell."""

import fcntl
import os
import pathlib
import shutil
import subprocess

RELEASE = "bookworm"
MADE_SECONDS_MAX = 400
DOCUMENTATION = ("usr/share/doc", "usr/share/locale", "usr/share/man")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "dumb",
               "LC_ALL": "C.UTF-8"}

# What a shell in the root needs. /dev/shm is the root's own, and so are its processes.
ENTER = r"""
set -e
root=$1
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
exec chroot "$root" bash
"""
NAMESPACES = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--ipc"]


class Unavailable(Exception):
    """This machine has not what it takes; says what."""


def _sources():
    """The files that say where this machine's apt gets Debian from."""
    folder = pathlib.Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list")),
             *sorted((folder / "sources.list.d").glob("*.sources"))]
    return [path for path in files if path.is_file() and path.read_text(encoding="utf-8").strip()]


def _require():
    if os.getuid() != 0:
        raise Unavailable("only root can make a Debian root")
    for program in ("mmdebstrap", "unshare", "chroot", "mount"):
        if not shutil.which(program):
            raise Unavailable(f"{program} is not installed")
    release = pathlib.Path("/etc/os-release")
    if not release.is_file() or f"VERSION_CODENAME={RELEASE}\n" not in release.read_text(encoding="utf-8"):
        raise Unavailable("this machine is not Debian 12, so its apt sources have other packages")
    tried = subprocess.run([*NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True,
                           check=False)
    if tried.returncode != 0:
        raise Unavailable(f"namespaces or mounts are forbidden: {tried.stderr.strip()}")


def _leave_out_documentation(root):
    """Of what dpkg is to install from now on, too. mmdebstrap, if it were told so, would filter each package by Python."""
    (root / "etc/dpkg/dpkg.cfg.d/documentation").write_text(
        "".join(f"path-exclude=/{folder}/*\n" for folder in DOCUMENTATION), encoding="ascii")
    for folder in DOCUMENTATION:
        shutil.rmtree(root / folder)
        (root / folder).mkdir()


def _make(root, log):
    """Debian's essential packages and apt, without waiting for the disk. A container's apt keeps its lists compressed, and
    so takes longer to read them."""
    settings = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
    apt = root.with_suffix(".apt")
    apt.write_text(settings + 'Acquire::GzipIndexes "false";\n', encoding="utf-8")
    command = ["mmdebstrap", "--mode=root", "--variant=apt", f"--aptopt={apt}", "--dpkgopt=force-unsafe-io",
               RELEASE, root, *_sources()]
    with open(log, "w", encoding="utf-8") as file:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False,
                              timeout=MADE_SECONDS_MAX)
    if done.returncode != 0:
        shutil.rmtree(root, ignore_errors=True)
        lines = pathlib.Path(log).read_text(encoding="utf-8", errors="replace").strip().split("\n")
        raise Unavailable(f"Debian's packages cannot be had; the end of {log}: {lines[-1]}")


class DebianRoot:
    """A copy, in `folder`, of the root below `cache`, which is made if it is not there. Raises Unavailable."""

    def __init__(self, cache, folder):
        _require()
        base = cache / "debian"
        with open(cache / "lock", "w", encoding="utf-8") as lock:  # one test makes it, and others wait
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not base.is_dir():
                made = cache / "debian.part"
                shutil.rmtree(made, ignore_errors=True)
                _make(made, cache / "debian.log")
                _leave_out_documentation(made)
                made.rename(base)
        self.path = folder / "root"
        subprocess.run(["cp", "-a", base, self.path], check=True)
        for name in ("resolv.conf", "hosts"):
            if pathlib.Path("/etc", name).is_file():
                shutil.copyfile(pathlib.Path("/etc", name), self.path / "etc" / name)

    def run(self, script, seconds):
        """Runs bash in the root on the script; what it printed, errors among it."""
        done = subprocess.run([*NAMESPACES, "bash", "-c", ENTER, "bash", self.path], input=script, env=ENVIRONMENT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=seconds, check=False)
        return done.stdout
