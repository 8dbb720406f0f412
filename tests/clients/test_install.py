"""The commands that install Herma from its source run as the pages have them, in a clone and with an empty home."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from blocks import blocks

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.1.0"
# For all commands of a test, in seconds. A release build takes four minutes on two idle cores, twenty on busy ones.
LIMIT = 35 * 60


def installing(page):
    """The blocks that the test of the pages leaves to this one."""
    found = blocks((ROOT / page).read_text())
    return ["\n".join(block.lines) for block in found if "tests/clients/test_install.py" in (block.value or "")]


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # One clone for all tests, so that its target directory makes one release build for all of them.
        directory = tempfile.TemporaryDirectory(prefix="herma-install-")
        cls.addClassCleanup(directory.cleanup)
        cls.clone = Path(directory.name, "herma")
        subprocess.run(["git", "clone", "--quiet", ROOT, cls.clone], check=True)

    def setUp(self):
        home = tempfile.TemporaryDirectory(prefix="herma-install-home-")
        self.addCleanup(home.cleanup)
        self.home = Path(home.name)
        user = Path.home()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            # The compiler and the downloaded sources are this machine's, what is installed goes into the empty home.
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(user / ".rustup")),
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(user / ".cargo")),
            "CARGO_INSTALL_ROOT": str(self.home / ".cargo"),
            # Libraries stay compiled for the next run.
            "CARGO_BUILD_BUILD_DIR": os.environ.get("CARGO_BUILD_BUILD_DIR", f"{os.environ['CLIENTS_DIR']}/install"),
        }

    def run_here(self, script):
        try:
            done = subprocess.run(["bash", "-e", "-c", script], cwd=self.clone, env=self.environment, text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=LIMIT)
        except subprocess.TimeoutExpired as expired:
            self.fail(f"not done after {LIMIT} seconds: {script}\n{(expired.stdout or b'')[-4000:].decode()}")
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout[-4000:]}")
        return done.stdout

    def test_the_readme_installs_a_binary_that_runs(self):
        (install,) = installing("README.md")
        self.assertIn(f"herma {VERSION}", self.run_here(f"{install}\nherma --version"))
        self.assertTrue((self.home / ".cargo/bin/herma").is_file())

    def test_the_page_about_installing_builds_installs_and_packs(self):
        printed = self.run_here("\n".join(installing("docs/INSTALL.md")))
        self.assertIn(f"herma {VERSION}", printed)
        self.assertIn("You said: Hello", printed)
        dist = self.clone / "target/dist"
        (package,) = dist.glob(f"herma_{VERSION}_*.deb")
        (archive,) = dist.glob(f"herma-{VERSION}-*.tar.gz")
        for unpack, binary in [(f"dpkg-deb -x {package} .", "usr/bin/herma"), (f"tar xf {archive} --strip 1", "herma")]:
            with tempfile.TemporaryDirectory() as directory:
                version = f"cd {directory} && {unpack} && ./{binary} --version"
                self.assertEqual(self.run_here(version), f"herma {VERSION}\n")
        self.assertIn((dist / f"herma-{VERSION}.tar.gz").as_uri(), (dist / "herma.rb").read_text())


if __name__ == "__main__":
    unittest.main()
