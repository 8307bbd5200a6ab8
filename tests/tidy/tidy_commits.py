"""The subject of a commit fits a line, and names one thing."""

import os
import subprocess
import unittest

import source_tree

BASE = "31de979b55b40db5e3a5baf0c5f0596c35d636da"  # this commit and those before it are let be
SUBJECT_MAX = 72


def git(tree, *arguments):
    # Without what a hook's git sets, which names the repository of the hook.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tree.root,
                          env=environment, capture_output=True, encoding="utf-8", errors="replace", timeout=50)


def has_history(tree, base):
    """Not so in a tarball, nor in a shallow clone that ends after `base`."""
    try:
        return git(tree, "merge-base", "--is-ancestor", base, "HEAD").returncode == 0
    except FileNotFoundError:
        return False


def problems(tree, base):
    log = git(tree, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD")
    if log.returncode != 0:
        return [log.stderr]
    found = []
    for line in log.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > SUBJECT_MAX:
            found.append(f"{commit}: a subject of {len(subject)} characters, more than {SUBJECT_MAX}: {subject}")
        elif ";" in subject:
            found.append(f"{commit}: a subject with \";\", make two commits of it: {subject}")
    return found


@unittest.skipUnless(has_history(source_tree.project(), BASE), f"no git history here that goes back to {BASE}")
class Commits(source_tree.Rule):
    def commit(self, tree, subject):
        result = git(tree, "commit", "--allow-empty", "--message", subject)
        self.assertEqual(0, result.returncode, result.stderr)

    def repository(self, tree, *subjects):
        """Makes a repository of these commits after a first one, which it gives."""
        git(tree, "init")
        self.commit(tree, "a; b" * 20)
        base = git(tree, "rev-parse", "HEAD").stdout.strip()
        for subject in subjects:
            self.commit(tree, subject)
        return base

    def test_project(self):
        self.assert_clean(problems(source_tree.project(), BASE))

    def test_rejects_each_kind(self):
        for subject in ("a" * (SUBJECT_MAX + 1), "lines: one thing; another"):
            with self.subTest(subject), source_tree.example({"a": ""}) as tree:
                self.assert_one(problems(tree, self.repository(tree, "a", subject, "b")), f": {subject}$")

    def test_accepts_longest(self):
        with source_tree.example({"a": ""}) as tree:
            self.assert_clean(problems(tree, self.repository(tree, "ä" * SUBJECT_MAX)))

    def test_needs_history(self):
        with source_tree.example({"a": ""}) as tree, source_tree.example({"a": ""}) as clone:
            self.assertFalse(has_history(tree, BASE))
            base = self.repository(tree, "a", "b")
            self.assertTrue(has_history(tree, base))
            cloned = git(clone, "clone", "--depth", "1", tree.root.as_uri(), "shallow")
            self.assertEqual(0, cloned.returncode, cloned.stderr)
            self.assertFalse(has_history(source_tree.SourceTree(clone.root / "shallow"), base))


if __name__ == "__main__":
    source_tree.main()
