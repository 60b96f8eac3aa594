"""Makes an SBOM of cyclonedx-gomod the same bytes for the same program: python sbom.py FILE."""

import datetime
import json
import os
import sys

path = sys.argv[1]
with open(path) as file:
    bom = json.load(file)
of = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
bom["metadata"]["timestamp"] = of.strftime("%Y-%m-%dT%H:%M:%SZ")
bom.pop("serialNumber", None)
bom["components"].sort(key=lambda component: component["bom-ref"])
bom.get("dependencies", []).sort(key=lambda dependency: dependency["ref"])
with open(path, "w") as file:
    json.dump(bom, file, indent=1, ensure_ascii=False)
    file.write("\n")
