"""Puts the executable, its manual pages, completions and SBOM into the wheel, which is one platform's."""

import os
import pathlib
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Executable(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # only the module; the command is found on PATH or by QUIRE_SAMPLE
            return
        files = pathlib.Path(os.environ["QUIRE_DIST_FILES"])  # the contents of a tarball
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["QUIRE_WHEEL_TAG"]
        build_data["shared_scripts"] = {str(files / "sample"): "sample"}
        build_data["sbom_files"] = [str(files / "sample.cdx.json")]
        build_data["shared_data"] = {
            str(files / source): target
            for source, target in {
                "man/man1": "share/man/man1",
                "completions/sample.bash": "share/bash-completion/completions/sample",
                "completions/_sample": "share/zsh/site-functions/_sample",
                "completions/sample.fish": "share/fish/vendor_completions.d/sample.fish",
            }.items()
        }
