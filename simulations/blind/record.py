"""Keep the outcome of a blind test beside the code: `python -m simulations.blind.record DOCUMENT.json` (`--format json`).

Outcomes are kept whatever they say. A band or range that fails is changed in a new commit, and the test is run again with
the new hash; both files stay in `simulations/blind/outcomes`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulations.blind.draw import drawn
from simulations.blind.score import coverages, out_of_range_share, rows_in_range

OUTCOMES = Path(__file__).resolve().parent / "outcomes"


def outcome(document: Mapping[str, Any]) -> dict[str, Any]:
    """Commit, coverage by regime, share out of range, and every miss, from the JSON document of blind_test."""
    commit = document["rows"][0]["setting"]["commit"]
    numbers = sorted({row["setting"]["number"] for row in document["rows"]})
    rows = rows_in_range(document["rows"], {number: drawn(commit, number) for number in numbers})
    return {
        "commit": commit,
        "seed": document["seed"],
        "draws": document["provenance"]["draws"],
        "settings": len(numbers),
        "out_of_range": round(out_of_range_share(document["rows"]), 4),
        "coverage": [dataclasses.asdict(one) for one in coverages(rows)],
        "misses": [
            {
                "number": row.number,
                "layer": row.words,
                "quantity": row.quantity,
                "predicted": row.predicted,
                "band": row.band,
                "measured": row.measured,
                "interval": row.interval,
                "clear": row.clear,
            }
            for row in rows
            if not row.held
        ],
    }


def main(argv: Sequence[str]) -> int:
    """Write the outcome of each document under the hash of its commit."""
    if not argv:
        print("usage: python -m simulations.blind.record DOCUMENT.json ...", file=sys.stderr)
        return 2
    OUTCOMES.mkdir(exist_ok=True)
    for path in argv:
        found = outcome(json.loads(Path(path).read_text()))
        target = OUTCOMES / f"{found['commit'][:12]}.json"
        misses = found.pop("misses")
        head = json.dumps(found, indent=1)[:-2]
        lines = ",\n".join("  " + json.dumps(miss) for miss in misses)  # one line a miss
        target.write_text(f'{head},\n "misses": [\n{lines}\n ]\n}}\n')
        print(target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
