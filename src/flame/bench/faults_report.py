"""What a campaign of bit flips came to, as numbers and as tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["OUTCOMES", "faults_summary", "faults_tables"]

OUTCOMES = ("corrected", "detected", "harmless", "silent")
"""Found and mended; found, the tile flagged; not found and without effect on the mask; not found and the mask wrong."""

_BIT_GROUPS = {
    "sign": (31,),
    "exponent, top bit": (30,),
    "exponent": tuple(range(23, 30)),
    "fraction": tuple(range(23)),
}

_ENOUGH = 30

Records = Sequence[Mapping[str, Any]]


def faults_summary(
    records: Mapping[str, Records],
    weight_bytes: Mapping[str, int],
    buffer_bytes: Mapping[str, int],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Counts and rates.

    Args:
        records: By job, as `run_faults` gives them.
        weight_bytes: Bytes of each stratum of the constants.
        buffer_bytes: Bytes of each stratum of buffers and inputs.
        facts: Model, runtime and machine, to stand beside them.
    """
    buffers = [dict(record) for record in records["buffers"]]
    guarded = [record | {"outcome": record["guarded"]} for record in buffers]
    sets = {
        "weights_without": (records["weights_unguarded"], weight_bytes),
        "weights_with": (records["weights"], weight_bytes),
        "buffers_without": (buffers, buffer_bytes),
        "buffers_with": (guarded, buffer_bytes),
    }
    return dict(facts) | {
        "proofs": _counts(records["proofs"]),
        "weight_bytes": dict(weight_bytes),
        "buffer_bytes": dict(buffer_bytes),
        "sets": {name: _told(found, sizes) for name, (found, sizes) in sets.items()},
    }


def _told(records: Records, sizes: Mapping[str, int]) -> dict[str, Any]:
    by_size = {
        "single": [record for record in records if record["bits"] == 1],
        "burst": [record for record in records if record["bits"] > 1],
    }
    return {
        "flips": len(records),
        "all": _rates(records, sizes),
        **{name: {"flips": len(found)} | _rates(found, sizes) for name, found in by_size.items()},
        "by_stratum": {stratum: _counts(r for r in records if r["stratum"] == stratum) for stratum in sizes},
        "by_bit": {
            group: _counts(r for r in by_size["single"] if r["bit"] % 32 in places)
            for group, places in _BIT_GROUPS.items()
        },
    }


def _counts(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    found = Counter(record["outcome"] for record in records)
    return {outcome: found[outcome] for outcome in OUTCOMES}


def _rates(records: Records, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Counts, and the rate of each outcome over all bits of the memory: strata weighed by their bytes."""
    counts = _counts(records)
    strata = {stratum: _counts(r for r in records if r["stratum"] == stratum) for stratum in sizes}
    struck = {stratum: sum(found.values()) for stratum, found in strata.items()}
    whole = sum(size for stratum, size in sizes.items() if struck[stratum])
    rates = (
        {
            outcome: sum(sizes[s] / whole * strata[s][outcome] / struck[s] for s in sizes if struck[s])
            for outcome in OUTCOMES
        }
        if whole
        else {}
    )
    least = min(struck.values(), default=0)
    return {
        "counts": counts,
        "rates": rates,
        "least_in_a_stratum": least,
        "silent_below": _upper(counts["silent"], len(records)),
    }


def _upper(count: int, flips: int) -> float | None:
    """What the share of silent flips is below with 95 % confidence, all flips alike (Clopper and Pearson 1934)."""
    if flips == 0:
        return None
    if count == 0:
        return 1.0 - math.pow(0.05, 1.0 / flips)
    from scipy.stats import beta

    return float(beta.ppf(0.95, count + 1, flips - count))


def faults_tables(summary: Mapping[str, Any]) -> str:
    """The tables in Markdown: all memory, by bit, by layer."""
    names = {
        "weights_without": "weights and tables, no guard",
        "weights_with": "weights and tables, guard",
        "buffers_without": "buffers and inputs, no guard",
        "buffers_with": "buffers and inputs, guard",
    }
    sets = summary["sets"]
    rows = []
    for key, words in names.items():
        for kind, label in (("single", "one bit"), ("burst", "four bits")):
            found = sets[key][kind]
            rows.append([words, label, str(found["flips"]), *(_cell(found, outcome) for outcome in OUTCOMES)])
    parts = [_table(["struck", "by", "flips", *OUTCOMES], rows)]
    bits = [[names[key], *(_silent(sets[key]["by_bit"][group]) for group in _BIT_GROUPS)] for key in names]
    parts.append(_table(["silent of one-bit flips in", *_BIT_GROUPS], bits))
    for what, sizes in (("weights", summary["weight_bytes"]), ("buffers", summary["buffer_bytes"])):
        without, within = sets[f"{what}_without"]["by_stratum"], sets[f"{what}_with"]["by_stratum"]
        layers = [
            [f"`{stratum}`", f"{size / 1e6:.3f}", _silent(without[stratum]), _silent(within[stratum])]
            for stratum, size in sorted(sizes.items(), key=lambda entry: -entry[1])
        ]
        header = ["layer" if what == "weights" else "buffer or input", "MB", "silent, no guard", "silent, guard"]
        parts.append(_table(header, layers))
    return "\n\n".join(parts)


def _cell(found: Mapping[str, Any], outcome: str) -> str:
    """Counts, with the rate over all memory once every layer has been struck often enough for it to mean something."""
    count = str(found["counts"][outcome])
    enough = found["least_in_a_stratum"] >= _ENOUGH
    return f"{100 * found['rates'][outcome]:.2f} % ({count})" if enough else count


def _silent(counts: Mapping[str, int]) -> str:
    return f"{counts['silent']} of {sum(counts.values())}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
