"""`operator release verify`, as a person types it before an upgrade."""

from __future__ import annotations

from operator_sre.app.release_files import SIGNATURE, SIGNED, SUMS, sum_of
from operator_sre.ledger import KeyFile
from tests.e2e.home import Home


def test_a_release_is_verified_with_a_key_and_refused_once_a_file_differs(home: Home) -> None:
    signer, folder = KeyFile(home.cwd / "release.key"), home.cwd / "dist"
    folder.mkdir()
    file = folder / "constraints.txt"
    file.write_text("msgspec==1\n")
    (folder / SUMS).write_text(f"{sum_of(file)}  {file.name}\n")
    (folder / SIGNATURE).write_text(signer.sign(SIGNED + (folder / SUMS).read_bytes()).hex())
    without = home.run("release", "verify", "dist")
    assert (without.code, "without a release key" in without.err) == (2, True)
    done = home.run("release", "verify", "dist", "--key", signer.key)
    assert (done.code, "1 files are unchanged" in done.out) == (0, True), done
    file.write_text("msgspec==2\n")
    refused = home.run("release", "verify", "dist", "--key", signer.key)
    assert (refused.code, "Do not install it" in refused.err) == (1, True), refused
